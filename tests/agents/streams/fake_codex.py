"""A program that talks like Codex and misbehaves as its prompt says: `python fake_codex.py app-server`, or `exec`."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

THREAD, TURN = "01a1e063-0000-7000-8000-000000000001", "turn-1"
DEAD = "01a1e063-0000-7000-8000-00000000dead"
GARBAGE = b'no json\n[1, 2]\n"word"\n\xff\xfe\n{"method": 7}\n{"id": true, "method": "x"}\n{"id": 99, "result": {}}\n'


def write(data: bytes) -> None:
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def as_line(message: dict[str, object]) -> bytes:
    return json.dumps(message, ensure_ascii=False).encode() + b"\n"


def send(**message: object) -> None:
    write(as_line(message))


def told(method: str, **params: object) -> dict[str, object]:
    return {"method": method, "params": {"threadId": THREAD, "turnId": TURN, **params}}


def delta(text: str) -> dict[str, object]:
    return told("item/agentMessage/delta", itemId="m", delta=text)


def end(thread: str = THREAD, turn: str = TURN) -> None:
    send(method="turn/completed", params={"threadId": thread, "turn": {"id": turn, "status": "completed"}})


Inbox = Iterator[dict[str, Any]]


def split(inbox: Inbox) -> None:
    for byte in as_line(delta("blåbærgrød 🫐")):
        write(bytes([byte]))


def speak_aside(inbox: Inbox) -> None:
    sys.stderr.write("a warning in between\n")
    sys.stderr.flush()
    send(**delta("fine"))


def ask(inbox: Inbox) -> None:
    send(id=0, method="item/unheard/of", params={})
    send(**delta(json.dumps(next(inbox))))


def flood(inbox: Inbox) -> None:
    for number in range(5000):
        send(**delta(f"{number} "))


def end_others(inbox: Inbox) -> None:
    end(thread="another thread")
    end(turn="another turn")
    send(**delta("still here"))


def die(inbox: Inbox) -> None:
    write(b'{"method": "item/agentMessage/delta", "params": {"threadId"')
    os._exit(9)


def record(answer: object) -> None:
    """Write down an answer as it came, on the disk before anything is said: what a test compares the log with."""
    with Path(os.environ["FAKE_LEDGER"]).open("a", encoding="utf-8") as ledger:
        ledger.write(json.dumps({"what": "answer", "pid": os.getpid(), "answer": answer}) + "\n")


def question(inbox: Inbox, method: str, **params: object) -> None:
    send(id=7, **told(method, itemId="c1", **params))
    answer = next(inbox, None)
    if answer is None:
        sys.exit(0)
    record(answer["result"])
    send(**told("serverRequest/resolved", requestId=7))


def approve(inbox: Inbox) -> None:
    command = {"type": "commandExecution", "id": "c1", "command": "ls"}
    send(**told("item/started", item={**command, "status": "inProgress"}))
    question(inbox, "item/commandExecution/requestApproval", command="ls")
    send(**told("item/completed", item={**command, "status": "completed", "aggregatedOutput": "ok", "exitCode": 0}))


def leave_running(inbox: Inbox) -> None:
    """Start a command that outlives the turn, and never list it."""
    command = {"type": "commandExecution", "id": "c1", "command": "sleep 9", "status": "inProgress"}
    send(**told("item/started", item=command))


def leak(inbox: Inbox) -> None:
    """Secrets in everything that can be said."""
    secret = os.environ["FAKE_SECRETS"]
    sys.stderr.write(f"{secret}\n")
    sys.stderr.flush()
    write(f"no json: {secret}\n".encode())
    for at in range(0, len(secret), 3):
        send(**delta(secret[at : at + 3]))
    command = {"type": "commandExecution", "id": "c1", "command": secret, "cwd": secret}
    send(**told("item/started", item={**command, "status": "inProgress"}))
    send(**told("warning", message=secret))
    options = [{"label": f"use {secret}"}, {"label": "no"}]
    question(inbox, "item/tool/requestUserInput", questions=[{"id": "q1", "question": secret, "options": options}])
    send(**told("item/completed", item={**command, "status": "failed", "aggregatedOutput": secret, "exitCode": 1}))
    send(**told("error", error={"message": secret}, willRetry=False))
    sys.stderr.write(f"{secret}\n")
    sys.stderr.flush()
    os._exit(3)


def choose(inbox: Inbox) -> None:
    asked = {"id": "q1", "question": "Which?", "options": [{"label": "red"}, {"label": "green"}]}
    question(inbox, "item/tool/requestUserInput", questions=[asked])


MISBEHAVIOURS: dict[str, Callable[[Inbox], None]] = {
    "megabytes": lambda _: send(**delta("x" * 3_000_000)),
    "garbage": lambda _: write(GARBAGE),
    "split": split,
    "stderr": speak_aside,
    "ask": ask,
    "flood": flood,
    "others": end_others,
    "die": die,
    "approve": approve,
    "leave running": leave_running,
    "leak": leak,
    "choose": choose,
}


def turn(own_id: int, prompt: str, inbox: Inbox) -> None:
    if prompt == "refuse":
        send(id=own_id, error={"code": 1, "message": "not now"})
        return
    send(id=own_id, result={"turn": {"id": TURN}})
    send(**told("turn/started", turn={"id": TURN}))
    if prompt in MISBEHAVIOURS:
        MISBEHAVIOURS[prompt](inbox)
    send(**told("item/completed", item={"type": "agentMessage", "id": "m", "text": prompt}))
    end()


def greet(own_id: int) -> None:
    mode = os.environ.get("FAKE_CODEX")
    if mode == "broken":
        sys.stderr.write("Error: the configuration cannot be read\n")
        sys.exit(2)
    if mode != "mute":
        send(id=own_id, result={})


def resume(own_id: int, thread: str) -> None:
    if thread == DEAD:
        send(id=own_id, error={"code": -32600, "message": f"no rollout found for thread id {DEAD}"})
    else:
        send(id=own_id, result={"thread": {"id": thread}})


def app_server() -> None:
    inbox = (json.loads(line) for line in sys.stdin.buffer)
    for asked in inbox:
        own_id, params = asked.get("id"), asked.get("params", {})
        match asked["method"]:
            case "initialize":
                greet(own_id)
            case "thread/start":
                send(id=own_id, result={"thread": {"id": THREAD, "model": "m-1"}})
            case "thread/resume":
                resume(own_id, params["threadId"])
            case "turn/start":
                turn(own_id, params["input"][0]["text"], inbox)
            case "turn/interrupt":
                send(id=own_id, error={"code": 1, "message": "no active turn to interrupt"})
            case _:
                pass


def run(arguments: list[str]) -> None:
    prompt = sys.stdin.buffer.read().decode()
    if DEAD in arguments:
        sys.stderr.write(f"Error: thread/resume failed: no rollout found for thread id {DEAD}\n")
        sys.exit(1)
    send(type="thread.started", thread_id=THREAD)
    send(type="turn.started")
    if prompt == "die":
        write(b'{"type": "item.comp')
        os._exit(9)
    if prompt == "error":
        send(type="error", message="the disk is full")
        sys.exit(1)
    if prompt == "leak":
        secret = os.environ["FAKE_SECRETS"]
        command = {"id": "item_1", "type": "command_execution", "command": secret, "aggregated_output": secret}
        write(f"no json: {secret}\n".encode())
        send(type="item.completed", item={"id": "item_0", "type": "agent_message", "text": secret})
        send(type="item.started", item=command)
        send(type="item.completed", item={**command, "exit_code": 1, "status": "failed"})
        send(type="error", message=secret)
        sys.stderr.write(f"{secret}\n")
        sys.exit(1)
    answer = json.dumps({"prompt": prompt})
    send(type="item.completed", item={"id": "item_0", "type": "agent_message", "text": answer})
    send(type="turn.completed", usage={"input_tokens": 1, "output_tokens": 2})


if __name__ == "__main__":
    if "app-server" in sys.argv:
        app_server()
    else:
        run(sys.argv[1:])
