"""The routes of grants, under `/v1/`."""

from django.urls import path

from apps.keys.grants.api import views

urlpatterns = [
    path("grants", views.Grants.as_view(), name="grants"),
    path("grants/<str:grant_id>", views.OneGrant.as_view(), name="grant"),
    path("grants/<str:grant_id>/revoke", views.RevokedGrant.as_view(), name="grant-revoke"),
    path("grants/<str:grant_id>/delegate", views.DelegatedGrant.as_view(), name="grant-delegate"),
    path("authorization/check", views.AuthorizationCheck.as_view(), name="authorization-check"),
    path("authorization/key", views.AuthorizationKey.as_view(), name="authorization-key"),
]
