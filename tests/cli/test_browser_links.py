"""`interlock open`, `pair` and `logins` against a real server: a link logs in once, a login until it is revoked."""

from __future__ import annotations

import http.client
import json
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from interlock.cli.browser.links import has_desktop
from tests.bodies import Body
from tests.cli.serving import Served, serving


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    proxied = ("--allow-host", "box.example", "--allow-origin", "https://box.example", "--allow-host", "plain.example")
    with serving(tmp_path_factory.mktemp("browser"), proxied) as one:
        yield one


def ask(served: Served, method: str, path: str, body: Body | None = None, **headers: str) -> tuple[int, str, str]:
    """What a page gets: the status, its cookie, and the body."""
    parts = urlsplit(served.api.url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=60)
    try:
        sent = {"Origin": served.api.url, "Content-Type": "application/json", "X-Interlock": "1", **headers}
        connection.request(method, path, None if body is None else json.dumps(body), sent)
        answer = connection.getresponse()
        return answer.status, (answer.getheader("set-cookie") or "").partition(";")[0], answer.read().decode()
    finally:
        connection.close()


def log_in(served: Served, url: str, device: str, **headers: str) -> tuple[int, str]:
    parts = urlsplit(url)
    assert parts.path == "/login"
    body = {"ticket": parts.fragment.removeprefix("t="), "device": device}
    status, cookie, _ = ask(served, "POST", "/api/login", body, **headers)
    return status, cookie


def logins(served: Served) -> list[Body]:
    found: list[Body] = served.json("logins", "ls")["logins"]
    return found


def test_a_link_of_open_logs_in_once_and_survives_a_crash_of_the_server_and_ends_when_revoked(served: Served) -> None:
    told = served.json("open", "--no-browser")
    assert (told["role"], told["is_opened"]) == ("operator", False)
    status, cookie = log_in(served, told["url"], "Firefox")
    assert status == 204
    assert log_in(served, told["url"], "Firefox")[0] == 401
    assert ask(served, "GET", "/api/server", Cookie=cookie)[0] == 200
    (mine,) = [one for one in logins(served) if one["device"] == "Firefox"]
    kept = served.home / "logins.json"
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert cookie.partition("=")[2] not in kept.read_text()

    served.kill()
    served.start()
    address = {"Origin": served.api.url, "Cookie": cookie}
    assert ask(served, "GET", "/api/server", **address)[0] == 200

    done = served.cli("logins", "revoke", "Firefox")
    assert (done.returncode, done.stdout) == (0, f"{mine['login_id']}  Firefox is logged out\n")
    assert ask(served, "GET", "/api/server", **address)[0] == 401
    again = served.cli("logins", "revoke", "Firefox")
    assert again.returncode == 2
    assert "interlock logins ls" in again.stderr


def test_open_starts_the_browser_that_is_named_with_the_link(served: Served, tmp_path: Path) -> None:
    browser, told = tmp_path / "browser", tmp_path / "told"
    browser.write_text(f'#!{sys.executable}\nimport sys\nopen({str(told)!r}, "w").write(sys.argv[1])\n')
    browser.chmod(0o700)
    done = served.cli("open", BROWSER=f"{browser} %s")
    assert done.returncode == 0, done.stderr
    url = told.read_text()
    assert url in done.stdout
    assert url.startswith(f"{served.api.url}/login#t=")
    assert log_in(served, url, "the browser")[0] == 204


def test_pair_gives_a_link_and_a_code_for_an_address_that_a_phone_reaches(served: Served) -> None:
    told = served.json("pair", "--url", "https://box.example", "--name", "my phone")
    assert told["role"] == "observer"
    assert told["url"].startswith("https://box.example/login#t=")
    there = {"Host": "box.example", "Origin": "https://box.example"}
    status, cookie = log_in(served, told["url"], "Safari", **there)
    assert (status, cookie.partition("=")[0]) == (204, "__Host-interlock")
    path = "/api/login/tickets"
    assert ask(served, "POST", path, {"role": "operator"}, Cookie=cookie, **there)[0] == 403
    assert [one["role"] for one in logins(served) if one["device"] == "my phone"] == ["observer"]

    drawn = served.cli("pair", "--url", "https://box.example", "--role", "act")
    *code, link = drawn.stdout.splitlines()
    assert len(code) > 15
    assert {*"".join(code)} <= {*" ▄▀█"}
    assert link.startswith("https://box.example/login#t=")
    assert "look and act" in drawn.stderr
    assert log_in(served, link, "x", **there)[0] == 204
    table = served.cli("logins", "ls").stdout
    assert "my phone" in table
    assert "look and act" in table


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ((), "reached from this machine only"),
        (("--url", "http://localhost:1"), "reached from this machine only"),
        (("--url", "http://[::1]:1"), "reached from this machine only"),
        (("--url", "box.example"), "no address of a server"),
        (("--url", "https://box.example/s/1"), "no address of a server"),
        (("--url", "https://a@box.example"), "no address of a server"),
        (("--url", "https://other.example"), "does not answer to that name"),
        (("--url", "https://plain.example"), "allowed_origins"),
        (("--url", "https://box.example", "--name", "x" * 61), "name"),
    ],
)
def test_pair_gives_no_link_that_would_not_work(served: Served, args: tuple[str, ...], words: str) -> None:
    done = served.cli("pair", *args)
    assert (done.returncode, done.stdout) == (2, "")
    assert words in done.stderr


def test_without_a_server_there_is_no_link(tmp_path: Path, served: Served) -> None:
    for line in (("open", "--no-browser"), ("pair",), ("logins", "ls"), ("logins", "revoke", "x")):
        done = served.cli(*line, INTERLOCK_HOME=str(tmp_path / "none"))
        assert (done.returncode, done.stdout) == (8, ""), line
        assert "interlock up" in done.stderr


def test_a_browser_is_started_where_there_is_a_desktop() -> None:
    table: tuple[tuple[dict[str, str], str, bool], ...] = (
        ({}, "linux", False),
        ({"DISPLAY": ":0"}, "linux", True),
        ({"WAYLAND_DISPLAY": "wayland-0"}, "linux", True),
        ({"BROWSER": "firefox"}, "linux", True),
        ({}, "darwin", True),
        ({"SSH_CONNECTION": "1.2.3.4"}, "darwin", False),
    )
    for environ, platform, is_there in table:
        assert has_desktop(environ, platform) is is_there
