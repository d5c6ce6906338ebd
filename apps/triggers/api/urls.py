"""Routes of the triggers room, under `/v1`."""

from django.urls import path

from apps.triggers.api import operating, views

urlpatterns = [
    path("triggers", views.TriggersView.as_view(), name="triggers"),
    path("triggers/<str:trigger>", views.TriggerView.as_view(), name="trigger"),
    path("triggers/<str:trigger>/enable", operating.EnableView.as_view(), name="trigger-enable"),
    path("triggers/<str:trigger>/disable", operating.DisableView.as_view(), name="trigger-disable"),
    path("triggers/<str:trigger>/pause", operating.PauseView.as_view(), name="trigger-pause"),
    path("triggers/<str:trigger>/resume", operating.ResumeView.as_view(), name="trigger-resume"),
    path("triggers/<str:trigger>/quarantine", views.QuarantineView.as_view(), name="trigger-quarantine"),
    path("triggers/<str:trigger>/revisions", views.RevisionsView.as_view(), name="trigger-revisions"),
    path("triggers/<str:trigger>/rebase", operating.RebaseView.as_view(), name="trigger-rebase"),
    path("triggers/<str:trigger>/skip", operating.SkipView.as_view(), name="trigger-skip"),
    path("triggers/<str:trigger>/retry", operating.RetryView.as_view(), name="trigger-retry"),
    path("triggers/<str:trigger>/dry-run", operating.DryRunView.as_view(), name="trigger-dry-run"),
    path("triggers/<str:trigger>/explain", views.ExplainView.as_view(), name="trigger-explain"),
    path("triggers/<str:trigger>/status", views.StandingView.as_view(), name="trigger-standing"),
    path("triggers/<str:trigger>/replay", operating.ReplayView.as_view(), name="trigger-replay"),
    path("triggers/<str:trigger>/replays", views.ReplaysView.as_view(), name="trigger-replays"),
    path(
        "triggers/<str:trigger>/replays/<int:number>/cancel",
        operating.CancelReplayView.as_view(),
        name="trigger-replay-cancel",
    ),
    path("trigger-status", views.StatusView.as_view(), name="trigger-status"),
]
