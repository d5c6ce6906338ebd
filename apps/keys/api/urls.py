"""The routes of the keys room, under `/v1/`."""

from django.urls import path

from apps.keys.api import views

urlpatterns = [
    path("keys", views.Keys.as_view(), name="keys"),
    path("keys/current", views.CurrentKey.as_view(), name="key-current"),
    path("keys/<str:key_id>", views.OneKey.as_view(), name="key"),
]
