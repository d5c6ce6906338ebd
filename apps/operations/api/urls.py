"""Health routes; they stand at the root, without `/v1`, where probes look for them."""

from django.urls import path

from apps.operations.api import views

urlpatterns = [
    path("health", views.health, name="health"),
    path("health/ready", views.ready, name="health-ready"),
]
