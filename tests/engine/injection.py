"""Makes system calls of a running process fail, by strace: the nth of some calls on a file, or all from then on.

Fails where CI says that it must run and the system has no strace or does not let it trace.
"""

import shutil
import signal
import subprocess
import tempfile
from pathlib import Path
from types import TracebackType

from tests.needs import missing

DATA_SYNC = "fdatasync,fsync,msync"
WRITES = "write,pwrite64,writev,pwritev,pwritev2"


class Injection:
    """While it lasts, the named calls of the process on the file meet a fault, as strace says it: "error=EIO:when=1+".

    Each kind of call is counted for itself.
    """

    def __init__(self, pid: int, path: Path, calls: str, fault: str) -> None:
        self._log = Path(tempfile.mkstemp(prefix="feltdb-strace-")[1])
        self._pid = pid
        self._options = ["-P", str(path), "-e", f"trace={calls}", "-e", f"inject={calls}:{fault}"]
        self.hit = 0

    def __enter__(self) -> "Injection":
        if shutil.which("strace") is None:
            missing("strace is not installed: scripts/install-package strace tests")
        command = ["strace", "-f", "-o", str(self._log), *self._options, "-p", str(self._pid)]
        self._process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        assert self._process.stderr is not None
        said = self._process.stderr.readline()
        while said and "attached" not in said:
            if "not permitted" in said or "denied" in said:
                self._process.wait(20)
                missing(f"strace may not trace processes here (ptrace must be permitted): {said.strip()}")
            said = self._process.stderr.readline()
        assert said, "strace ended before it began"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.send_signal(signal.SIGINT)
        self._process.wait(20)
        assert self._process.stderr is not None
        self._process.stderr.close()
        self.hit = self._log.read_text(errors="replace").count("INJECTED)")
        self._log.unlink()
