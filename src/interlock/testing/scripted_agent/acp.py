"""The face of the Agent Client Protocol: JSON-RPC, one message a line, ids from 0 in both directions.

`TRAPS` are the habits of real agents that a client stumbles over; each is off unless it is asked for.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from interlock.testing.scripted_agent.face import AgentAnswer, AgentWire, Face, FacePrompt, identifier
from interlock.testing.scripted_agent.language import Json, ToolUse
from interlock.testing.scripted_agent.ledger import Ledger

Fields: TypeAlias = "dict[str, Json]"

TRAPS: Final = {
    "in-progress": "a tool call is said to be in progress before it was approved",
    "bare-permission": "a permission request holds nothing of the tool call but its id",
    "unannounced": "a tool call is first heard of in its permission request",
    "odd-requests": "each turn makes a request, and sends a notification, that no specification knows",
    "late-update": "a piece of text comes after the answer to the prompt",
    "no-load": "sessions cannot be loaded",
    "needs-login": "a new session wants a login first",
}
_ERROR: Final = -32603
_OPTIONS: Final[list[Json]] = [
    {"optionId": "yes-always", "name": "Allow for this session", "kind": "allow_always"},
    {"optionId": "yes", "name": "Allow", "kind": "allow_once"},
    {"optionId": "no", "name": "Reject", "kind": "reject_once"},
]


class Acp(Face):
    """One connection, with one session at a time."""

    def __init__(
        self, wire: AgentWire, ledger: Ledger, *, traps: frozenset[str] = frozenset(), is_stale: bool = False
    ) -> None:
        super().__init__(wire, ledger)
        self._traps = traps
        self._is_stale = is_stale
        self._session_id = ""
        self._next_id = 0
        self._answers: dict[int, Json] = {}
        self._prompt_id: Json = None
        self._message_id = ""
        self._open_calls: list[str] = []

    # What comes in.

    def take(self, message: Fields) -> None:
        method, asked_id = message.get("method"), message.get("id")
        if method is None:
            if isinstance(asked_id, int):
                self._answers[asked_id] = message.get("result")
        elif method == "session/cancel":
            self.interrupt()
        elif "id" in message:
            parameters = message.get("params")
            self._take_request(str(method), asked_id, parameters if isinstance(parameters, dict) else {})

    def _take_request(self, method: str, asked_id: Json, parameters: Fields) -> None:
        match method:
            case "initialize":
                self._answer(asked_id, self._abilities())
            case "authenticate" | "session/set_mode" | "session/set_model":
                self._answer(asked_id, {})
            case "session/new" if "needs-login" in self._traps:
                self._refuse(asked_id, -32000, "Authentication required")
            case "session/new":
                self._session_id = identifier()
                self._answer(asked_id, {"sessionId": self._session_id})
            case "session/load" if "no-load" not in self._traps:
                self._load(asked_id, str(parameters.get("sessionId")))
            case "session/prompt":
                self._take_prompt(asked_id, parameters)
            case _:
                self._refuse(asked_id, -32601, "Method not found")

    def _abilities(self) -> Fields:
        abilities: Fields = {"loadSession": "no-load" not in self._traps, "promptCapabilities": {"image": False}}
        agent: Fields = {"name": "scripted-agent", "title": "Scripted agent", "version": "1.0"}
        return {"protocolVersion": 1, "agentCapabilities": abilities, "authMethods": [], "agentInfo": agent}

    def _load(self, asked_id: Json, session_id: str) -> None:
        if self._is_stale:
            self._refuse(asked_id, -32002, f"Resource not found: {session_id}")
            return
        self._session_id = session_id
        self._update("user_message_chunk", content={"type": "text", "text": "what was asked before"})
        self._update("agent_message_chunk", content={"type": "text", "text": "what was answered before"})
        self._answer(asked_id, {})

    def _take_prompt(self, asked_id: Json, parameters: Fields) -> None:
        blocks = parameters.get("prompt")
        found = [block for block in blocks if isinstance(block, dict)] if isinstance(blocks, list) else []
        text = "".join(str(block.get("text", "")) for block in found)
        if self.is_in_turn or self.prompts:
            self.ledger.record("refused", text=text)
            self._refuse(asked_id, _ERROR, "A turn is already running")
        elif parameters.get("sessionId") != self._session_id:
            self.ledger.record("refused", text=text)
            self._refuse(asked_id, -32602, "There is no such session")
        else:
            self.receive(text, asked_id)

    # What goes out.

    def begin(self, prompt: FacePrompt) -> None:
        self.is_in_turn = True
        self._prompt_id, self._message_id, self._open_calls = prompt.handle, identifier("msg_"), []
        if "odd-requests" in self._traps:
            self.wire.send({"jsonrpc": "2.0", "method": "_session/odd", "params": {"sessionId": self._session_id}})
            self._request("odd/drainQueue", {"sessionId": self._session_id})

    def think(self, text: str) -> None:
        self._update("agent_thought_chunk", content={"type": "text", "text": text})

    def say(self, text: str) -> None:
        self._update("agent_message_chunk", messageId=self._message_id, content={"type": "text", "text": text})

    def call(self, use: ToolUse, *, asks: bool) -> str:
        call_id = identifier("call_")
        self._open_calls.append(call_id)
        if not (asks and "unannounced" in self._traps):
            is_early = not asks or "in-progress" in self._traps
            self._update("tool_call", **self._described(call_id, use, "in_progress" if is_early else "pending"))
        return call_id

    def _described(self, call_id: str, use: ToolUse, status: str) -> Fields:
        call: Fields = {"toolCallId": call_id, "title": use.name, "kind": "execute", "status": status}
        return {**call, "content": [], "locations": [], "rawInput": use.arguments}

    def approve(self, call_id: str, use: ToolUse) -> AgentAnswer:
        is_bare = "bare-permission" in self._traps
        call: Fields = {"toolCallId": call_id} if is_bare else self._described(call_id, use, "pending")
        answer = self._permission(call, _OPTIONS)
        if answer.is_allowed:
            self._update("tool_call_update", toolCallId=call_id, status="in_progress")
        return answer

    def ask(self, question: str, options: list[str]) -> AgentAnswer:
        use = ToolUse(question, {}, "", is_error=False)
        call_id = self.call(use, asks=True)
        choices: list[Json] = [{"optionId": word, "name": word, "kind": "allow_once"} for word in options]
        answer = self._permission(self._described(call_id, use, "pending"), [*choices, _OPTIONS[-1]])
        self.returned(call_id, use._replace(output=answer.text, is_error=not answer.is_allowed))
        return answer

    def _permission(self, call: Fields, options: list[Json]) -> AgentAnswer:
        asked: Fields = {"sessionId": self._session_id, "toolCall": call, "options": options}
        number = self._request("session/request_permission", asked)
        self.wait(until=lambda: number in self._answers or self.wire.is_closed)
        given = self._answers.pop(number, None)
        self.ledger.record("answer", call_id=call["toolCallId"], answer=given)
        outcome = given.get("outcome") if isinstance(given, dict) else None
        chosen = str(outcome.get("optionId", "")) if isinstance(outcome, dict) else ""
        offered = {str(option["optionId"]): option["kind"] for option in options if isinstance(option, dict)}
        return AgentAnswer(str(offered.get(chosen)).startswith("allow"), chosen, ends_turn=not chosen)

    def returned(self, call_id: str, use: ToolUse) -> None:
        if call_id in self._open_calls:
            self._open_calls.remove(call_id)
        content: Json = [{"type": "content", "content": {"type": "text", "text": use.output}}]
        status = "failed" if use.is_error else "completed"
        self._update("tool_call_update", toolCallId=call_id, status=status, content=content)
        self._message_id = identifier("msg_")

    def retry(self, reason: str) -> None:
        fields: Fields = {"sessionId": self._session_id, "category": "connection", "detail": reason}
        self.wire.send({"jsonrpc": "2.0", "method": "_session/retrying", "params": fields})

    def background(self, names: list[str]) -> None:
        entries: list[Json] = [{"content": name, "priority": "medium", "status": "in_progress"} for name in names]
        self._update("plan", entries=entries)

    def relay(self, call_id: str, text: str) -> None:
        content: Json = [{"type": "content", "content": {"type": "text", "text": text}}]
        self._update("tool_call_update", toolCallId=call_id, content=content)

    def done(self) -> None:
        self.ended_as("end_turn", "")

    def failed(self, text: str) -> None:
        if self._prompt_id is not None:
            self._refuse(self._prompt_id, _ERROR, text)
        self._over()

    def ended_as(self, word: str, text: str) -> None:
        if text:
            self.say(text)
        usage: Fields = {"inputTokens": self.usage.input_tokens, "outputTokens": self.usage.output_tokens}
        usage["totalTokens"] = self.usage.input_tokens + self.usage.output_tokens
        if self._prompt_id is not None:
            self._answer(self._prompt_id, {"stopReason": word, "usage": usage})
        self._over()

    def _over(self) -> None:
        self._prompt_id, self.is_in_turn = None, False
        if "late-update" in self._traps:
            self.say("and one thing more")

    def interrupted(self) -> None:
        for call_id in self._open_calls:
            self._update("tool_call_update", toolCallId=call_id, status="failed")
        self.ended_as("cancelled", "")

    # The parts of JSON-RPC.

    def _request(self, method: str, parameters: Fields) -> int:
        number, self._next_id = self._next_id, self._next_id + 1
        self.wire.send({"jsonrpc": "2.0", "id": number, "method": method, "params": parameters})
        return number

    def _answer(self, asked_id: Json, result: Json) -> None:
        self.wire.send({"jsonrpc": "2.0", "id": asked_id, "result": result})

    def _refuse(self, asked_id: Json, code: int, text: str) -> None:
        self.wire.send({"jsonrpc": "2.0", "id": asked_id, "error": {"code": code, "message": text}})

    def _update(self, kind: str, /, **fields: Json) -> None:
        update: Fields = {"sessionUpdate": kind, **fields}
        parameters: Fields = {"sessionId": self._session_id, "update": update}
        self.wire.send({"jsonrpc": "2.0", "method": "session/update", "params": parameters})
