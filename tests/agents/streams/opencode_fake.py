# ruff: noqa: ANN401 (JSON of a peer, built and read by hand; the names of http.server)
"""A small program in the place of `opencode serve`. Standard library only."""

from __future__ import annotations

import base64
import json
import os
import queue
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

EVENTS: queue.Queue[dict[str, Any] | None] = queue.Queue()
REFUSALS = [int(word) for word in os.environ.get("FAKE_REFUSALS", "").split()]
FAILS_LATE = "FAKE_FAILS_LATE" in os.environ
SECRET = base64.b64encode(
    f"{os.environ['OPENCODE_SERVER_USERNAME']}:{os.environ['OPENCODE_SERVER_PASSWORD']}".encode()
).decode()


def tell(kind: str, **properties: Any) -> None:
    EVENTS.put({"type": kind, "properties": {"sessionID": "ses_1", **properties}})


def record(answer: Any) -> None:
    """Write down an answer as it came: what a test compares the log with."""
    if "FAKE_LEDGER" in os.environ:
        with Path(os.environ["FAKE_LEDGER"]).open("a", encoding="utf-8") as ledger:
            ledger.write(json.dumps({"what": "answer", "pid": os.getpid(), "answer": answer}) + "\n")


def status(kind: str) -> None:
    tell("session.status", status={"type": kind})


def act(word: str) -> None:
    tell("message.updated", info={"id": "msg_u", "role": "user"})
    status("busy")
    tell("message.updated", info={"id": "msg_a", "role": "assistant"})
    if word == "ask":
        tell("permission.asked", id="per_1", permission="bash", metadata={"command": "ls"}, tool={"callID": "c1"})
    elif word == "leak":
        leak(os.environ["FAKE_SECRETS"])
    elif word == "choose":
        options = [{"label": "red"}, {"label": "green"}]
        tell("question.asked", id="que_1", questions=[{"question": "Which?", "options": options}])
    elif word == "die":
        os._exit(3)
    elif word == "lose":
        EVENTS.put(None)
    elif word != "wait":
        tell("message.part.updated", part={"id": "prt_1", "messageID": "msg_a", "type": "text", "text": ""})
        tell("message.part.delta", messageID="msg_a", partID="prt_1", field="text", delta="Hello")
        finish("Hello")


def leak(secret: str) -> None:
    """Secrets in everything that can be said."""
    sys.stderr.write(f"{secret}\n")
    sys.stdout.write(f"{secret}\n")
    sys.stdout.flush()
    part = {"id": "prt_2", "messageID": "msg_a", "type": "tool", "callID": "c2", "tool": "bash"}
    tell("message.part.updated", part={**part, "state": {"status": "running", "input": {"command": secret}}})
    state = {"status": "error", "input": {"command": secret}, "error": secret}
    tell("message.part.updated", part={**part, "state": state})
    tell("message.part.updated", part={"id": "prt_1", "messageID": "msg_a", "type": "text", "text": ""})
    for at in range(0, len(secret), 3):
        piece = secret[at : at + 3]
        tell("message.part.delta", messageID="msg_a", partID="prt_1", field="text", delta=piece)
    options = [{"label": f"use {secret}"}, {"label": "no"}]
    tell("question.asked", id="que_1", questions=[{"question": secret, "options": options}])


def finish(text: str) -> None:
    part = {"id": "prt_1", "messageID": "msg_a", "type": "text", "text": text, "time": {"end": 1}}
    tell("message.part.updated", part=part)
    tell("message.updated", info={"id": "msg_a", "role": "assistant", "finish": "stop"})
    status("idle")


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        pass

    def answer(self, code: int, body: Any = None) -> None:
        data = json.dumps(body).encode()
        self.send_response(code)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self) -> None:
        if self.headers["Authorization"] != f"Basic {SECRET}":
            self.answer(401)
        elif self.path == "/event":
            self.stream()
        elif self.path == "/session/ses_1":
            self.answer(200, {"id": "ses_1", "version": "9"})
        else:
            self.answer(404, {"message": "not found"})

    def stream(self) -> None:
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        event: dict[str, Any] | None = {"type": "server.connected", "properties": {}}
        while event is not None:
            data = b"data: " + json.dumps(event).encode() + b"\n\n"
            for piece in (data[:9], data[9:]):
                self.wfile.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
            self.wfile.flush()
            event = EVENTS.get()
        self.wfile.write(b"0\r\n\r\n")

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])) or b"null")
        if self.path == "/session":
            self.answer(200, {"id": "ses_1", "version": "9"})
        elif self.path == "/session/ses_1/prompt_async" and body["parts"][0]["text"] == "refuse":
            self.answer(400, {"data": {"message": "no such model"}})
        elif self.path == "/session/ses_1/prompt_async":
            self.answer(200)
            act(body["parts"][0]["text"])
        elif self.path == "/session/ses_1/abort":
            self.answer(200, True)
            tell("session.error", error={"name": "MessageAbortedError"})
            status("idle")
        elif REFUSALS and self.path.startswith(("/permission/", "/question/")):
            self.answer(REFUSALS.pop(), {"message": "not now"})
        elif self.path == "/permission/per_1/reply":
            record(body)
            if FAILS_LATE:
                self.answer(500, {"message": "out of memory"})
                return
            self.answer(200, True)
            tell("permission.replied", requestID="per_1", reply=body["reply"])
            finish(f"chose {body['reply']}")
        elif self.path in ("/question/que_1/reply", "/question/que_1/reject"):
            record(body)
            self.answer(200, True)
            tell("question.replied" if body else "question.rejected", requestID="que_1")
            if "FAKE_SECRETS" in os.environ:
                tell("session.error", error={"name": "UnknownError", "data": {"message": os.environ["FAKE_SECRETS"]}})
                status("idle")
                return
            finish("chosen")


def main() -> None:
    if "early" in sys.argv:
        sys.exit("no configuration")
    server = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[sys.argv.index("--port") + 1])), Handler)
    server.daemon_threads = True
    sys.stdout.write(f"opencode server listening on http://127.0.0.1:{server.server_port}\n")
    sys.stdout.flush()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    sys.stdin.read()


if __name__ == "__main__":
    main()
