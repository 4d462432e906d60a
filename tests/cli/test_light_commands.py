"""The commands that are typed all day load themselves: no parser, no store, no encoder, no event loop."""

from __future__ import annotations

import json

import pytest

from tests.cli.harness import python
from tests.cli.serving import Served

HEAVY = {"apsw", "asyncio", "cyclopts", "httpx", "litestar", "msgspec", "rich", "subprocess", "textual", "websockets"}


@pytest.mark.parametrize(
    "words", ["status", "spawns", "usage", "show light", "logs light --turns", "ps --all", "version"]
)
def test_a_command_that_asks_a_server_loads_little(acting_server: Served, words: str) -> None:
    if not acting_server.cli("show", "light").stdout:
        acting_server.done("say hello", title="light")
    code = (
        "import json, sys\nfrom interlock.cli import main\n"
        f"code = main({words.split()!r})\nsys.stderr.write(json.dumps([code, *sorted(sys.modules)]))"
    )
    done = python(code, env={"INTERLOCK_HOME": str(acting_server.home)})
    exit_code, *loaded = json.loads(done.stderr.splitlines()[-1])
    assert exit_code == 0, done.stderr
    assert not HEAVY & set(loaded)
