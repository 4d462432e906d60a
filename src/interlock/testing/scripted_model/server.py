"""Take requests, choose what answers them, and keep count. Runs in one event loop; `ScriptedModel` owns its thread."""

from __future__ import annotations

import asyncio
import re
from collections import Counter, deque
from collections.abc import Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

import msgspec

from interlock.testing.scripted_model import anthropic, chat, gemini, responses
from interlock.testing.scripted_model.dialect import ModelConversation, ModelPrompt, ModelReply, dumps
from interlock.testing.scripted_model.http import MAX_HEAD_BYTES, Exchange, HttpRequest, read_request
from interlock.testing.scripted_model.player import ModelPlayer
from interlock.testing.scripted_model.record import Received, Record, RequestKind, RequestOutcome
from interlock.testing.scripted_model.script import CLOSING, Gate, Script, Text, part_at
from interlock.vocabulary.events.registry import Json

# Requests that a CLI makes beside its turns, and their answers.
#
# A title, a quota probe, a topic check, a route to a smaller model, an extraction of memories: none of them is a turn,
# and counting one would make the truth wrong. They are known by what they ask for, since they often quote the prompt.

# Looked for in the system prompt, and in the last prompt of a request that offers no tool.
_PURPOSES: Final = {
    "title": re.compile(r"\btitle\b.{0,80}\b(session|conversation|task|thread|chat|coding)|\btitle generator\b|"
                        r"(generate|write|create)\b.{0,40}\btitle\b", re.IGNORECASE | re.DOTALL),
    "memory": re.compile(r"memory[ -]extract|extract\w*\b.{0,40}\bmemor", re.IGNORECASE | re.DOTALL),
    "topic": re.compile(r"\bnew (conversation )?topic\b", re.IGNORECASE),
    "route": re.compile(r"\b(task routing|classif(y|ier))\b|\brouter\b", re.IGNORECASE),
    # Gemini CLI sums up the session before, once it is started anew.
    "summary": re.compile(r"\bsuggest\w*\b.{0,60}\bnext\b|\bsummarize the user's primary intent\b",
                          re.IGNORECASE | re.DOTALL),
}  # fmt: skip
_FEW_TOOLS: Final = 3
# Gemini CLI has two routers, which ask for different fields.
_ROUTE: Final[Json] = {
    "reasoning": "scripted",
    "model_choice": "flash",
    "complexity_reasoning": "scripted",
    "complexity_score": 1,
}


def side_purpose(conversation: ModelConversation) -> str | None:
    """What a side request is for, or None for a turn of the conversation itself."""
    if conversation.max_tokens == 1:
        return "probe"
    if len(conversation.tools) > _FEW_TOOLS:
        # The system prompt of a turn may well speak of titles and topics; a memory agent names itself at its start.
        head = conversation.system[:400]
        return "memory" if _PURPOSES["memory"].search(head) else None
    asked = f"{conversation.system}\n{conversation.last_prompt().text}"
    named = next((name for name, pattern in _PURPOSES.items() if pattern.search(asked)), None)
    return named or ("structured" if conversation.wants_json else None)


def side_answer(purpose: str, conversation: ModelConversation) -> str:
    """A text that the asking CLI can use."""
    answers: dict[str, Json] = {
        "title": {"title": "Scripted session"},
        "topic": {"isNewTopic": False, "title": None},
        "route": _ROUTE,
    }
    if purpose in answers and (conversation.wants_json or "json" in conversation.system.lower()):
        return dumps(answers[purpose])
    return {"title": "Scripted session", "structured": "{}"}.get(purpose, "ok")


MAX_CONNECTIONS: Final = 256
Answer: TypeAlias = Callable[[int], Coroutine[None, None, RequestOutcome]]
_KEY: Final = re.compile(r"SCN:([\w-]+)")


