"""Routes of the workloads room, under `/v1`."""

from django.urls import path

from apps.workloads.api import approving, resubmitting, schedules, views, workers

urlpatterns = [
    path("workloads", views.WorkloadsView.as_view(), name="workloads"),
    path("workloads/counts", views.CountsView.as_view(), name="workloads-counts"),
    path("workloads/claim", views.ClaimNextView.as_view(), name="workloads-claim-next"),
    path("workloads/complete", views.CompleteManyView.as_view(), name="workloads-complete"),
    path("workloads/fail", views.FailManyView.as_view(), name="workloads-fail"),
    path("workloads/<str:workload_id>", views.WorkloadView.as_view(), name="workload"),
    path(
        "workloads/<str:workload_id>/eligible-workers",
        workers.EligibleWorkersView.as_view(),
        name="workload-eligible-workers",
    ),
    path("schedules", schedules.SchedulesView.as_view(), name="schedules"),
    path("schedules/<str:schedule_id>", schedules.ScheduleView.as_view(), name="schedule"),
    path("schedules/<str:schedule_id>/pause", schedules.PauseView.as_view(), name="schedule-pause"),
    path("schedules/<str:schedule_id>/resume", schedules.ResumeView.as_view(), name="schedule-resume"),
    path("workers", workers.WorkersView.as_view(), name="workers"),
    path("workers/register", workers.RegisterView.as_view(), name="workers-register"),
    path("workers/<str:worker_id>", workers.WorkerView.as_view(), name="worker"),
    path("workers/<str:worker_id>/heartbeat", workers.HeartbeatView.as_view(), name="worker-heartbeat"),
    path("workers/<str:worker_id>/reconcile", workers.ReconcileView.as_view(), name="worker-reconcile"),
    path("workers/<str:worker_id>/drain", workers.DrainView.as_view(), name="worker-drain"),
    path("workers/<str:worker_id>/recover", workers.RecoverView.as_view(), name="worker-recover"),
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
