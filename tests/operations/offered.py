"""The forms that pages of the console offer for acting, as a person finds them: read from the pages themselves."""

from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any
from urllib.parse import urlsplit

from django.test import Client
from django.urls import resolve


@dataclass(kw_only=True, slots=True)
class Form:
    """A form that is posted: where to, what it says as it is shown, and its first button's name and value."""

    address: str
    fields: dict[str, str] = field(default_factory=dict)
    pressed: bool = False

    @property
    def name(self) -> str:
        """The name of its address, with the action where one address has several."""
        found = resolve(urlsplit(self.address).path)
        confirmed = self.fields.get("action", "") if "confirmed" in self.fields else ""
        return f"{found.url_name} {found.kwargs.get('action', confirmed)}".strip()


class _Reader(HTMLParser):
    def __init__(self, address: str) -> None:
        super().__init__()
        self.found: list[Form] = []
        self._here = address
        self._form: Form | None = None
        self._select = self._area = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        said: dict[str, Any] = dict(attrs)
        if tag == "form":
            posts = said.get("method") == "post"
            self._form = Form(address=said.get("action") or self._here) if posts else None
            self.found += [self._form] if self._form else []
        if self._form is None:
            return
        name, value = said.get("name") or "", said.get("value") or ""
        if tag == "input" and name:
            if said.get("type") not in ("checkbox", "radio") or "checked" in said:
                self._form.fields[name] = value
        elif tag == "button" and said.get("formaction"):
            self.found.append(Form(address=said["formaction"], fields=self._form.fields, pressed=True))
        elif tag == "button" and not self._form.pressed:
            self._form.pressed = True
            if name:
                self._form.fields[name] = value
        elif tag == "select":
            self._select = name
        elif tag == "option" and self._select and (self._select not in self._form.fields or "selected" in said):
            self._form.fields[self._select] = value
        elif tag == "textarea":
            self._area = name
            self._form.fields[name] = ""

    def handle_endtag(self, tag: str) -> None:
        if tag == "form":
            self._form = None
        elif tag == "select":
            self._select = ""
        elif tag == "textarea":
            self._area = ""

    def handle_data(self, data: str) -> None:
        if self._form and self._area:
            self._form.fields[self._area] += data


def forms(page: str, address: str) -> list[Form]:
    """Return the forms of a page that are posted."""
    reader = _Reader(address)
    reader.feed(page)
    return reader.found


def press(console: Client, page: str, name: str, *, follow: bool = False, **fields: str) -> Any:
    """Press the button of `page` whose form's name ends in `name`, as it is shown now; return the answer."""
    shown = forms(console.get(page).content.decode(), page)
    form = next(each for each in shown if each.name.endswith(name))
    return console.post(form.address, {**form.fields, **fields}, follow=follow)
