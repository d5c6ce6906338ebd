"""The routes of the keys room, under `/v1/`."""

from django.urls import include, path

from apps.keys.api import views

urlpatterns = [
    path("", include("apps.keys.grants.api.urls")),
    path("", include("apps.keys.audit.api.urls")),
    path("", include("apps.keys.sessions.api.urls")),
    path("keys", views.Keys.as_view(), name="keys"),
    path("keys/current", views.CurrentKey.as_view(), name="key-current"),
    path("keys/<str:key_id>", views.OneKey.as_view(), name="key"),
    path("keys/<str:key_id>/rotate", views.Rotation.as_view(), name="key-rotation"),
    path("keys/<str:key_id>/old-secret", views.OldSecret.as_view(), name="key-old-secret"),
]
