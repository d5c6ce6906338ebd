"""What is done with a trigger: `POST /v1/triggers/{trigger}/...`. Each is a service call with a reason."""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from rest_framework.response import Response

from apps.keys.permissions import require_collection
from apps.keys.views import KeyedRequest, KeyedView
from apps.state import reading
from apps.triggers import services
from apps.triggers.api import described, described_operating
from apps.triggers.api.views import READ, WRITE, answer
from apps.triggers.limits import DRY_RUN_MAX_SAMPLES, DRY_RUN_SAMPLES, MAX_CURSOR_CHARS, MAX_REASON_CHARS
from apps.workloads.clock import now_ms

Reader = Callable[[Any, str], Any]


def _place(value: Any, pointer: str) -> str:
    return reading.text(value, pointer, max_bytes=MAX_CURSOR_CHARS)


def _instant(value: Any, pointer: str) -> int | None:
    return None if value is None else reading.whole(value, pointer, low=0, high=2**53)


class _OperateView(KeyedView):
    """One thing to do with a trigger; the body is optional where nothing is needed."""

    scopes = {"POST": WRITE}
    empty_body: ClassVar[Any] = {}

    @staticmethod
    def do(
        request: KeyedRequest,
        trigger: str,
        act: Callable[..., Any],
        needed: Mapping[str, tuple[str, Reader]] | None = None,
        optional: Mapping[str, tuple[str, Reader]] | None = None,
    ) -> Any:
        """Read the body's members, each `member: (argument, reader)`, and call the service. `reason` may always be."""
        readers = {**(needed or {}), **(optional or {})}
        members = reading.an_object(request.data, "", frozenset({"reason", *readers}))
        for name in needed or {}:
            if name not in members:
                raise reading.invalid(f"'{name}' is needed.", pointer=f"/{name}")
        given = {
            argument: reader(members[name], f"/{name}")
            for name, (argument, reader) in readers.items()
            if name in members
        }
        reason = reading.text(members["reason"], "/reason", max_bytes=MAX_REASON_CHARS) if "reason" in members else ""
        return act(request.namespace, trigger, by=request.principal, now_ms=now_ms(), reason=reason, **given)


class EnableView(_OperateView):
    """Let a trigger be evaluated again."""

    @described.enable_trigger
    def post(self, request: KeyedRequest, trigger: str) -> Response:
        """Enable it, from now or where `start_from` says."""
        start = {"start_from": ("start_from", _place)}
        return answer(self.do(request, trigger, services.enable, optional=start))


class DisableView(_OperateView):
    """Let changes pass."""

    @described.disable_trigger
    def post(self, request: KeyedRequest, trigger: str) -> Response:
        """Disable it."""
        return answer(self.do(request, trigger, services.disable))


class PauseView(_OperateView):
    """Hold a trigger where it stands."""

    @described.pause_trigger
    def post(self, request: KeyedRequest, trigger: str) -> Response:
        """Pause it, until `resumes_at_ms` if that is given."""
        until = {"resumes_at_ms": ("resumes_at_ms", _instant)}
        return answer(self.do(request, trigger, services.pause, optional=until))


class ResumeView(_OperateView):
    """Let a paused or blocked trigger go on."""

    @described.resume_trigger
    def post(self, request: KeyedRequest, trigger: str) -> Response:
        """Resume it from where it stands."""
        return answer(self.do(request, trigger, services.resume))


class RebaseView(_OperateView):
    """Put a trigger's cursor elsewhere."""

    @described_operating.rebase_trigger
    def post(self, request: KeyedRequest, trigger: str) -> Response:
        """Rebase it."""
        return answer(self.do(request, trigger, services.rebase, {"to": ("to", _place)}))


class SkipView(_OperateView):
    """Pass one change over."""

    @described_operating.skip_change
    def post(self, request: KeyedRequest, trigger: str) -> Response:
        """Give a quarantined change up, or let the trigger pass over one it has not come to."""
        change = self.do(request, trigger, services.skip, {"change": ("change_id", _place)})
        return Response({"source_change_id": change})


class RetryView(_OperateView):
    """Make the work of a quarantined change."""

    @described_operating.retry_change
    def post(self, request: KeyedRequest, trigger: str) -> Response:
        """Retry it by the trigger as it is defined now."""
        made = self.do(request, trigger, services.retry, {"change": ("change_id", _place)})
        return Response(services.result_document(made))


class ReplayView(_OperateView):
    """Evaluate old changes once more."""

    @described_operating.replay_trigger
    def post(self, request: KeyedRequest, trigger: str) -> Response:
        """Order a replay; evaluators carry it on."""
        needed = {"from": ("start_from", _place), "to": ("end_at", _place)}
        row = self.do(request, trigger, services.replay, needed)
        return Response(services.replay_document(row), status=202)


class CancelReplayView(_OperateView):
    """End a replay where it stands."""

    @described_operating.cancel_replay
    def post(self, request: KeyedRequest, trigger: str, number: int) -> Response:
        """Cancel it; what it has made stays."""

        def act(namespace: str, trigger_id: str, **arguments: Any) -> Any:
            return services.cancel_replay(namespace, trigger_id, number, **arguments)

        return Response(services.replay_document(self.do(request, trigger, act)))


class DryRunView(KeyedView):
    """What a definition would have fired for: keys of records, so that it is a reading of them."""

    scopes = {"POST": READ}
    also = {"POST": ("state:read",)}
    empty_body: ClassVar[Any] = {}

    @described_operating.dry_run_trigger
    def post(self, request: KeyedRequest, trigger: str) -> Response:
        """Run it over the real feed; nothing is written."""
        members = reading.an_object(request.data, "", frozenset({"definition", "from", "samples"}))
        definition = members.get("definition", {})
        if type(definition) is not dict:
            raise reading.invalid("An object is needed here.", pointer="/definition")
        self._require_sources(request, trigger, definition)
        given: dict[str, Any] = {"samples": DRY_RUN_SAMPLES}
        if "from" in members:
            given["start_from"] = _place(members["from"], "/from")
        if "samples" in members:
            given["samples"] = reading.whole(members["samples"], "/samples", low=0, high=DRY_RUN_MAX_SAMPLES)
        return Response(services.dry_run(request.namespace, trigger, definition, by=request.principal, **given))

    @staticmethod
    def _require_sources(request: KeyedRequest, trigger: str, definition: dict[str, Any]) -> None:
        """Both the collection to try and the one the stored trigger watches are read."""
        sources = [definition.get("source_collection"), services.source_of(request.namespace, trigger)]
        for source in sources:
            if isinstance(source, str):
                require_collection(request.principal, source)
