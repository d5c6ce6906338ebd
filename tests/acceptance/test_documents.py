"""What the documents tell people to type works as it stands. Cost: about 20 seconds."""

import json
import re
import subprocess
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import expect

from demo.instance import ROOT, Instance
from tests.acceptance.browser import browser

pytestmark = pytest.mark.acceptance


def test_the_examples_of_the_api_page_run_as_written_and_none_is_refused(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```sh\n(.*?)```", text, flags=re.DOTALL)
    calls = sum(len(re.findall(r"^feltdb ", block, flags=re.MULTILINE)) for block in blocks)
    assert calls >= 12
    with Instance(tmp_path / "data") as instance:
        instance.start_server()
        key = instance.new_key(
            "state:read",
            "state:write",
            "events:read",
            "schema:write",
            "capabilities:read",
            "capabilities:write",
        )
        script = "\n".join(blocks).replace("fdb_...", key).replace("http://127.0.0.1:8000", instance.url)
        done = subprocess.run(["bash", "-eu", "-c", script], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    answers = [json.loads(line) for line in done.stdout.splitlines() if line]
    assert len(answers) == calls
    refused = [answer for answer in answers if "code" in answer]
    assert refused == []


def test_the_commands_of_the_api_page_that_answer_with_lines_run_as_written(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    [prelude, *_] = re.findall(r"```sh\n(.*?)```", text, flags=re.DOTALL)
    follow, transfer = re.findall(r"```console\n(.*?)```", text, flags=re.DOTALL)
    with Instance(tmp_path / "data") as instance:
        instance.start_server()
        key = instance.new_key("state:read", "state:write", "events:read")

        def run(commands: str) -> "subprocess.CompletedProcess[str]":
            script = "\n".join([prelude, commands])
            script = script.replace("fdb_...", key).replace("http://127.0.0.1:8000", instance.url)
            return subprocess.run(
                ["bash", "-eu", "-c", script], capture_output=True, text=True, check=False, timeout=60, cwd=tmp_path
            )

        run('feltdb -X POST $api/collections/orders -d \'{"id": "2001", "status": "new"}\'')
        transferred = run(transfer)
        assert transferred.returncode == 0, transferred.stderr
        *_, last = [json.loads(line) for line in transferred.stdout.splitlines()]
        assert (last["complete"], last["records"]) == (True, 1)
        exported = [json.loads(line) for line in (tmp_path / "orders.ndjson").read_text().splitlines()]
        assert (len(exported), exported[-1]["complete"]) == (3, True)
        followed = run(follow.replace("curl ", "curl --max-time 3 ").replace("after=now", "after=start"))
        assert followed.returncode == 28, "a stream goes on until its reader has had enough"
        assert "event: state.committed" in followed.stdout and '"id":"2001"' in followed.stdout


def test_the_live_reference_shows_every_route_in_a_browser_and_loads_nothing_from_elsewhere(tmp_path: Path) -> None:
    with Instance(tmp_path / "data") as instance, browser() as seen:
        instance.start_server()
        asked: list[str] = []
        seen.page.on("request", lambda request: asked.append(request.url))
        seen.page.goto(f"{instance.url}/v1/docs")
        paths = httpx.get(f"{instance.url}/v1/openapi.json").json()["paths"]
        expected = sum(len(methods) for methods in paths.values())
        expect(seen.page.locator(".opblock")).to_have_count(expected, timeout=30_000)
        seen.page.get_by_text("/v1/collections/{collection}", exact=True).first.click()
        assert all(url.startswith((instance.url, "data:")) for url in asked), asked
        seen.check()