@dataclass(frozen=True, slots=True)
class Dialect:
    """How one wire format is read and answered. `paths` match the whole path."""

    paths: re.Pattern[str]
    read: Callable[[str, bytes], ModelConversation]
    reply: Callable[[ModelConversation, int], ModelReply]


DIALECTS: Final = (
    Dialect(re.compile(r"(/v1)?/messages"), anthropic.read, anthropic.MessagesReply),
    Dialect(re.compile(r"(/v1)?/responses"), responses.read, responses.ResponsesReply),
    Dialect(re.compile(r"(/v1)?/chat/completions"), chat.read, chat.ChatReply),
    Dialect(re.compile(r"/v\w+/models/[^/]+:(streamG|g)enerateContent"), gemini.read, gemini.GeminiReply),
)
# What clients ask besides: counts of tokens and lists of models, in the shapes of all four at once.
_COUNT: Final[Json] = {"input_tokens": 100, "totalTokens": 100}
_MODEL: Final[Json] = {"id": "scripted", "object": "model", "type": "model", "display_name": "Scripted", "created": 0}
_MODELS: Final[Json] = {"object": "list", "data": [_MODEL], "has_more": False, "models": []}


class Scripts:
    """Which script answers which prompt. A prompt of the queue keeps its script through tool results and retries."""

    def __init__(self, named: Mapping[str, Script], queue: Iterable[Script]) -> None:
        self._named = dict(named)
        self._queue = deque(queue)
        self._queued = tuple(self._queue)
        self._taken: dict[ModelPrompt, tuple[str, Script]] = {}
        self._attempts: Counter[tuple[str, ModelPrompt]] = Counter()

    def all(self) -> tuple[Script, ...]:
        return (*self._named.values(), *self._queued)

    def set(self, name: str, script: Script) -> None:
        self._named[name] = script

    def choose(self, prompt: ModelPrompt) -> tuple[str, Script]:
        """The name and the steps. The name is empty where the queue ran out; the script where the key is unknown."""
        if keys := _KEY.findall(prompt.text):
            return keys[-1], self._named.get(keys[-1], ())
        turn = replace(prompt, answers=0)
        if turn not in self._taken:
            taken = ("", CLOSING) if not self._queue else (f"queue {len(self._taken)}", self._queue.popleft())
            self._taken[turn] = taken
        return self._taken[turn]

    def count_attempt(self, name: str, prompt: ModelPrompt) -> int:
        """How often this very part was asked for before."""
        self._attempts[name, prompt] += 1
        return self._attempts[name, prompt] - 1


