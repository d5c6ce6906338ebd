"""What a test needs of the machine and does not find."""

import os
from typing import NoReturn

import pytest


def missing(why: str) -> NoReturn:
    """Fail where CI says that everything must run (`CI=true`); elsewhere skip, and say why."""
    if os.environ.get("CI") == "true":
        pytest.fail(why)
    pytest.skip(why)
