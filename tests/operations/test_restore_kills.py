"""A restore killed at any step: nothing half usable is left, it is said, and the same restore again ends well.

Every process is forked from one that has loaded Django and opened nothing; it dies by SIGKILL before the nth call that
changes a name or forces something. Over an instance that is there (`--replace`) and on an empty machine, on SQLite and
on PostgreSQL, whose database is made anew before each restore as the runbook says. Cost: 20 s on SQLite, more there.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import postgres
from tests.operations.test_backups import ROOT

pytestmark = pytest.mark.acceptance

DRIVE = """
import json, os, shutil, signal, sys, traceback
from pathlib import Path
import django
django.setup()
from django.conf import settings
from django.core.management import call_command
from django.db import connection
from apps.keys.principal import operator
from apps.operations.services import backups, doctor, health
from apps.state import stores
from feltdb_engine import Mutation
from feltdb_engine.errors import DestinationExists

data, bundle, kept = Path(settings.DATA_DIR), Path(sys.argv[1]), Path(sys.argv[2])
replace, every = bool(int(sys.argv[3])), int(sys.argv[4])
BY = operator("tests")
postgres = connection.vendor == "postgresql"
CALLS = ("replace", "rename", "rmdir", "unlink", "mkdir", "fsync")

def child(body):
    "Run it in a process of its own; return what it says, or the signal that killed it."
    reading, writing = os.pipe()
    pid = os.fork()
    if not pid:
        try:
            os.close(reading)
            said = json.dumps(body())
        except BaseException:
            said = json.dumps({"error": traceback.format_exc()})
        os.write(writing, said.encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        said = pipe.read()
    _, status = os.waitpid(pid, 0)
    return json.loads(said) if os.WIFEXITED(status) else {"killed": os.WTERMSIG(status)}

def make(name):
    def body():
        call_command("setup", verbosity=0, stdout=sys.stderr)
        stores.store("default").commit([Mutation(kind="put", collection="a", id=name, value={})])
        return name
    return body

def back_up():
    return backups.create(bundle, by=BY).bytes

def restore():
    return str(backups.restore(bundle, by=BY, replace=True).bundle.version)

def anew():
    "What dropdb and createdb do."
    with connection.cursor() as cursor:
        cursor.execute("DROP SCHEMA public CASCADE")
        cursor.execute("CREATE SCHEMA public")

def restore_over_tables():
    "Refused with the next step, or nothing: the database has no table."
    if not connection.introspection.table_names():
        return ""
    try:
        restore()
    except DestinationExists as error:
        return str(error)
    return "restored over tables"

def killed_at(nth):
    def body():
        count = 0
        def dying(true):
            def call(*arguments, **named):
                nonlocal count
                count += 1
                if count == nth:
                    os.kill(os.getpid(), signal.SIGKILL)
                return true(*arguments, **named)
            return call
        for name in CALLS:
            setattr(os, name, dying(getattr(os, name)))
        restore()
        return {"calls": count}
    return body

def look():
    "What an operator sees: the doctor's word, whether setup starts it, and the records."
    unfinished = "RESTORE_UNFINISHED" in [each.code for each in doctor.examine(verify=True).findings]
    health.forget()
    seen = health.observe(write=False)
    try:
        call_command("setup", verbosity=0, stdout=sys.stderr)
        refused = ""
    except BaseException as error:
        refused = str(error)
    ids = []
    if not refused and (data / "namespaces/default").is_dir():
        ids = sorted(each.id for each in stores.store("default").page("a", limit=10).records)
    return {"unfinished": unfinished, "ready": seen.ready, "refused": refused, "ids": ids}

def clear():
    for each in data.iterdir():
        if each.name != "secrets":
            shutil.rmtree(each) if each.is_dir() else each.unlink()
    if postgres:
        assert child(anew) is None

def begin():
    clear()
    if replace:
        shutil.copytree(kept, data, dirs_exist_ok=True, symlinks=True)

told = [child(make("restored")), child(back_up)]
clear()
told.append(child(make("before")))
shutil.copytree(data, kept, ignore=shutil.ignore_patterns("secrets"))
begin()
told.append(child(killed_at(0)))
calls = told[-1]["calls"]
assert child(look)["ids"] == ["restored"]
marked = []
tables = 0
nth = 1
while nth <= calls:
    begin()
    died = child(killed_at(nth))
    assert died == {"killed": signal.SIGKILL}, died
    seen = child(look)
    where = f"call {nth} of {calls}: {seen}"
    seen_mark = seen["unfinished"]
    if seen_mark:
        marked.append(nth)
        assert not seen["ready"] and "cut off" in seen["refused"], where
    else:
        assert not seen["refused"], where
        # Not begun: what was here is here, untouched; or ended, but for its last word.
        assert seen["ids"] in ([["before"], ["restored"]] if replace else [[], ["restored"]]), where
        assert (seen["ids"] == ["restored"]) == bool(marked), where
    if postgres:
        over = child(restore_over_tables)
        assert not over or "dropdb" in over, (where, over)
        assert over or seen_mark, (where, over)
        tables += bool(over and seen_mark)
        assert child(anew) is None
    again = child(restore)
    assert isinstance(again, str), (where, again)
    seen = child(look)
    assert seen == {"unfinished": False, "ready": True, "refused": "", "ids": ["restored"]}, (where, seen)
    assert not [each for each in data.iterdir() if each.name.startswith((".restore-", "restore-"))], where
    if replace:
        aside = {each.name for folder in data.glob("replaced-*") for each in folder.iterdir()}
        assert {"namespaces"} | (set() if postgres else {"control.sqlite3"}) <= aside, (where, aside)
    nth += 1 if seen_mark else every
print(json.dumps({"calls": calls, "marked": len(marked), "told": len(told), "tables": tables}))
"""


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest) -> Iterator[str]:
    if request.param == "sqlite":
        yield ""
        return
    with postgres.database("restore_kills") as url:
        yield url


@pytest.mark.timeout(280)
@pytest.mark.parametrize("replace", [True, False], ids=["over an instance", "on an empty machine"])
def test_a_killed_restore_leaves_nothing_half_usable_says_so_and_can_be_repeated(
    tmp_path: Path, replace: bool, database_url: str
) -> None:
    environment = {
        **{name: value for name, value in os.environ.items() if name != "DATABASE_URL"},
        "DJANGO_SETTINGS_MODULE": "feltsite.settings",
        "FELTDB_DATA_DIR": str(tmp_path / "data"),
        "LOG_LEVEL": "ERROR",
        **({"DATABASE_URL": database_url} if database_url else {}),
    }
    (tmp_path / "data").mkdir()
    arguments = [str(tmp_path / "bundle"), str(tmp_path / "kept"), str(int(replace)), "16"]
    done = subprocess.run(
        [sys.executable, "-c", DRIVE, *arguments],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=270,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    said = json.loads(done.stdout.splitlines()[-1])
    print(said)
    least = 4 if database_url else 5  # its database is no file that changes its name
    assert said["marked"] > least, "it was killed between the first and the last thing put in its place"
    if database_url:
        assert said["tables"] > 1, "it was killed after the database was filled, too"
