"""The routes of the process that answers probes alone; every other path is not there."""

from django.http import HttpRequest, HttpResponse

from apps.http import envelope
from apps.http.errors import ApiError
from apps.operations.api.urls import urlpatterns as urlpatterns


def handler404(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Say so as JSON, whatever was asked for: there are no pages here."""
    return envelope.response(request, ApiError("NOT_FOUND", "Only health and metrics are here."))
