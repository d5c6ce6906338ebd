"""Signing in to the console, under the same limits on failing as every door where a password is asked for."""

from typing import Any
from urllib.parse import urlencode, urlsplit

from django.contrib.admin.forms import AdminAuthenticationForm
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme

from apps.http.console import CONSOLE_PREFIX
from apps.http.errors import ApiError
from apps.keys import people
from apps.keys.audit import refusals
from apps.keys.audit.services import record
from apps.keys.clock import now_ms
from apps.keys.sessions import attempts


class SignInForm(AdminAuthenticationForm):
    """Name and password. `refusal` is set where they were not even looked at."""

    refusal: ApiError | None = None

    def clean(self) -> dict[str, Any]:
        """Find the person, or put on the form why not."""
        username, password = self.cleaned_data.get("username"), self.cleaned_data.get("password")
        if username is None or not password:
            return self.cleaned_data
        address = "" if self.request is None else self.request.META.get("REMOTE_ADDR") or ""
        try:
            person = attempts.signed_in(username, password, address=address, now_ms=now_ms())
        except ApiError as refused:
            self.refusal = refused
            raise ValidationError(refused.message, code="refused") from refused
        if person is None:
            self._tell_of_failure(address)
            raise self.get_invalid_login_error()
        self.confirm_login_allowed(person)
        record(people.principal_of(person), "console.signed_in", target=person.get_username())
        self.user_cache = person
        return self.cleaned_data

    def _tell_of_failure(self, address: str) -> None:
        """Have the audit trail count it; what was typed as a name may be a password, and is not kept."""
        refusals.note(
            refusals.Refusal(
                code="AUTHENTICATION_REQUIRED",
                reason="signing in to the console failed",
                target="POST /admin/login/",
                request_id="" if self.request is None else getattr(self.request, "request_id", ""),
                address=refusals.address_of(address),
                principal=None,
                namespace="",
                at_ms=now_ms(),
            )
        )


UNSENT = "unsent"
"""In the query of the sign-in page: a form was sent by somebody who was not signed in any more."""


def nothing_done(request: HttpRequest) -> HttpResponse:
    """Answer a form that nobody signed in has sent: the sign-in page says so, and leads back to the form's page."""
    query = urlencode({"next": _page_of_the_form(request), UNSENT: 1})
    return HttpResponseRedirect(f"{reverse('admin:login')}?{query}")


def _page_of_the_form(request: HttpRequest) -> str:
    """Return the page of ours that the form was on, or what the form was sent to where the browser does not tell."""
    told: str = request.META.get("HTTP_REFERER", "")
    ours = url_has_allowed_host_and_scheme(told, {request.get_host()}, require_https=request.is_secure())
    page = urlsplit(told)
    if not ours or not page.path.startswith(CONSOLE_PREFIX):
        page = urlsplit(request.get_full_path())
    return page.path + (f"?{page.query}" if page.query else "")


def with_status(answer: HttpResponse) -> HttpResponse:
    """Give the sign-in page the status of a refusal that is on its form."""
    context = answer.context_data if isinstance(answer, TemplateResponse) else None
    form = (context or {}).get("form")
    if isinstance(form, SignInForm) and form.refusal is not None:
        answer.status_code = form.refusal.status
        for name, value in form.refusal.headers.items():
            answer[name] = value
    return answer
