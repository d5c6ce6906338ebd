"""What failures have in common. Pure."""

import re

_VARIABLE = re.compile(r"\b(?=[\w.:-]*\d)[\w.:-]+")


def alike(failure: str) -> str:
    """Return what failures of one kind have in common: the first line, with every word that holds a digit as `#`."""
    lines = failure.strip().splitlines()
    return _VARIABLE.sub("#", lines[0]) if lines else ""
