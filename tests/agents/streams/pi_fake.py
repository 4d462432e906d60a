# ruff: noqa: ANN401 (JSON of a peer, built and read by hand)
"""A small program in the place of `pi --mode rpc`. Standard library only."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any


def say(**event: Any) -> None:
    sys.stdout.write(json.dumps(event) + "\n")
    sys.stdout.flush()


def end(reason: str, error: str = "") -> None:
    say(type="agent_end", messages=[{"role": "assistant", "stopReason": reason, "errorMessage": error}])


def write(text: str) -> None:
    say(type="message_update", assistantMessageEvent={"type": "text_delta", "delta": text})


def record(answer: Any) -> None:
    """Write down an answer as it came: what a test compares the log with."""
    if "FAKE_LEDGER" in os.environ:
        with Path(os.environ["FAKE_LEDGER"]).open("a", encoding="utf-8") as ledger:
            ledger.write(json.dumps({"what": "answer", "pid": os.getpid(), "answer": answer}) + "\n")


def act(word: str) -> None:
    say(type="agent_start")
    if word == "fail":
        end("error", "500 boom")
    elif word == "retry":
        write("half")
        end("error", "terminated")
        say(type="auto_retry_start", attempt=1, errorMessage="terminated")
        say(type="agent_start")
        end("stop")
    elif word == "ask":
        say(type="extension_ui_request", id="u1", method="confirm", title="Sure?")
    elif word == "leak":
        secret = os.environ["FAKE_SECRETS"]
        sys.stderr.write(f"{secret}\n")
        sys.stdout.write(f"no json: {secret}\n")
        for at in range(0, len(secret), 3):
            write(secret[at : at + 3])
        say(type="tool_execution_start", toolCallId="c1", toolName="bash", args={"command": secret})
        result = {"content": [{"type": "text", "text": secret}]}
        say(type="tool_execution_end", toolCallId="c1", result=result, isError=True)
        say(type="extension_error", error=secret)
        say(type="extension_ui_request", id="u3", method="select", title=secret, options=[f"use {secret}", "no"])
    elif word == "choose":
        say(type="extension_ui_request", id="u2", method="select", title="Which?", options=["red", "green"])
    elif word == "die":
        os._exit(3)
    elif word != "wait":
        write("Hello")
        say(type="message_end", message={"role": "assistant", "content": [{"type": "text", "text": "Hello"}]})
        end("stop")


def main() -> None:
    if "--session" in sys.argv:
        sys.exit("No session found matching 'gone'")
    for line in sys.stdin:
        command = json.loads(line)
        match command["type"]:
            case "get_state":
                state = {"sessionId": "s1", "isStreaming": False}
                say(type="response", command="get_state", id=command.get("id"), success=True, data=state)
            case "prompt":
                is_good = command["message"] != "refuse"
                if command["message"] != "early":
                    say(type="response", command="prompt", id=command["id"], success=is_good, error="no key")
                else:
                    os._exit(4)
                if is_good:
                    act(command["message"])
            case "abort":
                end("aborted")
            case "extension_ui_response":
                record(command)
                if command["id"] == "u3":
                    end("error", os.environ["FAKE_SECRETS"])
                    continue
                write("yes" if command.get("confirmed") or command.get("value") else "no")
                end("stop")
            case _:
                sys.exit(f"an unknown command: {line}")


if __name__ == "__main__":
    main()
