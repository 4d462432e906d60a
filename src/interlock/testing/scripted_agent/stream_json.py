"""The face of Claude Code's stream-json: `--input-format stream-json --output-format stream-json`, partial messages on.

What it writes has the shapes and the order of recorded streams, without the fields that say nothing about a turn. As
the real one does, it names its session once a turn, says `success` of a provider's error with `is_error` set, confirms
an interrupt and ends the turn with an error, and takes back the question that an interrupt made pointless.
"""

from __future__ import annotations

import os
from typing import Final, TypeAlias

from interlock.testing.scripted_agent.face import AgentAnswer, AgentWire, Face, FaceInterrupted, FacePrompt, identifier
from interlock.testing.scripted_agent.language import Json, ToolUse
from interlock.testing.scripted_agent.ledger import Ledger

Fields: TypeAlias = "dict[str, Json]"
MODEL: Final = "scripted-1"
_KNOWN_REQUESTS: Final = ("initialize", "interrupt", "mcp_status", "set_model", "set_permission_mode")
_DENIED: Final = "The user doesn't want to proceed with this tool use."


class StreamJson(Face):
    """One session of the dialect."""

    def __init__(
        self, wire: AgentWire, ledger: Ledger, *, session_id: str = "", replays: bool = False, is_partial: bool = True
    ) -> None:
        super().__init__(wire, ledger)
        self._session_id = session_id or identifier()
        self._replays = replays
        self._is_partial = is_partial
        self._answers: dict[str, Json] = {}
        self._message_id = ""
        self._block: Fields | None = None
        self._index = 0
        self._text = ""
        self._open_calls: list[str] = []
        self._asking = ""
        self._denials: list[Json] = []
        self._results = 0
        self._cost_usd = 0.0

    # What comes in.

    def take(self, message: Fields) -> None:
        match message.get("type"):
            case "user":
                self._take_prompt(message)
            case "control_request":
                self._take_request(message)
            case "control_response":
                response = message.get("response")
                if isinstance(response, dict):
                    self._answers[str(response.get("request_id"))] = response.get("response")
            case _:
                pass

    def _take_prompt(self, message: Fields) -> None:
        inner = message.get("message")
        content = inner.get("content") if isinstance(inner, dict) else None
        if isinstance(content, list):
            content = "".join(str(block.get("text", "")) for block in content if isinstance(block, dict))
        self.receive(str(content), {"message": inner, "uuid": message.get("uuid")})

    def _take_request(self, message: Fields) -> None:
        asked = message.get("request")
        subtype = asked.get("subtype") if isinstance(asked, dict) else None
        answer: Fields = {"subtype": "success", "request_id": message.get("request_id"), "response": {}}
        if subtype not in _KNOWN_REQUESTS:
            answer = {**answer, "subtype": "error", "error": f"Unsupported control request subtype: {subtype}"}
        self.wire.send({"type": "control_response", "response": answer})
        if subtype == "interrupt":
            self.interrupt()

    # What goes out.

    def begin(self, prompt: FacePrompt) -> None:
        self._begin()
        if self._replays and isinstance(prompt.handle, dict):
            uuid = prompt.handle["uuid"] or identifier()
            self._send("user", message=prompt.handle["message"], parent_tool_use_id=None, uuid=uuid, isReplay=True)

    def _begin(self) -> None:
        if not self.is_in_turn:
            self.is_in_turn = True
            self._text, self._open_calls, self._denials = "", [], []
            self._system(
                "init",
                cwd=os.environ.get("PWD", "."),
                tools=["Bash"],
                model=MODEL,
                permissionMode="default",
                claude_code_version="0.0.0-scripted",
            )

    def think(self, text: str) -> None:
        self._delta("thinking", text)

    def say(self, text: str) -> None:
        self._delta("text", text)
        self._text += text

    def _delta(self, kind: str, text: str) -> None:
        if self._block is None or self._block["type"] != kind:
            self._open_block({"type": kind, kind: ""})
        block = self._block
        assert block is not None
        block[kind] = f"{block[kind]}{text}"
        self._event("content_block_delta", index=self._index, delta={"type": f"{kind}_delta", kind: text})

    def call(self, use: ToolUse, *, asks: bool) -> str:
        call_id = identifier("toolu_")
        block: Fields = {"type": "tool_use", "id": call_id, "name": use.name, "input": {}}
        self._open_block(dict(block))
        self._block = {**block, "input": use.arguments}
        self._close_block()
        self._open_calls.append(call_id)
        return call_id

    def approve(self, call_id: str, use: ToolUse) -> AgentAnswer:
        self._close_message("tool_use")
        answer = self._ask_client(call_id, use)
        if not answer.is_allowed:
            denial: Fields = {"tool_name": use.name, "tool_use_id": call_id, "tool_input": use.arguments}
            self._denials.append(denial)
        return answer

    def ask(self, question: str, options: list[str]) -> AgentAnswer:
        choices: list[Json] = [{"label": option, "description": ""} for option in options]
        asked: Fields = {"question": question, "header": "Question", "options": choices, "multiSelect": False}
        use = ToolUse("AskUserQuestion", {"questions": [asked]}, "answered", is_error=False)
        call_id = self.call(use, asks=True)
        answer = self.approve(call_id, use)
        self.returned(call_id, use._replace(output=answer.text or "ok", is_error=not answer.is_allowed))
        return answer

    def _ask_client(self, call_id: str, use: ToolUse) -> AgentAnswer:
        self._asking = identifier()
        asked: Fields = {"subtype": "can_use_tool", "tool_name": use.name, "input": use.arguments}
        asked |= {"tool_use_id": call_id, "permission_suggestions": []}
        self.wire.send({"type": "control_request", "request_id": self._asking, "request": asked})
        try:
            self.wait(until=lambda: self._asking in self._answers or self.wire.is_closed)
        except FaceInterrupted:
            self.wire.send({"type": "control_cancel_request", "request_id": self._asking})
            raise
        given = self._answers.pop(self._asking, None)
        self.ledger.record("answer", call_id=call_id, answer=given)
        fields = given if isinstance(given, dict) else {}
        is_allowed = fields.get("behavior") == "allow"
        updated = fields.get("updatedInput")
        answers = updated.get("answers") if isinstance(updated, dict) else None
        text = str(answers) if answers else str(fields.get("message") or ("" if is_allowed else _DENIED))
        return AgentAnswer(is_allowed, text, ends_turn=fields.get("interrupt") is True)

    def returned(self, call_id: str, use: ToolUse) -> None:
        self._close_message("tool_use")
        if call_id in self._open_calls:
            self._open_calls.remove(call_id)
        self._tool_result(call_id, use.output, is_error=use.is_error)

    def retry(self, reason: str) -> None:
        # The dead attempt just stops: no block and no message of it is closed, and no whole message is sent.
        self._begin()
        self._message_id, self._block, self._text = "", None, ""
        fields: Fields = {"attempt": 1, "max_retries": 10, "retry_delay_ms": 1, "error_status": 529, "error": reason}
        self._system("api_retry", **fields)

    def background(self, names: list[str]) -> None:
        tasks: list[Json] = [{"task_id": name, "task_type": "local_agent", "description": name} for name in names]
        self._system("background_tasks_changed", tasks=tasks)

    def relay(self, call_id: str, text: str) -> None:
        self._assistant({"type": "text", "text": text}, identifier("msg_"), parent=call_id)

    def done(self) -> None:
        self._begin()
        self._close_message("end_turn")
        self._result("success", is_error=False, terminal_reason="completed", result=self._text)

    def failed(self, text: str) -> None:
        self._begin()
        self._abandon_message()
        said = f"API Error: {text}"
        words: Fields = {"type": "text", "text": said}
        whole = self._whole([words], identifier(), "<synthetic>")
        self._send("assistant", message=whole, parent_tool_use_id=None, error="server_error", is_api_error_message=True)
        self._result("success", is_error=True, terminal_reason="api_error", result=said, api_error_status=500)

    def ended_as(self, word: str, text: str) -> None:
        self._begin()
        self._close_message("end_turn")
        is_error = word != "success"
        fields: Fields = {"errors": [text]} if is_error else {"result": text or self._text}
        self._result(word, is_error=is_error, terminal_reason=word, **fields)

    def interrupted(self) -> None:
        if self._block is not None:
            self._assistant(self._block, self._message_id, aborted=True)
            self._block = None
        for call_id in self._open_calls:
            self._tool_result(call_id, _DENIED, is_error=True)
        self._message_id, self._open_calls = "", []
        said: Fields = {"type": "text", "text": "[Request interrupted by user]"}
        self._send("user", message={"role": "user", "content": [said]}, parent_tool_use_id=None)
        self._result("error_during_execution", is_error=True, terminal_reason="aborted_streaming", errors=["aborted"])

    # The parts of a message.

    def _open_block(self, block: Fields) -> None:
        self._begin()
        self._close_block()
        if not self._message_id:
            self._message_id, self._index, self._text = identifier("msg_"), 0, ""
            self._event("message_start", message=self._whole([], self._message_id))
        self._block = block
        self._event("content_block_start", index=self._index, content_block=block)

    def _close_block(self) -> None:
        if self._block is not None:
            self._assistant(self._block, self._message_id)
            self._event("content_block_stop", index=self._index)
            self._block = None
            self._index += 1

    def _close_message(self, stop_reason: str) -> None:
        if self._message_id:
            self._close_block()
            usage: Fields = {"output_tokens": self.usage.output_tokens}
            self._event("message_delta", delta={"stop_reason": stop_reason, "stop_sequence": None}, usage=usage)
            self._event("message_stop")
            self._message_id = ""

    def _abandon_message(self) -> None:
        """The call broke off: what was streamed of the open block is never said to be whole."""
        if self._message_id:
            if self._block is not None:
                self._event("content_block_stop", index=self._index)
            left: Fields = {"api_message_id": self._message_id, "from_block_index": self._index}
            if self._is_partial:
                stop: Fields = {"type": "message_stop"}
                self._send("stream_event", event=stop, parent_tool_use_id=None, abandoned_blocks=left)
            self._block, self._message_id = None, ""

    def _whole(self, content: list[Json], message_id: str, model: str = MODEL) -> Fields:
        usage: Fields = {"input_tokens": self.usage.input_tokens, "output_tokens": 1}
        fields: Fields = {"id": message_id, "type": "message", "role": "assistant", "model": model, "content": content}
        return {**fields, "stop_reason": None, "stop_sequence": None, "usage": usage}

    def _assistant(
        self, block: Fields, message_id: str, *, parent: str | None = None, model: str = MODEL, aborted: bool = False
    ) -> None:
        extra: Fields = {"aborted": True} if aborted else {}
        self._send("assistant", message=self._whole([block], message_id, model), parent_tool_use_id=parent, **extra)

    def _tool_result(self, call_id: str, output: str, *, is_error: bool) -> None:
        block: Fields = {"tool_use_id": call_id, "type": "tool_result", "content": output, "is_error": is_error}
        self._send("user", message={"role": "user", "content": [block]}, parent_tool_use_id=None)

    def _event(self, kind: str, /, **fields: Json) -> None:
        if self._is_partial:
            self._send("stream_event", event={"type": kind, **fields}, parent_tool_use_id=None)

    def _system(self, subtype: str, /, **fields: Json) -> None:
        self._send("system", subtype=subtype, **fields)

    def _result(self, subtype: str, /, **fields: Json) -> None:
        self._cost_usd += self.usage.cost_usd
        usage: Fields = {"input_tokens": self.usage.input_tokens, "output_tokens": self.usage.output_tokens}
        more: Fields = {"result_index": self._results, "permission_denials": self._denials, "num_turns": 1}
        self._send("result", subtype=subtype, total_cost_usd=self._cost_usd, usage=usage, **more, **fields)
        self._results += 1
        self.is_in_turn = False

    def _send(self, kind: str, /, *, uuid: Json = None, **fields: Json) -> None:
        self.wire.send({"type": kind, **fields, "session_id": self._session_id, "uuid": uuid or identifier()})