class ModelServer:
    """Every connection is a task; each carries one request."""

    def __init__(self, scripts: Scripts, record: Record, port: int) -> None:
        self._port = port
        self._scripts = scripts
        self._record = record
        self._gates: dict[str, asyncio.Event] = {}
        self._stop = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()

    async def serve(self, started: Callable[[int], None]) -> None:
        """Listen on loopback until `stop`, then close every connection."""
        server = await asyncio.start_server(self._connected, "127.0.0.1", self._port, limit=MAX_HEAD_BYTES)
        async with server:
            started(server.sockets[0].getsockname()[1])
            await self._stop.wait()
            server.close()
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def stop(self) -> None:
        self._stop.set()

    def open_gate(self, name: str) -> None:
        self._gate(name).set()

    def _gate(self, name: str) -> asyncio.Event:
        return self._gates.setdefault(name, asyncio.Event())

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._tasks) >= MAX_CONNECTIONS:
            self._record.fault(f"more than {MAX_CONNECTIONS} connections at once; one was refused")
            writer.close()
            return
        task = asyncio.create_task(self._converse(reader, Exchange(writer)))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _converse(self, reader: asyncio.StreamReader, exchange: Exchange) -> None:
        try:
            request = await read_request(reader)
            if request is not None:
                await self._serve_request(request, reader, exchange)
        except ConnectionError:
            pass  # The client went away while we wrote; its request is on record as dropped or answered.
        except Exception as wrong:  # The edge of this thread: nobody else would hear of it.
            self._record.fault(f"{type(wrong).__name__}: {wrong}")
        finally:
            await exchange.close()

    async def _serve_request(self, request: HttpRequest, reader: asyncio.StreamReader, exchange: Exchange) -> None:
        """Answer, unless the client hangs up first: one request a connection, so any read means that it did."""
        received, answer = self._plan(request, exchange)
        number = self._record.add(received)
        answering = asyncio.ensure_future(answer(number))
        leaving = asyncio.ensure_future(reader.read(1))
        outcome = RequestOutcome.PENDING
        try:
            await asyncio.wait({answering, leaving}, return_when=asyncio.FIRST_COMPLETED)
            outcome = answering.result() if answering.done() else RequestOutcome.DROPPED
        finally:
            answering.cancel()
            leaving.cancel()
            await asyncio.gather(answering, leaving, return_exceptions=True)
            self._record.close(number, outcome)

    def _plan(self, request: HttpRequest, exchange: Exchange) -> tuple[Received, Answer]:
        """What to keep of a request, and what will answer it."""
        kept = Received(0, RequestKind.SIDE, request.path, request.body)
        dialect = next((one for one in DIALECTS if one.paths.fullmatch(request.path)), None)
        if dialect is None or request.method != "POST":
            return replace(kept, purpose="list"), lambda _: _answer_plainly(request, exchange)
        try:
            conversation = dialect.read(request.path, request.body)
        except msgspec.DecodeError as wrong:
            self._record.fault(f"{request.path}: the body is not what this path takes: {wrong}")
            return replace(kept, purpose="damaged"), lambda _: _refuse(exchange, 400, "the body cannot be read")
        prompt = conversation.last_prompt()
        kept = replace(kept, prompt=prompt.text)
        part: Script
        if purpose := side_purpose(conversation):
            kept, part = replace(kept, purpose=purpose), (Text(side_answer(purpose, conversation)),)
        else:
            kept, part = self._plan_turn(kept, prompt)

        async def answer(number: int) -> RequestOutcome:
            player = ModelPlayer(dialect.reply(conversation, number), exchange, attempt=kept.attempt, hold=self._hold)
            return await player.play(part)

        return kept, answer

    def _plan_turn(self, kept: Received, prompt: ModelPrompt) -> tuple[Received, Script]:
        name, script = self._scripts.choose(prompt)
        if not script:
            self._record.fault(f"no script is called {name!r}")
            script = (Text(f"There is no script called {name}."),)
        attempt = self._scripts.count_attempt(name, prompt)
        kept = replace(kept, kind=RequestKind.MAIN, script=name, part=prompt.answers, attempt=attempt)
        return kept, part_at(script, prompt.answers)

    async def _hold(self, gate: Gate) -> bool:
        self._record.reach(gate.name)
        try:
            await asyncio.wait_for(self._gate(gate.name).wait(), gate.limit_seconds)
        except TimeoutError:
            self._record.fault(f"gate {gate.name!r} was not released within {gate.limit_seconds} s")
            return False
        return True


async def _answer_plainly(request: HttpRequest, exchange: Exchange) -> RequestOutcome:
    """Lists, counts, probes of the connection; 404 for a POST to somewhere else."""
    is_count = request.path.endswith(("/count_tokens", ":countTokens"))
    if request.method == "POST" and not is_count:
        return await _refuse(exchange, 404, f"nothing is served at {request.path}")
    body: Json = _COUNT if is_count else _MODELS if request.path.endswith("/models") else {}
    has_body = request.method != "HEAD"
    exchange.end_whole(200, dumps(body).encode(), has_body=has_body)
    return RequestOutcome.ANSWERED


async def _refuse(exchange: Exchange, status: int, message: str) -> RequestOutcome:
    body: Json = {"error": {"type": "invalid_request_error", "message": message}}
    exchange.end_whole(status, dumps(body).encode())
    return RequestOutcome.FAILED
