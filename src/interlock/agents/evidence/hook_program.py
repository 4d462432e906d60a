"""The program that an agent runs at its hooks: hands what the hook was given to the runtime, if one listens.

It runs inside somebody's working agent, so its laws are about what it must not do:
1. It exits 0 and prints nothing, whatever happens, also if nothing of Interlock is left but this file.
2. It gives up connecting after 50 ms, writing after 200 ms, and everything after 2 s.
3. It imports nothing but the standard library, and of that only what starts fast: `_socket` takes half the time of
   `socket`, and `json` is needed only for a huge payload.

Run as `python -I -S hook_program.py CLI` with the payload on stdin. One line goes to the socket:
`{"cli": ..., "spawn_id": ..., "fired_unix_seconds": ..., "payload": {...}}`.
"""

from __future__ import annotations

import os
import select
import sys
import time

MAX_PAYLOAD_BYTES = 1024 * 1024
MAX_INPUT_BYTES = 64 * 1024 * 1024
SOCKET_VARIABLE = "INTERLOCK_HOOK_SOCKET"
_KEPT_FIELD_CHARACTERS = 4096
_CONNECT_SECONDS = 0.05
_SEND_SECONDS = 0.2
_READ_SECONDS = 1.5


def main() -> None:
    """Tell the runtime of one hook. Nobody is told of a failure: there is nobody here who could mend it."""
    try:
        fired = time.time()
        payload = _payload(_input(time.monotonic() + _READ_SECONDS))
        if payload:
            _send(_line(payload, fired))
    except BaseException:  # the first law
        pass
    os._exit(0)  # at once: an interpreter that winds down may still complain


def socket_path() -> str:
    """Where the runtime listens: `INTERLOCK_HOOK_SOCKET`, or `hooks/socket` in the home of the log."""
    named = os.environ.get(SOCKET_VARIABLE)
    if named:
        return named
    home = os.environ.get("INTERLOCK_HOME")
    if not home:
        state = os.environ.get("XDG_STATE_HOME", "")
        home = (state if state.startswith("/") else os.environ["HOME"] + "/.local/state") + "/interlock"
    return home + "/hooks/socket"


def _input(until: float) -> bytes:
    """All of stdin, so that the agent's own write does not fail; nothing if it has no end in time or in size."""
    parts: list[bytes] = []
    size = 0
    while select.select([0], [], [], max(0.0, until - time.monotonic()))[0]:
        piece = os.read(0, 65536)
        if not piece:
            return b"".join(parts) if size <= MAX_INPUT_BYTES else b""
        size += len(piece)
        if size <= MAX_INPUT_BYTES:
            parts.append(piece)
    return b""


def _payload(given: bytes) -> bytes:
    """A JSON object on one line. Line ends cannot stand inside its strings, so they are blanks."""
    flat = given.replace(b"\n", b" ").replace(b"\r", b" ").strip()
    if len(flat) > MAX_PAYLOAD_BYTES:
        flat = _shortened(flat)
    return flat if flat.startswith(b"{") and flat.endswith(b"}") else b""


def _shortened(flat: bytes) -> bytes:
    """The payload without its long fields (a whole file that a tool writes): the event itself is not lost to them."""
    import json

    fields = json.loads(flat)
    kept = {name: value for name, value in fields.items() if len(json.dumps(value)) <= _KEPT_FIELD_CHARACTERS}
    return json.dumps(kept).encode()


def _line(payload: bytes, fired: float) -> bytes:
    cli = _word(sys.argv[1] if len(sys.argv) > 1 else "")
    spawn = _word(os.environ.get("INTERLOCK_SPAWN_ID", ""))
    head = '{"cli":"%s","spawn_id":"%s","fired_unix_seconds":%.6f,"payload":' % (cli, spawn, fired)  # noqa: UP031
    return head.encode("ascii") + payload + b"}\n"


def _word(text: str) -> str:
    """A name that needs no escapes in JSON; any other is left out."""
    is_plain = len(text) <= 128 and text.isascii() and text.replace("_", "").replace("-", "").isalnum()
    return text if is_plain else ""


def _send(line: bytes) -> None:
    import _socket

    folder, _, name = socket_path().rpartition("/")
    os.chdir(folder or "/")  # a socket's path must be short; its name is
    runtime = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    runtime.settimeout(_CONNECT_SECONDS)
    runtime.connect(name)
    runtime.settimeout(_SEND_SECONDS)
    runtime.sendall(line)
    runtime.close()


if __name__ == "__main__":
    main()
