"""Signing in to the console, under the same limits on failing as every door where a password is asked for."""

from typing import Any

from django.contrib.admin.forms import AdminAuthenticationForm
from django.core.exceptions import ValidationError
from django.http import HttpResponse
from django.template.response import TemplateResponse

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


def with_status(answer: HttpResponse) -> HttpResponse:
    """Give the sign-in page the status of a refusal that is on its form."""
    context = answer.context_data if isinstance(answer, TemplateResponse) else None
    form = (context or {}).get("form")
    if isinstance(form, SignInForm) and form.refusal is not None:
        answer.status_code = form.refusal.status
        for name, value in form.refusal.headers.items():
            answer[name] = value
    return answer
