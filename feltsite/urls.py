"""Which room answers which path. Each room lists its own routes in `apps/<room>/api/urls.py`."""

from django.contrib import admin
from django.urls import URLPattern, URLResolver, include, path

from apps.state.api.urls import aliases

urlpatterns: list[URLPattern | URLResolver] = [
    path("v1/", include("apps.state.api.urls")),  # first, as the routes asked for most
    path("admin/", admin.site.urls),
    path("", include("apps.operations.api.urls")),
    path("v1/", include("apps.keys.api.urls")),
    path("v1/", include("apps.workloads.api.urls")),
    path("v1/", include("apps.triggers.api.urls")),
    path("", include(aliases)),
]

handler400 = "apps.http.handlers.bad_request"
handler403 = "apps.http.handlers.permission_denied"
handler404 = "apps.http.handlers.not_found"
handler500 = "apps.http.handlers.server_error"
