"""The console's form for asking again for work with another input."""

import secrets

from django import forms

from apps.http import strict_json
from apps.http.errors import ApiError
from apps.http.pages.display import json_text
from apps.workloads import limits
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

    @classmethod
    def of(cls, work: Workload) -> "InputForm":
        """Return the form with the input the work was given, whole."""
        text, _ = json_text(work.request.input, max_chars=2 * limits.MAX_INPUT_BYTES)
        return cls(initial={"input": text, "key": f"again:{work.workload_id}:{secrets.token_hex(8)}"})

    def clean_input(self) -> object:
        """Return the JSON value. Raises with line and column for what is no JSON."""
        text = self.cleaned_data["input"].strip()
        try:
            return strict_json.loads(text.encode("utf-8", "surrogatepass"))
        except ApiError as error:
            raise forms.ValidationError(f"{error.message} Nothing was done.") from None
