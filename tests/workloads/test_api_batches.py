"""Many reports in one request: each judged on its own, answered in order."""

from tests.workloads.test_api import PATH, claim_and_start, client, create, fits, worker  # noqa: F401 - fixtures


def report(claim, **members):
    return {**{name: claim[name] for name in ("workload_id", "claim_id", "fencing_token")}, **members}


def begun(client, worker, key):  # noqa: F811
    workload_id = create(client, key).json()["workload_id"]
    return {**claim_and_start(worker, workload_id), "workload_id": workload_id}


def test_a_stale_report_hinders_no_other_and_repeating_all_gives_the_same(client, worker):  # noqa: F811
    first, second = begun(client, worker, "a"), begun(client, worker, "b")
    stale = report(second, result_id="s", output=0) | {"fencing_token": 9}
    body = {
        "worker_id": "w1",
        "reports": [report(first, result_id="a", output={"n": 1}), stale, report(second, result_id="b", output=2)],
    }
    answer = fits("WorkloadCompletedMany", worker.post_json(f"{PATH}/complete", body).json())["answers"]
    assert [each["workload_id"] for each in answer] == [first["workload_id"]] + [second["workload_id"]] * 2
    assert answer[0]["result"]["output"] == {"n": 1}
    assert answer[1]["error"]["code"] in ("WORKLOAD_STALE_FENCE", "WORKLOAD_CLAIM_INVALID")
    assert answer[2]["result"]["result_id"] == "b"
    again = worker.post_json(f"{PATH}/complete", body).json()["answers"]
    assert [again[0], again[2]] == [answer[0], answer[2]]


def test_failures_are_judged_each_by_its_own_kind(client, worker):  # noqa: F811
    first, second = begun(client, worker, "a"), begun(client, worker, "b")
    missing = report(first, kind="timeout") | {"workload_id": "workload_000000000000000000000000"}
    body = {
        "worker_id": "w1",
        "reports": [report(first, kind="timeout"), missing, report(second, kind="execution_error")],
    }
    answer = fits("WorkloadFailedMany", worker.post_json(f"{PATH}/fail", body).json())["answers"]
    assert answer[0]["state"] == "READY"
    assert answer[1]["error"]["code"] == "WORKLOAD_NOT_FOUND"
    assert answer[2]["state"] == "DEAD_LETTER"


def test_a_batch_of_none_or_of_more_than_a_hundred_is_refused(client, worker):  # noqa: F811
    one = report(begun(client, worker, "a"), kind="timeout")
    for reports in ([], [one] * 101):
        assert worker.post_json(f"{PATH}/fail", {"worker_id": "w1", "reports": reports}).status_code == 400
