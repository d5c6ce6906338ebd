"""The routes of people's sessions, under `/v1/`."""

from django.urls import path

from apps.keys.sessions.api import views

urlpatterns = [
    path("auth/signin", views.SignIn.as_view(), name="auth-signin"),
    path("auth/signout", views.SignOut.as_view(), name="auth-signout"),
    path("auth/session", views.OneSession.as_view(), name="auth-session"),
]
