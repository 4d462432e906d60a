"""Ten secrets, and every door of a real server at which they must not be found.

The doors: the files of the home as they are, exports and replays, the server's own log, HTTP, a WebSocket, server-sent
events, and what commands print, with and without --json.
"""

from __future__ import annotations

import json
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

import websockets.sync.client
from websockets.exceptions import WebSocketException

from tests.cli.serving import Served

BY_VALUE: Final = {
    "SERVICE_PASSWORD": "hunter-2-of-many",
    "WHATEVER": "plain-looking-9",
    "BLANKS": "several words, 7 of them",
    "UMLAUT": "gr\u00fc\u00dfe-42-\u20ac",
    "A_COOKIE": "session/of=somebody",
    "SHORT_TOKEN": "x9!k2q",
}
BY_SHAPE: Final = ("ghp_abcdefghij0123456789", "sk-ant-api03-abcdefgh12345678", "AKIAIOSFODNN7EXAMPLE")
TAKEN: Final = "taken-over-from-ours-1"
ALL: Final = " + ".join((*BY_VALUE.values(), *BY_SHAPE, TAKEN))
HIDDEN: Final = (*BY_VALUE.values(), *(one[8:] for one in BY_SHAPE), TAKEN)
ENVIRONMENT: Final = {**BY_VALUE, "TAKEN_OVER": TAKEN, "FAKE_SECRETS": ALL}


def found_in(data: bytes) -> list[str]:
    """The secrets that stand in bytes, as they are or as JSON spells them."""
    spelled = {one: {one, json.dumps(one)[1:-1]} for one in HIDDEN}
    return [one for one, ways in spelled.items() if any(way.encode() in data for way in ways)]


class Listener:
    """Everything that one door says while the test goes on, read by a thread that ends with its connection."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self.heard = bytearray()
        self._pieces = pieces
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def _listen(self) -> None:
        with suppress(OSError, WebSocketException):
            for piece in self._pieces:
                self.heard += piece

    def join(self) -> None:
        self._thread.join(20)
        assert not self._thread.is_alive()


def tokens_of(served: Served) -> dict[str, str]:
    tokens: dict[str, str] = json.loads((served.home / "tokens.json").read_text())
    return tokens


def sse(served: Served, task_id: str) -> Iterator[bytes]:
    head = {"Authorization": f"Bearer {tokens_of(served)['operator']}"}
    request = urllib.request.Request(f"{served.api.url}/api/tasks/{task_id}/events", headers=head)
    with urllib.request.urlopen(request, timeout=100) as stream:
        assert stream.status == 200
        yield from stream


def frames(served: Served, task_id: str, over: threading.Event) -> Iterator[bytes]:
    head = {"Authorization": f"Bearer {tokens_of(served)['operator']}"}
    url = f"{served.api.url.replace('http', 'ws', 1)}/api/socket"
    with websockets.sync.client.connect(url, additional_headers=head, max_size=None) as wire:
        wire.send(json.dumps({"type": "task:join", "id": "1", "task_id": task_id}))
        wire.send(json.dumps({"type": "board:join", "id": "2"}))
        while not over.is_set():
            with suppress(TimeoutError):
                said = wire.recv(timeout=0.2)
                yield said if isinstance(said, bytes) else said.encode()


def bodies(served: Served, task_id: str) -> Iterator[tuple[str, bytes]]:
    head = {"Authorization": f"Bearer {tokens_of(served)['operator']}"}
    own = (
        "",
        "/messages",
        "/turns",
        "/queue",
        "/approvals",
        "/state",
        "/runtime-check",
        "/spawns",
        "/usage",
        "/why",
        "/why/lines",
    )
    for path in (*(f"/api/tasks/{task_id}{one}" for one in own), "/api/tasks", "/api/approvals", "/metrics", "/health"):
        request = urllib.request.Request(f"{served.api.url}{path}", headers=head)
        with urllib.request.urlopen(request, timeout=100) as answer:
            assert answer.status == 200, path
            yield path, answer.read()


COMMANDS: Final = (
    *("show {id}", "logs {id}", "spawns {id}", "usage {id}", "turns {id}", "why {id}", "diagnose {id}", "replay {id}"),
    *("ps --all", "status", "approvals", "log show {id}", "log export {id}"),
)


def printed(served: Served, task_id: str) -> Iterator[tuple[str, bytes]]:
    for line in COMMANDS:
        for more in ("", " --json"):
            if line.startswith("log export") and more:
                continue
            done = served.cli(*(line + more).format(id=task_id).split())
            assert done.returncode in (0, 1, 3, 4, 6), (line, done.stderr)
            assert "Traceback" not in done.stderr
            yield line + more, (done.stdout + done.stderr).encode()


class Doors:
    """What every door said of one task. `heard` is filled when the block of `watching` is over."""

    def __init__(self, served: Served, task_id: str) -> None:
        self._served = served
        self._task_id = task_id
        self.heard: dict[str, bytes] = {}

    def look(self) -> None:
        """Ask at every door that answers when it is asked."""
        self.heard |= dict(bodies(self._served, self._task_id)) | dict(printed(self._served, self._task_id))

    def read_files(self) -> None:
        """The files of the home, and what the server wrote on its standard error."""
        home = self._served.home
        for file in (one for folder in (home, home / "logs") for one in folder.glob("*") if one.is_file()):
            if file.name != "tokens.json":
                self.heard[file.name] = file.read_bytes()
        assert any(name.startswith("log") or ".db" in name or "sqlite" in name for name in self.heard)
        self.heard["server's words"] = (self._served.folder / "server-stderr").read_bytes()

    def check(self) -> None:
        """No secret and no token is at any door, and what is hidden was said."""
        found = {place: found_in(body) for place, body in self.heard.items() if found_in(body)}
        assert found == {}, str(found)
        masked = "*" * len(TAKEN)  # so that what is not found was said, and is masked
        said = (f"/api/tasks/{self._task_id}", "logs {id}", "log export {id}")
        assert all(masked in self.heard[name].decode() for name in said)
        known = tokens_of(self._served).values()
        assert [place for place, body in self.heard.items() for one in known if one.encode() in body] == []


@contextmanager
def watching(served: Served, task_id: str) -> Iterator[Doors]:
    """Listen at a WebSocket and at server-sent events during the block; then stop the task and read the files."""
    doors, over = Doors(served, task_id), threading.Event()
    events, socket = Listener(sse(served, task_id)), Listener(frames(served, task_id, over))
    try:
        yield doors
    finally:
        served.api.ask("POST", f"/api/tasks/{task_id}/stop")
        over.set()
        socket.join()
    doors.heard |= {"websocket": bytes(socket.heard), "sse": bytes(events.heard)}
    assert task_id.encode() in doors.heard["websocket"]
    assert b"event" in doors.heard["sse"]
    doors.read_files()
