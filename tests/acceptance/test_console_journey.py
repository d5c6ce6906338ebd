"""The operator's whole journey in a real browser, over a real server and a real worker, as one test.

Everything is reached by clicking what the pages offer; records come over the API, with the key that was issued on the
way. Cost: about four minutes on two busy cores, most of it 1,200 dead letters and their retries. Pictures of every
step, wide and light, narrow and dark, in tests/screenshots/ (kept out of the repository); `make screenshots` chooses
those of docs/operators.md from them.
"""

from collections.abc import Iterator

import pytest

from demo.instance import Instance
from tests.acceptance.browser import browser
from tests.acceptance.journey import access, auditing, history, keeping, many, triggers, work
from tests.acceptance.journey.person import OPERATOR, PASSWORD, Person

pytestmark = pytest.mark.acceptance


@pytest.fixture(scope="module")
def instance(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Instance]:
    data = tmp_path_factory.mktemp("journey") / "data"
    apps = "demo,tests.acceptance.journey"
    settings = {"FELTDB_APPS": apps, "FELTDB_HISTORY_DAYS": "0", "FELTDB_HISTORY_MIB": keeping.HISTORY_MIB}
    settings |= {"FELTDB_COMPACT_EVERY_MINUTES": "0"}  # only when somebody says so
    with Instance(data, **settings, DJANGO_SUPERUSER_PASSWORD=PASSWORD) as running:
        running.manage("createsuperuser", "--noinput", "--username", OPERATOR, "--email", "")
        running.start_server()
        running.start_worker()
        yield running


@pytest.mark.timeout(900)
def test_an_operator_walks_through_the_whole_console(instance: Instance) -> None:
    with browser() as seen:
        person = Person(seen, instance)
        access.arrive(person)
        with instance.client(access.issue_a_key(person)) as api:
            api.post(
                "/collections/flights", json={"id": "early-0", "carrier": "UA", "arr_delay": 61}
            ).raise_for_status()
            triggers.define_with_a_mistake_first(person)
            work.watch_it_appear(person, api)
            work.read_why_it_died_and_retry_it(person, api)
            triggers.pause_and_resume(person, api)
            triggers.say_why_it_did_not_fire(person)
            work.cancel_work_that_waits(person, api)

            triggers.define(person, "claims", "claims", "settle_claim")
            history.walk_both_ways(person, api)
            history.browse_as_of(person, api)
            many.many_die(person, api)
            many.retry_all_of_them(person, api)
            many.stop_half_way(person, api)

            keeping.replay_old_changes(person)
            keeping.fall_behind(person, api)
            first_kept = keeping.compact(person)
            keeping.rebase_what_was_passed(person, api, first_kept)
            keeping.back_up(person)
            auditing.search(person)
        access.sign_out(person)
        seen.check()
