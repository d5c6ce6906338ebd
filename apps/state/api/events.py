"""`GET /v1/events`: the feed as server-sent events. Which events there are: `services/events.py`.

retry: 1000                             once, at the beginning
id: <cursor>                            only frames that carry data carry an id
event: state.committed                  one transaction; or state.rewound; or error, the last of a stream, without id
data: {"cursor", "operations"}
: keep-alive                            a comment, where there was nothing for a while
"""

import logging
from collections.abc import Callable, Iterator
from typing import Any

from django.http import HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase

from apps.http import envelope, exceptions, numbers, streaming, strict_json
from apps.http.openapi import Answer, describe, header_parameter, query_parameter
from apps.keys.views import KeyedRequest
from apps.state import inputs, shapes
from apps.state.api import described
from apps.state.api.base import StateView
from apps.state.limits import STREAM_RETRY_MS
from apps.state.services.events import Event, Stream

logger = logging.getLogger("feltdb.state")

_MEDIA = "text/event-stream"
_HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
_KEEP_ALIVE = b": keep-alive\n\n"
_EXAMPLE = f"id: {described.INSTANCE}-1\nevent: state.committed\ndata: {{...}}\n\n"


class EventsView(StateView):
    """The feed as a stream."""

    scopes = {"GET": "events:read"}

    @describe(
        "stream_events",
        "Follow the feed as server-sent events",
        tag=described.TAG,
        description=(
            "One event, `state.committed`, a transaction: `data` is `{cursor, operations}` as in `/v1/changes`, `id` "
            "the cursor. A broken stream goes on exactly where it was with `Last-Event-ID`, which wins over `after`. "
            "It ends by itself after a stated life; an event `error` says why it ended otherwise. How many streams "
            "there may be is bounded: beyond, 503 with `reason` STREAM_LIMIT."
        ),
        parameters=[
            query_parameter("after", "A returned cursor, `start` or `now`.", {"type": "string", "default": "start"}),
            query_parameter("cursor", "The reference's name for `after`."),
            query_parameter("collections", "Only these, separated by commas."),
            header_parameter("Last-Event-ID", "The `id` of the last event that was dealt with."),
        ],
        answers={200: Answer("The stream.", {"type": "string"}, _EXAMPLE, described.READ, media=_MEDIA)},
        errors=[
            "VALIDATION_ERROR",
            "INVALID_CURSOR",
            "FEED_COMPACTED",
            "CURSOR_UNKNOWN",
            "CURSOR_AHEAD",
            *described.STORAGE,
        ],
    )
    def get(self, request: KeyedRequest) -> HttpResponseBase:
        """Open the stream."""
        wanted = inputs.stream(request.query_params, request.headers)
        if request.method == "HEAD":
            head = self.position(self.call(request))
            return HttpResponse(content_type=_MEDIA, headers={**_HEADERS, "FeltDB-Revision": str(head)})
        connection = streaming.connection(request._request)
        opened = Stream(self.call(request), wanted, connection.gone)
        connection.stream()
        as_asked = numbers.converted if numbers.asked(request._request) else None
        answer = StreamingHttpResponse(
            Lines(opened, request.request_id, as_asked), content_type=_MEDIA, headers=_HEADERS
        )
        answer.headers["FeltDB-Revision"] = str(opened.head)
        return answer


class Lines:
    """A stream as bytes. Closing it closes the stream, also where nobody began to read it."""

    def __init__(self, stream: Stream, request_id: str, as_asked: Callable[[Any], Any] | None) -> None:
        self._stream = stream
        self._request_id = request_id
        self._as_asked = as_asked or (lambda value: value)

    def close(self) -> None:
        """Close the stream."""
        self._stream.close()

    def __iter__(self) -> Iterator[bytes]:
        yield f"retry: {STREAM_RETRY_MS}\n\n".encode()
        try:
            for event in self._stream:
                yield _KEEP_ALIVE if event is None else self._frame(event)
        except Exception as error:
            yield self._last(error)

    def _frame(self, event: Event) -> bytes:
        data: dict[str, Any] = {"cursor": str(event.cursor)}
        name = b"state.committed"
        if event.rewound_from is None:
            data["operations"] = [shapes.operation(each) for each in event.operations]
        else:
            name, data["rewound_from"] = b"state.rewound", event.rewound_from
        body = strict_json.dumps(self._as_asked(data))
        return b"id: %s\nevent: %s\ndata: %s\n\n" % (str(event.cursor).encode(), name, body)

    def _last(self, error: Exception) -> bytes:
        refusal = exceptions.refusal(error)
        if refusal.code == "INTERNAL_ERROR":
            logger.error("a stream of the feed broke", exc_info=error)
        return b"event: error\ndata: %s\n\n" % strict_json.dumps(envelope.body(refusal, self._request_id))
