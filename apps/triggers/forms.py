"""The console's form for a trigger: from fields to the definition's JSON, and from a refusal back to the field.

What a definition may say is decided by `definition.py` and the services; a form only reads text into JSON values.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from django import forms

from apps.http import strict_json
from apps.http.errors import ApiError
from apps.http.pages import display
from apps.triggers import limits
from apps.triggers.contract import CHANGE_KINDS
from apps.triggers.definition import BEGINNING, DEFAULT_APPLICATION, NOW

_WHAT_EACH_KIND_MEANS = {
    "insert": "insert: a record appears",
    "update": "update: a record changes",
    "delete": "delete: a record goes away; the work gets its last value",
}
PREDICATE_EXAMPLE = '{"field": "status", "equals": "paid"}'


class JSONField(forms.CharField):
    """JSON text. Empty means not given."""

    widget = forms.Textarea(attrs={"rows": 4, "spellcheck": "false", "autocomplete": "off"})

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(required=False, strip=True, **kwargs)

    def clean(self, value: Any) -> Any:
        """Return the value, None for empty. Raises with line and column for what is no JSON."""
        text = super().clean(value)
        if not text:
            return None
        try:
            return strict_json.loads(text.encode("utf-8", "surrogatepass"))
        except ApiError as error:
            what = error.message.partition(": ")[2] or error.message
            raise forms.ValidationError(f"This is not JSON: {what} Correct the text, or leave it empty.") from None

    def prepare_value(self, value: Any) -> Any:
        """Show a stored value as indented JSON; what a person typed stays as typed."""
        return (
            value
            if isinstance(value, str) or value is None
            else display.json_text(value, max_chars=limits.MAX_FORM_JSON_CHARS)[0]
        )


class NamesField(forms.CharField):
    """Names parted by blanks or commas."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(required=False, **kwargs)

    def clean(self, value: Any) -> list[str]:
        """Return the names."""
        return str(super().clean(value) or "").replace(",", " ").split()

    def prepare_value(self, value: Any) -> Any:
        """Show a list as text."""
        return value if isinstance(value, str) or value is None else ", ".join(value)


