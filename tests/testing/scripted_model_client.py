"""The bodies that four kinds of clients send, and the texts and calls in what they get back."""

from __future__ import annotations

import http.client
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from interlock.testing.scripted_model import ScriptedModel

SECONDS: Final = 100.0
Body = dict[str, Any]


@contextmanager
def asking(model: ScriptedModel, path: str, body: Body) -> Iterator[http.client.HTTPResponse]:
    """The response once its head is there; leaving the block hangs up."""
    connection = http.client.HTTPConnection("127.0.0.1", model.port, timeout=SECONDS)
    try:
        connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
        response = connection.getresponse()
        try:
            yield response
        finally:
            response.close()  # It holds the socket, too.
    finally:
        connection.close()


def ask(model: ScriptedModel, path: str, body: Body) -> tuple[int, bytes]:
    """The status and the whole body. IncompleteRead if the stream was cut."""
    with asking(model, path, body) as response:
        return response.status, response.read()


def events(stream: bytes) -> list[Body]:
    """The JSON of each server-sent event."""
    lines = [line[len("data: ") :] for line in stream.decode().splitlines() if line.startswith("data: ")]
    return [json.loads(line) for line in lines if line != "[DONE]"]


@dataclass(frozen=True, slots=True)
class Client:
    """One wire format: how a turn is asked for, and what its answer says."""

    name: str
    path: Callable[[bool], str]
    body: Callable[[Sequence[str], bool], Body]
    streamed_text: Callable[[bytes], str]
    whole_text: Callable[[Body], str]
    called: Callable[[bytes], list[tuple[str, Body]]]

    def ask(self, model: ScriptedModel, *said: str, stream: bool = True) -> tuple[int, bytes]:
        return ask(model, self.path(stream), self.body(said, stream))


# A turn is written as its pieces: a plain string is the user's, `=text` the model's, `!` a tool's call and its result.


def messages_body(said: Sequence[str], stream: bool) -> Body:
    made: list[Body] = []
    for piece in said:
        if piece == "!":
            made += [
                {"role": "assistant", "content": [{"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {}}]},
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "ok"}]},
            ]
        elif piece.startswith("="):
            made.append({"role": "assistant", "content": [{"type": "text", "text": piece[1:]}]})
        else:
            made.append({"role": "user", "content": [{"type": "text", "text": piece}]})
    return {"model": "m", "max_tokens": 100, "messages": made, "stream": stream}


def responses_body(said: Sequence[str], stream: bool) -> Body:
    made: list[Body] = []
    for piece in said:
        if piece == "!":
            made += [
                {"type": "function_call", "call_id": "c1", "name": "exec_command", "arguments": "{}"},
                {"type": "function_call_output", "call_id": "c1", "output": "ok"},
            ]
        elif piece.startswith("="):
            content = [{"type": "output_text", "text": piece[1:]}]
            made.append({"type": "message", "role": "assistant", "content": content})
        else:
            made.append({"type": "message", "role": "user", "content": [{"type": "input_text", "text": piece}]})
    return {"model": "m", "input": made, "stream": stream}


def chat_body(said: Sequence[str], stream: bool) -> Body:
    made: list[Body] = [{"role": "system", "content": "You help."}]
    for piece in said:
        if piece == "!":
            call = {"id": "c1", "type": "function", "function": {"name": "bash", "arguments": "{}"}}
            made += [
                {"role": "assistant", "content": None, "tool_calls": [call]},
                {"role": "tool", "tool_call_id": "c1", "content": "ok"},
            ]
        elif piece.startswith("="):
            made.append({"role": "assistant", "content": piece[1:]})
        else:
            made.append({"role": "user", "content": piece})
    return {"model": "m", "messages": made, "stream": stream}


def gemini_body(said: Sequence[str], stream: bool) -> Body:
    made: list[Body] = []
    for piece in said:
        if piece == "!":
            made += [
                {"role": "model", "parts": [{"functionCall": {"name": "run_shell_command", "args": {}}}]},
                {"role": "user", "parts": [{"functionResponse": {"name": "run_shell_command", "response": {}}}]},
            ]
        else:
            role, text = ("model", piece[1:]) if piece.startswith("=") else ("user", piece)
            made.append({"role": role, "parts": [{"text": text}]})
    return {"contents": made}


def _messages_calls(stream: bytes) -> list[tuple[str, Body]]:
    found = events(stream)
    names = [one["content_block"]["name"] for one in found if one.get("content_block", {}).get("type") == "tool_use"]
    inputs = [one["delta"]["partial_json"] for one in found if one.get("delta", {}).get("type") == "input_json_delta"]
    return [(name, json.loads(given)) for name, given in zip(names, inputs, strict=True)]


def _responses_calls(stream: bytes) -> list[tuple[str, Body]]:
    items = [one["item"] for one in events(stream) if one["type"] == "response.output_item.done"]
    return [(item["name"], json.loads(item["arguments"])) for item in items if item["type"] == "function_call"]


def _chat_calls(stream: bytes) -> list[tuple[str, Body]]:
    calls = [call for one in events(stream) for call in one["choices"][0]["delta"].get("tool_calls", [])]
    return [(call["function"]["name"], json.loads(call["function"]["arguments"])) for call in calls]


def _gemini_parts(stream: bytes) -> list[Body]:
    return [part for one in events(stream) for part in one["candidates"][0]["content"]["parts"]]


CLIENTS: Final = (
    Client(
        "messages",
        lambda stream: "/v1/messages",
        messages_body,
        lambda stream: "".join(one.get("delta", {}).get("text", "") for one in events(stream)),
        lambda body: "".join(part.get("text", "") for part in body["content"]),
        _messages_calls,
    ),
    Client(
        "responses",
        lambda stream: "/v1/responses",
        responses_body,
        lambda stream: "".join(one["delta"] for one in events(stream) if one["type"] == "response.output_text.delta"),
        lambda body: "".join(
            part["text"] for item in body["output"] if item["type"] == "message" for part in item["content"]
        ),
        _responses_calls,
    ),
    Client(
        "chat",
        lambda stream: "/v1/chat/completions",
        chat_body,
        lambda stream: "".join(one["choices"][0]["delta"].get("content") or "" for one in events(stream)),
        lambda body: str(body["choices"][0]["message"]["content"]),
        _chat_calls,
    ),
    Client(
        "gemini",
        lambda stream: f"/v1beta/models/m:{'streamGenerateContent?alt=sse' if stream else 'generateContent'}",
        gemini_body,
        lambda stream: "".join(part.get("text", "") for part in _gemini_parts(stream) if not part.get("thought")),
        lambda body: "".join(
            part.get("text", "") for part in body["candidates"][0]["content"]["parts"] if not part.get("thought")
        ),
        lambda stream: [
            (part["functionCall"]["name"], part["functionCall"]["args"])
            for part in _gemini_parts(stream)
            if "functionCall" in part
        ],
    ),
)
MESSAGES, RESPONSES, CHAT, GEMINI = CLIENTS
