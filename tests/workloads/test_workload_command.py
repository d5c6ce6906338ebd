"""`manage.py workload`: every subcommand, its JSON and its exit codes."""

import json
from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from apps.keys.audit.models import AuditEvent
from apps.workloads.commands import Completion, Failure, RetryPolicy
from apps.workloads.models import Workload
from apps.workloads.services import complete, fail
from tests.workloads.conftest import NAMESPACE
from tests.workloads.test_api import fits

pytestmark = pytest.mark.django_db


@pytest.fixture
def run(namespace):
    """A function that runs a subcommand and returns what it prints."""

    def make(*arguments, namespace=NAMESPACE):
        out = StringIO()
        call_command("workload", *arguments, "--namespace", namespace, stdout=out, stderr=StringIO())
        return out.getvalue()

    return make


def refused(run, *arguments, code=1, **members):
    with pytest.raises(SystemExit) as ended:
        run(*arguments, **members)
    assert ended.value.code == code


def test_work_is_created_listed_shown_and_cancelled(run, tmp_path):
    file = tmp_path / "work.json"
    file.write_text(json.dumps({"definition_id": "identity", "idempotency_key": "k", "input": {"n": 1}}))
    made = fits("Workload", json.loads(run("create", "--input", str(file), "--json")))
    again = json.loads(run("create", "--input", str(file), "--json"))
    assert again["workload_id"] == made["workload_id"] and made["requested_by"]["id"] == "command-line"
    listed = json.loads(run("list", "--state", "READY", "--definition-id", "identity", "--json"))
    assert fits("WorkloadSummary", listed["workloads"][0])["workload_id"] == made["workload_id"]
    assert made["workload_id"] in run("list") and "no such work" in run("list", "--state", "SUCCEEDED")
    assert "READY" in run("show", made["workload_id"])
    cancelled = json.loads(run("cancel", made["workload_id"], "--reason", "twice", "--json"))
    assert cancelled["state"] == "CANCELLED"
    assert "READY -> CANCELLED by human:command-line  reason=twice" in run("history", made["workload_id"])
    event = AuditEvent.objects.get(action="workload.cancel")
    assert (event.target, event.reason) == (made["workload_id"], "twice")
    refused(run, "cancel", made["workload_id"])


def test_dead_work_is_retried_and_history_and_result_are_read(run, make_work, run_work, clock):
    work = make_work(retry_policy=RetryPolicy(max_attempts=1))
    fail(run_work(work).fence, Failure(kind="broken", error="no ink\nat all"), now_ms=clock.ms)
    assert "broken: no ink" in run("list", "--state", "DEAD_LETTER")
    assert "attempt 1 by w1: FAILED broken no ink" in run("show", work.workload_id)
    assert "none: the work is DEAD_LETTER" in run("result", work.workload_id)
    assert json.loads(run("retry", work.workload_id, "--json"))["state"] == "READY"
    Workload.objects.update(eligible_at_ms=0)
    claim = run_work(work)
    assert "held by w1" in run("show", work.workload_id)
    complete(claim.fence, Completion(result_id="r", output={"k": 1}), now_ms=clock.ms)
    assert run("result", work.workload_id).strip() == '{"k":1}'
    result = fits("WorkloadResultAnswer", json.loads(run("result", work.workload_id, "--json")))
    assert result["result"]["output"] == {"k": 1}
    fits("WorkloadHistory", json.loads(run("history", work.workload_id, "--json")))


@pytest.fixture
def run_work(take, clock):
    from apps.workloads.services import start

    def make(work):
        claim = take(work)
        start(claim.fence, now_ms=clock.ms)
        return claim

    return make


def test_refusals_end_with_their_exit_codes(run, tmp_path):
    refused(run, "show", "workload_nothing")
    refused(run, "list", namespace="nowhere")
    refused(run, "create", "--input", str(tmp_path / "missing.json"), code=3)
    bad = tmp_path / "bad.json"
    for text in ("{", '{"definition_id": 1}'):
        bad.write_text(text)
        refused(run, "create", "--input", str(bad))
    with pytest.raises((SystemExit, CommandError)):
        run("list", "--state", "NOWHERE")
