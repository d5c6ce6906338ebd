"""Pages of other origins: only those the configuration names, never the console, never with cookies."""

import os
import subprocess
import sys

import pytest

ORIGIN = "https://app.example.com"
PREFLIGHT = {"Origin": ORIGIN, "Access-Control-Request-Method": "PUT", "Access-Control-Request-Headers": "if-match"}


@pytest.fixture
def open_to_one(settings):
    settings.CORS_ALLOWED_ORIGINS = [ORIGIN]
    settings.MIDDLEWARE = [settings.MIDDLEWARE[0], "corsheaders.middleware.CorsMiddleware", *settings.MIDDLEWARE[1:]]


def test_a_preflight_is_answered_before_any_key_is_asked_for(client, open_to_one):
    answer = client.options("/v1/collections/orders/o-1", headers=PREFLIGHT)
    assert answer.status_code == 200
    assert answer["Access-Control-Allow-Origin"] == ORIGIN
    assert "PUT" in answer["Access-Control-Allow-Methods"]
    assert "if-match" in answer["Access-Control-Allow-Headers"]
    assert "Access-Control-Allow-Credentials" not in answer.headers


@pytest.mark.parametrize("path", ["/v1/health", "/v1/nothing-here", "/collections/orders"])
def test_every_answer_of_the_api_may_be_read_by_the_named_origin_refusals_too(client, open_to_one, path, db):
    answer = client.get(path, headers={"Origin": ORIGIN})
    assert answer["Access-Control-Allow-Origin"] == ORIGIN
    assert "RateLimit-Remaining" in answer["Access-Control-Expose-Headers"]
    assert "origin" in answer["Vary"]


LOOKALIKES = [
    "https://evil.example.com",
    "http://app.example.com",
    "null",
    "",
    "https://app.example.com.evil.com",
    "https://evil.com/https://app.example.com",
    "https://app.example.com@evil.com",
    "https://evil.com#https://app.example.com",
    "https://sub.app.example.com",
    "https://app.example.com:8443",
    "https://app.example.co",
    "https://xapp.example.com",
    "https://app.example.com https://evil.com",
    "https://app.example.com, https://evil.com",
    "https://app\u00a0.example.com",
    "https://[::1",
    "file://",
    "app.example.com",
]


@pytest.mark.parametrize("origin", LOOKALIKES)
def test_no_other_origin_reads_anything(client, open_to_one, origin, db):
    answer = client.get("/v1/health", headers={"Origin": origin})
    assert answer.status_code == 200 and "Access-Control-Allow-Origin" not in answer.headers
    asked = client.options("/v1/collections/orders/o-1", headers={**PREFLIGHT, "Origin": origin})
    assert asked.status_code < 500 and "Access-Control-Allow-Origin" not in asked.headers


def test_the_console_is_open_to_none(client, open_to_one, db):
    assert "Access-Control-Allow-Origin" not in client.get("/admin/login/", headers={"Origin": ORIGIN}).headers


def test_without_configuration_nothing_of_this_is_there(client, settings, db):
    assert settings.CORS_ALLOWED_ORIGINS == []
    assert not any("cors" in each for each in settings.MIDDLEWARE)
    assert "Access-Control-Allow-Origin" not in client.get("/v1/health", headers={"Origin": ORIGIN}).headers


@pytest.mark.parametrize(("origins", "good"), [(f"{ORIGIN},http://localhost:3000", True), ("*", False), ("a.b", False)])
def test_an_origin_that_is_none_stops_the_start(origins, good, tmp_path):
    environment = {**os.environ, "FELTDB_CORS_ORIGINS": origins, "FELTDB_DATA_DIR": str(tmp_path)}
    environment["DJANGO_SETTINGS_MODULE"] = "feltsite.settings"
    done = subprocess.run([sys.executable, "manage.py", "check"], env=environment, capture_output=True, text=True)
    assert (done.returncode == 0) is good, done.stderr
    assert good or "FELTDB_CORS_ORIGINS" in done.stderr
