"""Reconciling as people do it: claims that stop, accounts, crashes on the way, marks, the doctor's command."""

import io
import itertools
import json
from typing import Any

import pytest
from django.core.management import call_command

from apps.http.errors import ApiError
from apps.keys.audit.models import AuditEvent
from apps.triggers import services
from apps.triggers.evaluation import marks
from apps.triggers.models import NamespaceMark, NamespacePosition
from apps.workloads.clock import now_ms
from apps.workloads.models import NamespaceHold
from tests.triggers.apart import Copies, claim, names, put, reconcile, stopped


def test_claims_stop_with_the_triggers_and_go_on_with_them(world: Any, copies: Copies) -> None:
    world.define()
    put(world, "a", "b")
    world.evaluate()
    copies.keep_store()
    put(world, "lost")
    world.evaluate()
    assert len(claim(world)) == 1
    copies.put_store_back()
    message = stopped(world)
    with pytest.raises(ApiError) as refused:
        claim(world)
    assert (refused.value.code, refused.value.message) == ("CONTROL_PLANE_MISMATCH", message)
    reconcile(world)
    assert not NamespaceHold.objects.exists()
    assert len(claim(world)) == 1


def test_a_reconciliation_is_in_the_audit_and_in_each_trigger_s_account(world: Any, copies: Copies) -> None:
    world.define()
    put(world, "a")
    world.evaluate()
    copies.keep_store()
    put(world, "lost")
    world.evaluate()
    copies.put_store_back()
    reconcile(world)
    assert AuditEvent.objects.get(action="triggers.reconcile").reason == "restored"
    latest = services.revisions(world.namespace, "on-order", before=None, limit=1)[0]
    assert (latest.action, latest.reason) == ("rebase", "restored: reconciled, store_behind")


def test_a_crash_while_reconciling_leaves_everything_stopped_and_it_can_be_done_again(
    world: Any, copies: Copies, monkeypatch: pytest.MonkeyPatch
) -> None:
    from apps.triggers.services import reconciling
    from tests.triggers.test_crashes import Died, dying

    world.define()
    put(world, "a")
    world.evaluate()
    copies.keep_store()
    put(world, "lost")
    world.evaluate()
    copies.put_store_back()
    put(world, "new")
    stopped(world)
    with monkeypatch.context() as patch:
        patch.setattr(reconciling, "_remember", dying(reconciling._remember, before=False))
        with pytest.raises(Died):
            reconcile(world)
    stopped(world)
    reconcile(world)
    world.evaluate()
    assert names(world) == ["a", "lost", "new"]


# marks
def test_marks_thin_out_with_age_and_always_reach_back(world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from apps.triggers.evaluation.position import Seen

    dense, made = 8, 200
    monkeypatch.setattr(marks, "MARKS_DENSE", dense)
    for number in range(1, made + 1):
        seen = Seen(store_id="s", instance_id="i", sequence=number, content_hash="h")
        marks.keep(world.namespace, number, seen, now_ms=number)
    kept = sorted(NamespaceMark.objects.values_list("number", flat=True))
    assert kept[-dense:] == list(range(made - dense + 1, made + 1))
    assert all(newer - older <= max(1, 2 * (made - older) // dense) for older, newer in itertools.pairwise(kept))
    assert kept[0] <= made // 2
    assert len(kept) <= dense * 6


# the command
def doctor(*arguments: str) -> tuple[int, Any]:
    out, code = io.StringIO(), 0
    try:
        call_command("doctor", "--reconcile", "--json", *arguments, stdout=out)
    except SystemExit as ended:
        code = int(ended.code or 0)
    return code, json.loads(out.getvalue())


def test_the_doctor_says_what_is_apart_and_brings_it_back_in_step(world: Any, copies: Copies) -> None:
    assert doctor() == (0, {"ok": True, "namespaces": []})
    world.now_ms = now_ms()
    world.define()
    put(world, "a")
    world.evaluate()
    copies.keep_database()
    put(world, "b")
    world.evaluate()
    copies.put_database_back()
    stopped(world)
    code, told = doctor("--dry-run")
    assert (code, told["namespaces"][0]["kind"], told["namespaces"][0]["done"]) == (0, "database_behind", False)
    code, told = doctor()
    assert (code, told["namespaces"][0]["code"]) == (1, "CONFLICT")
    code, told = doctor("--unseen", "evaluate", "--reason", "restored")
    assert (code, told["namespaces"][0]["done"]) == (0, True)
    world.evaluate()
    assert names(world) == ["a", "b"]
    assert NamespacePosition.objects.get().mismatch_code == ""
