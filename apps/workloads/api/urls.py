"""Routes of the workloads room, under `/v1`."""

from django.urls import path

from apps.workloads.api import approving, resubmitting, views

urlpatterns = [
    path("workloads", views.WorkloadsView.as_view(), name="workloads"),
    path("workloads/counts", views.CountsView.as_view(), name="workloads-counts"),
    path("workloads/claim", views.ClaimNextView.as_view(), name="workloads-claim-next"),
    path("workloads/complete", views.CompleteManyView.as_view(), name="workloads-complete"),
    path("workloads/fail", views.FailManyView.as_view(), name="workloads-fail"),
    path("workloads/<str:workload_id>", views.WorkloadView.as_view(), name="workload"),
    path("workloads/<str:workload_id>/history", views.HistoryView.as_view(), name="workload-history"),
    path("workloads/<str:workload_id>/result", views.ResultView.as_view(), name="workload-result"),
    path("workloads/<str:workload_id>/claim", views.ClaimView.as_view(), name="workload-claim"),
    path("workloads/<str:workload_id>/start", views.StartView.as_view(), name="workload-start"),
    path("workloads/<str:workload_id>/heartbeat", views.HeartbeatView.as_view(), name="workload-heartbeat"),
    path("workloads/<str:workload_id>/checkpoint", views.CheckpointView.as_view(), name="workload-checkpoint"),
    path("workloads/<str:workload_id>/context", views.ContextView.as_view(), name="workload-context"),
    path("workloads/<str:workload_id>/complete", views.CompleteView.as_view(), name="workload-complete"),
    path("workloads/<str:workload_id>/fail", views.FailView.as_view(), name="workload-fail"),
    path("workloads/<str:workload_id>/cancelled", views.CancelledView.as_view(), name="workload-cancelled"),
    path("workloads/<str:workload_id>/cancel", views.CancelView.as_view(), name="workload-cancel"),
    path("workloads/<str:workload_id>/approve", approving.ApproveView.as_view(), name="workload-approve"),
    path("workloads/<str:workload_id>/reject", approving.RejectView.as_view(), name="workload-reject"),
    path("workloads/<str:workload_id>/resubmit", resubmitting.ResubmitView.as_view(), name="workload-resubmit"),
    path("workloads/<str:workload_id>/retry", views.RetryView.as_view(), name="workload-retry"),
]
