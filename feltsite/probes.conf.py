"""How gunicorn serves health and metrics alone, in a process of its own: as the server, and it never cleans counts."""

import runpy
from pathlib import Path
from typing import Any

globals().update(runpy.run_path(str(Path(__file__).with_name("gunicorn.conf.py"))))

proc_name = "feltdb-probes"


def on_starting(server: Any) -> None:
    """Leave the counts of the server's processes alone: this one comes and goes by itself."""
    from apps.operations.services.supervised import end_with_supervisor

    end_with_supervisor()
