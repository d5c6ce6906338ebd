"""The routes of the keys room, under `/v1/`."""

from django.urls import path

from apps.keys.api import views

urlpatterns = [
    path("keys/current", views.CurrentKey.as_view(), name="key-current"),
]
