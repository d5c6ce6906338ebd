"""One request, repeated while that is safe and worth it. Not here: what the requests mean (`client.py`)."""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import httpx

from feltdb_client.errors import ApiError, GaveUp, OutcomeUnknown, Unreachable, refusal
from feltdb_client.retry import RETRIED_CODES, RETRIED_STATUSES, Patience

# Nothing of the request can have reached the server.
_NEVER_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)


class Transport:
    """Sends requests with the key, repeats them, and turns refusals into exceptions."""

    def __init__(
        self,
        url: str,
        *,
        key: str,
        namespace: str | None,
        timeout_s: float,
        patience: Patience,
        transport: httpx.BaseTransport | None,
    ) -> None:
        key = key.strip()
        if not (key.isascii() and key.isprintable()) or not key or " " in key:
            raise ValueError("a key is one word, as fdb_...; this is none")
        address = httpx.URL(url)
        if address.scheme not in ("http", "https") or not address.host:
            raise ValueError(f"url must be as http://127.0.0.1:8000, not {url!r}")
        url = url.rstrip("/").removesuffix("/v1")  # every path has it
        headers = {"Authorization": f"Bearer {key}", "FeltDB-Protocol": "1"}
        if namespace is not None:
            headers["FeltDB-Namespace"] = namespace
        self._http = httpx.Client(base_url=url, headers=headers, timeout=timeout_s, transport=transport)
        self._timeout_s = timeout_s
        self._patience = patience

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def read(
        self,
        method: str,
        path: str,
        *,
        body: Any = None,
        parameters: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        extra_timeout_s: float = 0.0,
    ) -> Any:
        """Send a request that changes nothing, or nothing more when sent again. Raises ApiError, Unreachable."""
        return self._send(
            method,
            path,
            body=body,
            parameters=parameters,
            headers=headers,
            extra_timeout_s=extra_timeout_s,
            transaction_id=None,
        )

    def write(
        self,
        method: str,
        path: str,
        *,
        transaction_id: str,
        body: Any = None,
        content: bytes | None = None,
        content_type: str = "application/json",
        headers: Mapping[str, str] | None = None,
        parameters: Mapping[str, Any] | None = None,
        extra_timeout_s: float = 0.0,
        on_refusal: Callable[[ApiError], Exception | None] = lambda error: None,
    ) -> Any:
        """Send a write under its transaction id: a JSON body, or content as it is, whose answer is then bytes.

        Raises ApiError, or what `on_refusal` makes of it; Unreachable (nothing happened); OutcomeUnknown.
        """
        try:
            return self._send(
                method,
                path,
                body=body,
                content=content,
                content_type=content_type,
                headers=headers,
                parameters=parameters,
                extra_timeout_s=extra_timeout_s,
                transaction_id=transaction_id,
            )
        except ApiError as error:
            instead = on_refusal(error)
            if instead is None:
                raise
            raise instead from error

    def lines(
        self, path: str, parameters: Mapping[str, Any], headers: Mapping[str, str], silence_s: float
    ) -> Iterator[str]:
        """Yield the lines of a stream, opened once with patience. Raises ApiError, GaveUp; Unreachable if it breaks."""
        timeout = httpx.Timeout(self._timeout_s, read=silence_s)
        request = self._http.build_request("GET", path, params=parameters, headers=dict(headers), timeout=timeout)
        answer = self._opened(request)
        try:
            yield from answer.iter_lines()
        except httpx.TransportError as error:
            raise Unreachable(f"GET {path} broke off: {type(error).__name__}: {error}") from error
        finally:
            answer.close()

    def _opened(self, request: httpx.Request) -> httpx.Response:
        until = self._patience.monotonic() + self._patience.total_s
        attempt = 0
        while True:
            attempt += 1
            retry_after_s = None
            try:
                answer = self._http.send(request, stream=True)
                if answer.is_success:
                    return answer
                answer.read()
                decoded = _decoded(answer)
                if decoded.get("code") not in RETRIED_CODES and answer.status_code not in RETRIED_STATUSES:
                    raise refusal(answer.status_code, decoded)
                problem, retry_after_s = f"{answer.status_code} {decoded.get('code')}", _retry_after_s(answer)
            except httpx.TransportError as error:
                problem = f"{type(error).__name__}: {error}"
            wait_s = self._patience.wait_s(attempt, retry_after_s)
            if self._patience.monotonic() + wait_s > until:
                raise GaveUp(f"GET {request.url.path} was not answered in {attempt} attempts; the last one: {problem}")
            self._patience.sleep(wait_s)

    def _send(
        self,
        method: str,
        path: str,
        *,
        transaction_id: str | None,
        body: Any = None,
        content: bytes | None = None,
        content_type: str = "application/json",
        headers: Mapping[str, str] | None = None,
        parameters: Mapping[str, Any] | None = None,
        extra_timeout_s: float = 0.0,
    ) -> Any:
        """Send until there is an answer or patience ends."""
        sent_headers = dict(headers or {})
        if body is not None:
            content = json.dumps(body, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
        if content is not None:
            sent_headers["Content-Type"] = content_type
        request = self._http.build_request(
            method,
            path,
            content=content,
            headers=sent_headers,
            params=parameters,
            timeout=self._timeout_s + extra_timeout_s,
        )
        until = self._patience.monotonic() + self._patience.total_s
        attempt, may_have_happened = 0, False
        while True:
            attempt += 1
            result = self._attempt(request)
            if isinstance(result, _Answered):
                return result.body
            may_have_happened = may_have_happened or result.may_have_happened
            wait_s = self._patience.wait_s(attempt, result.retry_after_s)
            if self._patience.monotonic() + wait_s > until:
                message = f"{method} {path} was not answered in {attempt} attempts; the last one: {result.problem}"
                if transaction_id is not None and may_have_happened:
                    raise OutcomeUnknown(transaction_id, message)
                raise Unreachable(message)
            self._patience.sleep(wait_s)

    def _attempt(self, request: httpx.Request) -> "_Answered | _Failed":
        """Send once. Raises ApiError for a refusal that sending again would not change."""
        try:
            answer = self._http.send(request)
        except httpx.TransportError as error:
            return _Failed(
                problem=f"{type(error).__name__}: {error}", may_have_happened=not isinstance(error, _NEVER_SENT)
            )
        if answer.is_success and answer.headers.get("Content-Type", "").startswith("application/x-ndjson"):
            return _Answered(body=answer.content)
        decoded = _decoded(answer)
        if answer.is_success:
            return _Answered(body=decoded)
        code = decoded.get("code")
        by_proxy = answer.status_code in RETRIED_STATUSES
        if code not in RETRIED_CODES and not by_proxy:
            raise refusal(answer.status_code, decoded)
        return _Failed(
            problem=f"{answer.status_code} {code}",
            may_have_happened=by_proxy or code == "COMMIT_UNKNOWN",
            retry_after_s=_retry_after_s(answer),
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class _Answered:
    body: Any


@dataclass(frozen=True, kw_only=True, slots=True)
class _Failed:
    problem: str
    may_have_happened: bool
    retry_after_s: float | None = None


def _decoded(answer: httpx.Response) -> Any:
    if not answer.content:
        return {} if answer.is_error else None
    try:
        return json.loads(answer.content)
    except ValueError:
        if answer.is_success:
            raise Unreachable("the answer is not JSON; is this address a FeltDB server?") from None
        return {}


def _retry_after_s(answer: httpx.Response) -> float | None:
    given = answer.headers.get("Retry-After", "")
    return float(given) if given.isascii() and given.isdigit() else None