class TriggerForm(forms.Form):
    """A trigger as an operator writes it. Groups of fields: `groups`."""

    trigger_id = forms.CharField(
        label="Id",
        max_length=limits.MAX_ID_CHARS,
        help_text="A short name of your choice, such as order-paid. It stays for ever: its work carries it.",
    )
    source_collection = forms.CharField(
        label="Watch this collection",
        max_length=limits.MAX_COLLECTION_CHARS,
        help_text="The collection whose records it watches, such as orders. It need not exist yet.",
    )
    change_kind = forms.MultipleChoiceField(
        label="When a record is",
        choices=[(kind, _WHAT_EACH_KIND_MEANS[kind]) for kind in CHANGE_KINDS],
        widget=forms.CheckboxSelectMultiple,
        error_messages={"required": "Choose at least one kind of change."},
    )
    predicate = JSONField(
        label="And this holds of it",
        help_text=(
            f"JSON, such as {PREDICATE_EXAMPLE}. Combine with all, any, not; compare by op: eq, ne, lt, lte, gt, gte, "
            "in, contains, starts_with, exists. Numbers are exact: 1 is not 1.0. Empty: every such change matches."
        ),
    )
    target_capability = forms.CharField(
        label="Run this capability",
        max_length=limits.MAX_TEXT_CHARS,
        widget=forms.TextInput(attrs={"list": "known-capabilities", "autocomplete": "off", "spellcheck": "false"}),
        help_text="What a worker runs for each matching change: a capability of an installed app, identity or search.",
    )
    start_from = forms.ChoiceField(
        label="Begin with",
        choices=[
            (NOW, "the changes from now on"),
            (BEGINNING, "all changes since the beginning: each matching one becomes work"),
        ],
        required=False,
        help_text="Where it starts reading the feed of changes.",
    )
    enabled = forms.BooleanField(label="Enabled: evaluate changes at once", required=False, initial=True)

    delay_ms = forms.IntegerField(
        label="Delay",
        required=False,
        help_text="Milliseconds the work waits after the change. Empty: it may run at once.",
    )
    not_before_at_ms = forms.IntegerField(
        label="Not before",
        required=False,
        help_text="An instant in milliseconds since 1970 before which no work of it runs. Instead of a delay.",
    )
    priority = forms.IntegerField(
        required=False, initial=0, help_text="Higher goes first among work that waits for the same workers."
    )
    retry_policy = JSONField(
        label="Retry policy",
        help_text='JSON, such as {"max_attempts": 5, "initial_delay_ms": 1000}. Empty: three attempts, ever further '
        "apart.",
    )
    timeouts = JSONField(
        label="Deadlines", help_text='JSON, such as {"execution_ms": 60000, "overall_ms": 3600000}. Empty: none.'
    )
    capability_snapshot = NamesField(
        label="Worker must hold",
        help_text="Capabilities a worker needs to take the work. Empty: the one that is run.",
    )
    connection_scopes = NamesField(label="Connection scopes", help_text="Names of connections the work may use.")
    application_id = forms.CharField(
        label="Application",
        required=False,
        initial=DEFAULT_APPLICATION,
        help_text="Part of what makes its work unique, so it cannot be changed afterwards.",
    )
    environment = forms.CharField(required=False, initial="production")
    definition_revision = forms.CharField(
        label="Capability's revision", required=False, initial="trigger", help_text="Recorded with the work."
    )
    max_lag_operations = forms.IntegerField(
        label="Largest lag",
        required=False,
        help_text="Operations of history that are kept for it while it does not keep up. "
        f"Empty: {limits.MAX_LAG_OPERATIONS_DEFAULT:,}.",
    )
    depth_limit = forms.IntegerField(
        label="Depth limit",
        required=False,
        help_text="Only for a capability that writes what this trigger watches: how many times work may call for work.",
    )
    authorization_snapshot = JSONField(
        label="Grant", help_text="A signed grant under which the work runs. Usually empty."
    )

    groups = (
        (
            "What it does",
            (
                "trigger_id",
                "source_collection",
                "change_kind",
                "predicate",
                "target_capability",
                "start_from",
                "enabled",
            ),
        ),
        ("How its work runs", ("delay_ms", "not_before_at_ms", "priority", "retry_policy", "timeouts")),
        (
            "Seldom needed",
            (
                "capability_snapshot",
                "connection_scopes",
                "application_id",
                "environment",
                "definition_revision",
                "max_lag_operations",
                "depth_limit",
                "authorization_snapshot",
            ),
        ),
    )

    def __init__(self, *args: Any, editing: bool = False, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if editing:
            for name in ("start_from", "enabled"):
                del self.fields[name]
            for name in ("trigger_id", "application_id"):
                self.fields[name].disabled = True

    def document(self) -> dict[str, Any]:
        """Return the definition's JSON: what was given, and nothing for what was left empty."""
        return {name: value for name, value in self.cleaned_data.items() if value not in (None, "", [])}

    def grouped(self) -> Iterable[tuple[str, list[forms.BoundField], bool]]:
        """Give each group with its fields and whether something in it is wrong."""
        for heading, names in self.groups:
            fields = [self[name] for name in names if name in self.fields]
            yield heading, fields, any(field.errors for field in fields)

    def refuse(self, error: ApiError) -> None:
        """Put a service's refusal beside the field it is about, or above the form."""
        details = error.details if isinstance(error.details, Mapping) else {}
        field = str(details.get("field", ""))
        place = f" (at {details['pointer']})" if details.get("pointer") else ""
        self.add_error(field if field in self.fields else None, error.message + place)


def initial_of(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return a definition's JSON as the form's first values."""
    kinds = document["change_kind"]
    return {**document, "change_kind": [kinds] if isinstance(kinds, str) else kinds}
