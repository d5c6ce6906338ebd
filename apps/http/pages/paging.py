"""Lists over tables of any size: counted and paged up to a cap, never with an unbounded COUNT."""

from typing import Any

from django.core.paginator import Paginator
from django.utils.functional import cached_property

from apps.http.pages.display import capped
from apps.http.pages.limits import COUNT_CAP


class CappedPaginator(Paginator):  # type: ignore[type-arg] # not generic at run time
    """Pages the first COUNT_CAP rows. `shown_count` is what to tell people; `beyond` that there is more."""

    @cached_property
    def _counted(self) -> int:
        rows: Any = self.object_list
        return int(rows[: COUNT_CAP + 1].count()) if hasattr(rows, "query") else len(rows)

    @cached_property
    def count(self) -> int:
        """Rows that can be paged to."""
        return min(self._counted, COUNT_CAP)

    @property
    def beyond(self) -> bool:
        """Tell whether there are rows that no page reaches; narrower filters do."""
        return self._counted > COUNT_CAP

    @property
    def shown_count(self) -> str:
        """Return the count as people read it."""
        return capped(self._counted)
