"""The programs every worker can run: `identity` and `search`."""

from apps.http import strict_json
from apps.workloads.capabilities import JSON, Cancelled, Context, Failed, capability

MAX_QUERY_CHARS = 512
DEFAULT_FOUND = 50
MAX_FOUND = 500
_PAGE = 500


@capability("identity")
def identity(input: JSON, context: Context) -> JSON:
    """Return the input."""
    return input


@capability("search")
def search(input: JSON, context: Context) -> JSON:
    """Return the first records of a collection whose JSON text holds a text, whatever its case.

    Input `{"collection", "query" (1 to 512 characters), "limit" (1 to 500, default 50)}`; output a list of the records'
    values, each with its `id`, in the order of their ids. Collections beginning with "_" are refused.
    """
    collection, query, limit = _request(input)
    needle = query.lower()
    found: list[JSON] = []
    after: str | None = None
    while True:
        records = context.page(collection, after=after, limit=_PAGE)
        for record in records:
            if needle in strict_json.dumps(record.value).decode().lower():
                found.append({**record.value, "id": record.id})
                if len(found) == limit:
                    return found
        if len(records) < _PAGE:
            return found
        after = records[-1].id
        if context.cancelled():
            raise Cancelled


def _request(input: JSON) -> tuple[str, str, int]:
    if not isinstance(input, dict):
        raise Failed("invalid_input", "the input must be an object")
    collection, query, limit = input.get("collection"), input.get("query"), input.get("limit", DEFAULT_FOUND)
    if not isinstance(collection, str) or not collection:
        raise Failed("invalid_input", "the input must name a collection")
    if not isinstance(query, str) or not 1 <= len(query) <= MAX_QUERY_CHARS:
        raise Failed("invalid_input", f"query must be text of 1 to {MAX_QUERY_CHARS} characters")
    if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= MAX_FOUND:
        raise Failed("invalid_input", f"limit must be a number from 1 to {MAX_FOUND}")
    return collection, query, limit
