"""The forms of the keys' pages in the console: what an operator says. What is allowed, the services say."""

from datetime import timedelta
from typing import Any

from django import forms

from apps.http.errors import ApiError
from apps.keys import services, tester, token
from apps.keys.clock import utc_now
from apps.keys.errors import KeyConflict, KeyInvalid, KeyNotFound, KeyRefused
from apps.keys.limits import MAX_TOKEN_CHARS
from apps.keys.models import ApiKey
from apps.keys.principal import Principal
from apps.keys.reading import get_key
from apps.keys.scopes import SCOPES
from apps.keys.verify import principal_for


class Words(forms.CharField):
    """Names parted by blanks or commas."""

    def clean(self, value: Any) -> list[str]:
        """Return the names."""
        return str(super().clean(value) or "").replace(",", " ").split()


class IssueForm(forms.Form):
    """What an operator says of a new key. What is allowed, the service says."""

    name = forms.CharField(help_text="What the key is for, as lists show it.")
    namespaces = Words(initial="default", help_text="Where it may act; * for every namespace.")
    scopes = forms.MultipleChoiceField(
        choices=[(scope, f"{scope}: {meaning}") for scope, meaning in SCOPES.items()],
        widget=forms.CheckboxSelectMultiple,
        help_text="What it may do.",
    )
    kind = forms.ChoiceField(choices=[("service", "a service"), ("agent", "an agent")], label="Acts as")
    worker_id = forms.CharField(required=False, help_text="Makes it the key of exactly this worker.")
    collections = Words(required=False, help_text="Only these collections; empty for all.")
    expires_at = forms.DateTimeField(required=False, help_text="UTC, such as 2027-01-31 00:00; empty for never.")
    key_id = forms.RegexField(r"^[0-9A-Za-z]{12}\Z", required=False, widget=forms.HiddenInput, initial=token.new_key_id)
    """The id that the page was shown with: pressed twice, it makes one key."""

    conflict = False

    def issue(self, issuer: Principal) -> services.IssuedKey | None:
        """Issue the key; where the service refuses, put its reason on the form and return None."""
        wanted = self.cleaned_data
        try:
            return services.issue_key(
                name=wanted["name"],
                namespaces=wanted["namespaces"],
                scopes=wanted["scopes"],
                kind=wanted["kind"],
                worker_id=wanted["worker_id"] or None,
                collections=wanted["collections"] or None,
                expires_at=wanted["expires_at"],
                issuer=issuer,
                key_id=wanted["key_id"] or None,
            )
        except KeyConflict as refused:
            self.conflict = True
            self.add_error(
                None,
                f"{refused} Its secret was shown to who pressed first, and is shown no more: if it was lost, rotate "
                "that key for a new one, or revoke it.",
            )
        except KeyInvalid as refused:
            self.add_error(refused.field if refused.field in self.fields else None, str(refused))
        except KeyRefused as refused:
            self.add_error(None, str(refused))
        return None


class RotateForm(forms.Form):
    """How long the old secret goes on."""

    grace = forms.TypedChoiceField(
        choices=[(0, "not at all"), (3_600, "an hour"), (86_400, "a day"), (604_800, "a week"), (2_592_000, "30 days")],
        coerce=int,
        initial=86_400,
        label="The old secret goes on for",
        help_text="Programs that hold it have so long to change over. It ends exactly then.",
    )

    newest = forms.IntegerField(required=False, widget=forms.HiddenInput)
    """The key's newest secret when the page was shown: pressed twice, it is rotated once."""

    conflict = False

    def rotate(self, key: ApiKey, by: Principal) -> services.IssuedKey | None:
        """Rotate the key; where the service refuses, put its reason on the form and return None."""
        try:
            return services.rotate_key(
                key.id,
                by=by,
                grace=timedelta(seconds=self.cleaned_data["grace"]),
                newest=self.cleaned_data["newest"],
            )
        except KeyConflict as refused:
            self.conflict = True
            self.add_error(None, f"{refused} Its secrets are on the key's page; open this page anew to rotate again.")
        except KeyRefused as refused:
            self.conflict = True  # nothing was typed that could be wrong: it is how the key stands
            self.add_error(None, str(refused))
        return None


class TesterForm(forms.Form):
    """A call, and by which key. A secret that is given is used once and shown nowhere."""

    key = forms.CharField(required=False, label="Key id", help_text="The public id; or give a secret below.")
    secret = forms.CharField(
        required=False,
        max_length=MAX_TOKEN_CHARS,
        widget=forms.PasswordInput(attrs={"autocomplete": "off"}),
        help_text="As a program sends it. Never shown again, nor kept.",
    )
    method = forms.ChoiceField(choices=[(name, name) for name in ("GET", "POST", "PUT", "PATCH", "DELETE")])
    path = forms.CharField(help_text="As in the request, for example /v1/collections/orders.")
    namespace = forms.CharField(required=False, help_text="The header FeltDB-Namespace of the request, if it has one.")

    def clean(self) -> dict[str, Any]:
        """Ask for exactly one of id and secret."""
        wanted = super().clean() or {}
        if bool(wanted.get("key")) == bool(wanted.get("secret")):
            self.add_error("key", "Give the id of a key, or a secret.")
        return wanted

    def verdict(self, by: Principal) -> tuple[str, tester.Verdict] | None:
        """Return whose key it is and the verdict; where there is no such key, say so on the form and return None."""
        wanted, now = self.cleaned_data, utc_now()
        call = {"method": wanted["method"], "target": wanted["path"], "namespace": wanted["namespace"] or None}
        try:
            if wanted["secret"]:
                principal, verdict = tester.would_pass(wanted["secret"], **call, now=now)
                if principal is None:
                    return tester.why_nobody(wanted["secret"], now=now), verdict
                return principal.key_id, verdict
            key = get_key(wanted["key"], reader=by)
        except KeyNotFound as refused:
            self.add_error("key", str(refused))
            return None
        except ApiError as busy:
            self.add_error(None, busy.message)
            return None
        live = key.state(now) == "live"
        return f"{key} is {key.state(now)}", tester.verdict_for(principal_for(key) if live else None, **call)
