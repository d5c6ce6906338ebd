"""The demonstration: real flights through the API, a trigger, a worker, and an account that must come out exact.

`make demo` runs it. `capabilities.py` is also the smallest example of a Django app that brings work to FeltDB's worker.
"""

import sys
from pathlib import Path

# The client is used where it lies: nothing to install before the demonstration runs.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "clients" / "python"))
