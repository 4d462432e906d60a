# ruff: noqa: ANN401 (JSON of a peer, built and read by hand)
"""A small program in the place of `pi --mode rpc`. Standard library only."""

from __future__ import annotations

import json
import os
import sys
from typing import Any


def say(**event: Any) -> None:
    sys.stdout.write(json.dumps(event) + "\n")
    sys.stdout.flush()


def end(reason: str, error: str = "") -> None:
    say(type="agent_end", messages=[{"role": "assistant", "stopReason": reason, "errorMessage": error}])


def write(text: str) -> None:
    say(type="message_update", assistantMessageEvent={"type": "text_delta", "delta": text})


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
                say(type="response", command="get_state", success=True, data={"sessionId": "s1", "isStreaming": False})
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
                write("yes" if command["confirmed"] else "no")
                end("stop")
            case _:
                sys.exit(f"an unknown command: {line}")


if __name__ == "__main__":
    main()
