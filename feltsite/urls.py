"""Which room answers which path. Each room lists its own routes in `apps/<room>/api/urls.py`."""

from django.contrib import admin
from django.urls import URLPattern, URLResolver, path

urlpatterns: list[URLPattern | URLResolver] = [
    path("admin/", admin.site.urls),
]
