"""FeltDB's routes, and after them the bare views."""

from benchmarks.http import bare_views
from feltsite.urls import handler400, handler403, handler404, handler500
from feltsite.urls import urlpatterns as ours

__all__ = ["handler400", "handler403", "handler404", "handler500", "urlpatterns"]

urlpatterns = [*ours, *bare_views.urlpatterns]
