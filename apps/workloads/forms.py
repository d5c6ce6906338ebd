"""The console's form for asking again for work with another input."""

import secrets

from django import forms

from apps.http import strict_json
from apps.http.errors import ApiError
from apps.http.pages.display import json_text
from apps.workloads import limits, twins
from apps.workloads.models import Workload


class InputForm(forms.Form):
    """An input as JSON text, and the key under which the new work is made once."""

    input = forms.CharField(
        label="Input",
        required=False,
        widget=forms.Textarea(attrs={"rows": 10, "spellcheck": "false", "autocomplete": "off"}),
        help_text="JSON. The new work is asked for by you and starts with a history of its own.",
    )
    key = forms.CharField(widget=forms.HiddenInput, max_length=limits.MAX_TEXT_CHARS)
    seen = forms.IntegerField(widget=forms.HiddenInput, min_value=0, max_value=2**63 - 1)
    """The newest work that had been asked for in its place when the page was shown, 0 for none."""

    @classmethod
    def of(cls, work: Workload) -> "InputForm":
        """Return the form with the input the work was given, whole."""
        text, _ = json_text(work.request.input, max_chars=2 * limits.MAX_INPUT_BYTES)
        key = f"again:{work.workload_id}:{secrets.token_hex(8)}"
        return cls(initial={"input": text, "key": key, "seen": twins.newest(work)})

    def seeing(self, twin: Workload) -> "InputForm":
        """Return the form as it was sent, now that the twin has been shown beside it."""
        return type(self)({**{name: self.data.get(name) for name in self.fields}, "seen": twin.pk})

    def clean_input(self) -> object:
        """Return the JSON value. Raises with line and column for what is no JSON."""
        text = self.cleaned_data["input"].strip()
        try:
            return strict_json.loads(text.encode("utf-8", "surrogatepass"))
        except ApiError as error:
            raise forms.ValidationError(f"{error.message} Nothing was done.") from None
