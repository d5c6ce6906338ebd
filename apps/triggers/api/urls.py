"""Routes of the triggers room, under `/v1`."""

from django.urls import path

from apps.triggers.api import views

urlpatterns = [
    path("triggers", views.TriggersView.as_view(), name="triggers"),
    path("triggers/<str:trigger>", views.TriggerView.as_view(), name="trigger"),
    path("triggers/<str:trigger>/enable", views.EnableView.as_view(), name="trigger-enable"),
    path("triggers/<str:trigger>/disable", views.DisableView.as_view(), name="trigger-disable"),
    path("triggers/<str:trigger>/pause", views.PauseView.as_view(), name="trigger-pause"),
    path("triggers/<str:trigger>/resume", views.ResumeView.as_view(), name="trigger-resume"),
    path("triggers/<str:trigger>/quarantine", views.QuarantineView.as_view(), name="trigger-quarantine"),
    path("triggers/<str:trigger>/revisions", views.RevisionsView.as_view(), name="trigger-revisions"),
]
