"""The files an operator deploys with say what they promise: container, units, and where processes share memory."""

import configparser
import os
import re
import shlex
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from feltsite import environment
from tests.needs import missing

ROOT = Path(__file__).resolve().parents[2]
UNITS = sorted((ROOT / "deploy" / "systemd").glob("*.service"))
HARDENED = {"NoNewPrivileges": "yes", "ProtectSystem": "strict", "ProtectHome": "yes", "PrivateTmp": "yes"}


def instructions() -> list[tuple[str, str]]:
    """The container file's instructions with their arguments, continued lines joined."""
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return [(line.split(None, 1)[0], line.split(None, 1)[1].strip()) for line in lines]


def unit(path: Path) -> configparser.ConfigParser:
    found = configparser.ConfigParser(strict=False, interpolation=None)
    found.optionxform = str  # type: ignore[assignment,method-assign]
    found.read_string(path.read_text(encoding="utf-8"))
    return found


def test_the_container_runs_without_rights_and_writes_one_volume() -> None:
    found = instructions()
    users = [value for name, value in found if name == "USER"]
    assert users == ["feltdb"], "it ends as the user without rights"
    kinds = [name for name, _ in found]
    assert kinds.index("USER") < kinds.index("CMD") and "USER" not in kinds[kinds.index("CMD") :]
    assert [value for name, value in found if name == "VOLUME"] == ["/data"]
    assert "FELTDB_DATA_DIR=/data" in dict(found)["ENV"]
    assert not {"ADD", "ENTRYPOINT"} & set(kinds)
    created = next(value for name, value in found if name == "RUN" and "useradd" in value)
    assert re.search(r"--uid 1\d{4}\b", created) and "--mode 0700 /data" in created and "nologin" in created


def test_the_container_pins_its_base_keeps_no_cache_and_is_healthy_only_when_ready() -> None:
    found = instructions()
    base = dict(found)["FROM"]
    assert re.fullmatch(r"python:3\.\d+-slim", base), base
    for name, value in found:
        if name == "RUN" and "pip install" in value:
            assert "--no-cache-dir" in value and "-r requirements.txt" in value and "-dev" not in value
    check = dict(found)["HEALTHCHECK"]
    assert "deploy/healthcheck.py" in check and dict(found)["STOPSIGNAL"] == "SIGTERM"
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").split()
    assert {".git", ".venv", "data"} <= set(ignored), "neither history nor anybody's data goes into an image"


def test_the_health_check_asks_by_a_name_that_the_instance_answers_to() -> None:
    asked: list[str] = []

    class Ready(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(f"{self.headers['Host']} {self.path}")
            self.send_response(200 if len(asked) < 4 else 503)
            self.end_headers()

        def log_message(self, format: str, *arguments: object) -> None:
            pass

    def check(**environment: str) -> int:
        command = [sys.executable, str(ROOT / "deploy" / "healthcheck.py")]
        return subprocess.run(command, env=environment, capture_output=True, timeout=30, check=False).returncode

    with HTTPServer(("127.0.0.1", 0), Ready) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        port = str(server.server_port)
        codes = [check(PORT=port), check(PORT=port, ALLOWED_HOSTS="*, .felt.example,other"), check(PORT=port)]
        codes.append(check(PORT=port, ALLOWED_HOSTS="felt.example"))
        server.shutdown()
        thread.join()
    assert codes == [0, 0, 0, 1], "ready, and at last not"
    assert asked[:2] == ["127.0.0.1 /health/ready", "felt.example /health/ready"]
    assert check(PORT=port) == 1, "nobody there"


def test_server_and_worker_share_one_pid_namespace_and_stop_in_good_order() -> None:
    command = dict(instructions())["CMD"]
    assert "exec " in command and "supervisord" in command, "signals reach the supervisor"
    programs = configparser.ConfigParser(interpolation=None)
    programs.read_string((ROOT / "feltsite" / "supervisord.conf").read_text(encoding="utf-8"))
    for name in ("program:server", "program:worker", "program:probes"):
        assert programs[name]["stopsignal"] == "TERM" and int(programs[name]["stopwaitsecs"]) >= 30
    graceful = re.search(r"^graceful_timeout = (\d+)", (ROOT / "feltsite/gunicorn.conf.py").read_text(), re.MULTILINE)
    assert graceful and int(graceful[1]) < 30


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_a_unit_is_hardened_restarts_and_gives_time_to_stop(path: Path) -> None:
    service = unit(path)["Service"]
    assert service["User"] == service["Group"] == "feltdb"
    assert {name: service[name] for name in HARDENED} == HARDENED
    assert service["StateDirectory"] == "feltdb" and service["StateDirectoryMode"] == "0700"
    assert "PrivatePIDs" not in service and "RootDirectory" not in service, "one PID namespace"
    assert service["Restart"] in ("always", "on-failure")
    assert int(service["TimeoutStopSec"]) >= 30 and service["KillMode"] == "mixed"
    known = {variable.name for variable in environment.VARIABLES}
    assert {each.partition("=")[0] for each in shlex.split(service["Environment"])} <= known


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_a_unit_starts_what_there_is(path: Path) -> None:
    service = unit(path)["Service"]
    for name in ("ExecStartPre", "ExecStart"):
        if name in service:
            program, *arguments = shlex.split(service[name])
            assert program in ("/opt/feltdb/.venv/bin/python", "/opt/feltdb/.venv/bin/gunicorn")
            if arguments[0] == "manage.py":
                command = ROOT / "apps/operations/management/commands" / f"{arguments[1]}.py"
                assert command.exists()
            else:
                assert (ROOT / arguments[arguments.index("--config") + 1]).exists()


def test_systemd_itself_takes_the_units(tmp_path: Path) -> None:
    """With every path of theirs pointed at something that exists here."""
    copies = []
    for path in UNITS:
        text = re.sub(r"/opt/feltdb/\.venv/bin/\S+", "/bin/true", path.read_text(encoding="utf-8"))
        copies.append(tmp_path / path.name)
        copies[-1].write_text(text.replace("/opt/feltdb", "/"), encoding="utf-8")
    try:
        done = subprocess.run(
            ["systemd-analyze", "verify", "--man=no", *map(str, copies)],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            env={**os.environ, "SYSTEMD_UNIT_PATH": f"{tmp_path}:"},
        )
    except FileNotFoundError:
        missing("there is no systemd here to ask")
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
