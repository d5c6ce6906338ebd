"""The routes of the audit trail, under `/v1/`."""

from django.urls import path

from apps.keys.audit.api import views

urlpatterns = [
    path("audit", views.Audit.as_view(), name="audit"),
    path("audit/export", views.AuditExport.as_view(), name="audit-export"),
]
