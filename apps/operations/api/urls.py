"""Health, readiness and metrics stand at the root, where probes look for them; `/v1` has them too."""

from django.urls import path

from apps.operations.api import views

urlpatterns = [
    path("", views.FrontDoorView.as_view(schema=None), name="front-door"),
    path("health", views.HealthView.as_view(schema=None), name="health"),
    path("health/ready", views.ReadyView.as_view(schema=None), name="health-ready"),
    path("ready", views.ReadyInShortView.as_view(schema=None), name="ready"),
    path("metrics", views.MetricsView.as_view(schema=None), name="metrics"),
    path("v1/health", views.HealthView.as_view(), name="v1-health"),
    path("v1/health/ready", views.ReadyView.as_view(), name="v1-health-ready"),
    path("v1/status", views.StatusView.as_view(), name="status"),
]
