"""The loop against real providers' clients, over HTTP, with a scripted model at the other end: three dialects alike."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from interlock.agents.model import ModelDriver, Tool
from interlock.agents.observations import (
    ApprovalAsked,
    HistoryCompacted,
    Observation,
    ReasoningKept,
    RetryBegun,
    TextArrived,
    TextVoided,
    ThoughtArrived,
    ToolCalled,
    ToolReturned,
    TurnEnded,
    TurnEnding,
    UsageReported,
)
from interlock.agents.port import Decision
from interlock.testing.scripted_model import (
    Cut,
    Error,
    Gate,
    Hang,
    RequestOutcome,
    ScriptedCall,
    ScriptedModel,
    Step,
    Text,
    Think,
)
from interlock.vocabulary.errors import UsageError
from interlock.vocabulary.events.registry import Json
from tests.agents.model.harness import MODELS, React, Reader, ended, instant, logged_items, of, spawn, spec
from tests.held_time import Alarm, clock, run_held

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
every = pytest.mark.parametrize("dialect", sorted(MODELS))
ALLOW: Json = ["allow *"]


def play(
    dialect: str,
    script: Iterable[Step],
    *,
    cwd: str = ".",
    permissions: Json = ALLOW,
    stop: Json = None,
    tools: Sequence[Tool] = (),
    react: Callable[[ScriptedModel, Observation], Coroutine[None, None, None]] | None = None,
    history: Sequence[Json] = (),
    options: Mapping[str, Json] | None = None,
    alarm: Alarm | None = None,
) -> tuple[list[Observation], ScriptedModel]:
    """One turn of one script, and the end of the spawn. No time passes for it but by the alarm."""
    with ScriptedModel({"it": script}) as model:

        async def run() -> list[Observation]:
            wanted = spec(cwd, url=model.url, dialect=dialect, permissions=permissions, stop=stop, options=options)
            handle = await spawn(wanted, ModelDriver(tools=tools))
            acting: React | None = None
            if react is not None or alarm is not None:

                async def acting(seen: Observation) -> None:
                    if alarm is not None:
                        alarm.see(seen)
                    if react is not None:
                        await react(model, seen)
                    if isinstance(seen, TextArrived) and seen.text == "interrupt me":
                        await handle.interrupt()
                    if isinstance(seen, ApprovalAsked):
                        await handle.decide(Decision(request_id=seen.request_id, is_allowed=seen.name == "yes"))

            told = await Reader(handle).turn("SCN:it", react=acting, history=history)
            clock().resume()
            await handle.stop()
            return told

        told = run_held(run())
        model.wait_requests(lambda seen: all(one.outcome is not RequestOutcome.PENDING for one in seen))
        assert model.faults == ()
        return told, model


async def _nothing(_: ScriptedModel, __: Observation) -> None:
    return None


@every
def test_a_turn_with_reasoning_tools_and_an_answer(dialect: str, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("remember\n\nthis\n")
    script = (Think("hm"), Text("Let me", " look."), ScriptedCall("read", {"path": "notes.txt"}), Text("Done."))
    told, model = play(dialect, script, cwd=str(tmp_path))
    assert ended(told) == TurnEnded(ending=TurnEnding.NATURAL, text="Done.")
    assert [one.text for one in of(told, ThoughtArrived)] == ["hm"]
    assert len(of(told, ReasoningKept)) == 1
    assert of(told, ToolReturned)[0].output == "remember\n\nthis\n"
    assert all(one.input_tokens == 100 for one in of(told, UsageReported))
    assert len(model.requests) == 2


@every
def test_the_next_request_says_what_the_log_says_and_begins_as_the_last_one(dialect: str, tmp_path: Path) -> None:
    """Turn by turn: a failed turn in between leaves its prompt, and neither partial text nor audit."""
    scripts = {
        "one": (Think("hm"), Text("First."), ScriptedCall("look", {}), ScriptedCall("look", {}), Text("One.")),
        "two": (Text("never to be seen again"), Cut()),
        "three": (Text("Three."),),
    }
    with ScriptedModel(scripts) as model:

        async def run() -> None:
            wanted = spec(str(tmp_path), url=model.url, dialect=dialect, permissions=ALLOW)
            handle = await spawn(wanted, ModelDriver(tools=[instant("look", lambda: {"b": 1, "a": [2]})]))
            reader = Reader(handle)
            log: list[tuple[str, str, list[Observation]]] = []
            for name in scripts:
                history = logged_items(log, MODELS[dialect])
                told = await reader.turn(f"SCN:{name}", history=history, turn_id=f"trn_{name}")
                log.append((f"trn_{name}", f"SCN:{name}", told))
            await handle.stop()

        asyncio.run(run())
        bodies = [json.loads(received.body) for received in model.requests]
    messages = [_conversation(body) for body in bodies]
    assert len(messages) == 2 + 3 + 1, "two rounds, three attempts, one round"
    for shorter, longer in itertools.pairwise(messages):
        assert json.dumps(longer[: len(shorter) - 1]) == json.dumps(shorter[:-1])
    assert messages[2] == messages[3] == messages[4], "a retry asks the same"
    last = json.dumps(messages[-1])
    assert "never to be seen again" not in last
    assert [word in last for word in ("hm", "First.", "One.", "SCN:two", "SCN:three")] == [True] * 5
    assert last.count("look") == 2, "both calls, once each"


def _conversation(body: dict[str, list[dict[str, Json]]]) -> list[dict[str, Json]]:
    """What a request says of the conversation, in whichever dialect."""
    messages = body["messages"] if "messages" in body else body["input"]
    return [one for one in messages if one.get("role") != "system"]


@every
@pytest.mark.parametrize("fault", [Error(529, times=2), Error(500, times=1), Error(429, times=2), Cut(times=2)])
def test_faults_that_pass_are_tried_again_and_leave_no_text(dialect: str, fault: Step) -> None:
    told, model = play(dialect, (Text("half "), fault, Text("whole.")))
    assert ended(told) == TurnEnded(ending=TurnEnding.NATURAL, text="half whole.")
    retries = len(model.requests) - 1
    assert len(of(told, TextVoided)) == len(of(told, RetryBegun)) == retries >= 1
    voided = max(index for index, one in enumerate(told) if isinstance(one, TextVoided))
    assert "".join(one.text for one in of(told[voided:], TextArrived)) == "half whole."


@every
def test_an_error_before_the_first_word_voids_nothing(dialect: str) -> None:
    told, _ = play(dialect, (Error(503, times=1), Text("fine")))
    assert ended(told).text == "fine"
    assert of(told, TextVoided) == []
    assert len(of(told, RetryBegun)) == 1


@every
@pytest.mark.parametrize(
    ("status", "kind", "requests"),
    [
        *((401, "auth", 1), (403, "auth", 1), (400, "client", 1), (404, "client", 1)),
        *((429, "rate_limit", 3), (500, "server", 3)),
    ],
)
def test_each_class_of_error_ends_the_turn_under_its_own_name(
    dialect: str, status: int, kind: str, requests: int
) -> None:
    told, model = play(dialect, (Error(status, "key sk-secret is no good"),))
    end = ended(told)
    assert (end.ending, end.error_kind) == (TurnEnding.ERROR, kind)
    assert len(model.requests) == requests
    if kind == "auth":
        assert "sk-secret" not in str(told)


@every
def test_a_stream_that_is_always_cut_ends_as_an_error_with_its_partial(dialect: str) -> None:
    told, model = play(dialect, (Text("so far"), Cut()))
    end = ended(told)
    assert (end.ending, end.error_kind) == (TurnEnding.ERROR, "connection")
    assert len(model.requests) == 3
    voided = max(index for index, one in enumerate(told) if isinstance(one, TextVoided))
    assert [one.text for one in of(told[voided:], TextArrived)] == ["so far"]


@every
def test_a_call_that_says_nothing_more_is_tried_again(dialect: str) -> None:
    retry: Json = {"silence_seconds": 10, "first_pause_seconds": 0, "max_attempts": 2}
    alarm = Alarm(10, lambda seen: isinstance(seen, TextArrived))
    told, model = play(dialect, (Text("x"), Hang(times=1), Text("y")), options={"retry": retry}, alarm=alarm)
    assert ended(told).text == "xy"
    assert [one.message.partition(":")[0] for one in of(told, RetryBegun)] == ["model_timeout"]
    assert [one.outcome for one in model.requests] == [RequestOutcome.DROPPED, RequestOutcome.ANSWERED]


@every
def test_the_wall_clock_ends_a_call_in_the_middle(dialect: str) -> None:
    alarm = Alarm(10, lambda seen: isinstance(seen, TextArrived))
    told, model = play(dialect, (Text("so far"), Hang()), stop=[{"type": "timeout", "seconds": 10}], alarm=alarm)
    end = ended(told)
    assert (end.ending, end.stop_code) == (TurnEnding.STOPPED, "timeout")
    assert [one.text for one in of(told, TextArrived)] == ["so far"]
    model_requests = model.requests
    assert [one.outcome for one in model_requests] == [RequestOutcome.DROPPED], "the provider is not left streaming"


@every
def test_an_interrupt_in_mid_text_drops_the_call_and_keeps_the_text(dialect: str) -> None:
    told, model = play(dialect, (Text("interrupt me"), Gate("never")), react=_nothing)
    assert ended(told).ending is TurnEnding.INTERRUPTED
    assert of(told, TextVoided) == []
    assert [one.outcome for one in model.requests] == [RequestOutcome.DROPPED]


@every
def test_an_approval_is_a_yes_or_a_no_and_the_model_hears_of_it(dialect: str) -> None:
    script = (ScriptedCall("yes", {}), ScriptedCall("no", {}), Text("I see."))
    ran: list[str] = []
    tools = [instant(name, lambda name=name: ran.append(name)) for name in ("yes", "no")]  # type: ignore[misc]
    told, model = play(dialect, script, permissions=["ask *"], tools=tools, react=_nothing)
    assert ended(told).text == "I see."
    assert ran == ["yes"]
    assert b"approval_denied" in model.requests[-1].body


@every
def test_parallel_calls_one_of_which_hangs(dialect: str) -> None:
    async def hang(_: dict[str, Json]) -> object:
        await asyncio.Event().wait()
        return None

    hanging = Tool(name="hang", description="", schema={"type": "object"}, run=hang, timeout_seconds=10)
    script = (ScriptedCall("hang", {}), ScriptedCall("look", {}), Text("Went on."))
    alarm = Alarm(10, lambda seen: isinstance(seen, ToolReturned))
    told, model = play(dialect, script, tools=[hanging, instant("look", lambda: "seen")], alarm=alarm)
    assert ended(told).text == "Went on."
    names = {one.call_id: one.name for one in of(told, ToolCalled)}
    assert [names[one.call_id] for one in of(told, ToolReturned)] == ["look", "hang"]
    assert b"tool_timeout" in model.requests[-1].body


@every
def test_a_loop_with_the_same_arguments_is_stopped(dialect: str) -> None:
    look = ScriptedCall("look", {"n": 1})
    script: list[Step] = [look, Text("again"), look, Text("again"), look]
    told, model = play(dialect, script, tools=[instant("look", lambda: "seen")])
    assert ended(told).stop_code == "loop_detected"
    assert len(model.requests) == 3


@every
def test_an_overflow_is_told_and_the_turn_goes_on_from_a_summary(dialect: str) -> None:
    script = (Error(400, "prompt is too long: 9 > 8", times=1), Text("Went on."))
    history: list[Json] = [{"type": "user_text", "text": "earlier"}, {"type": "assistant_text", "text": "indeed"}]
    told, model = play(dialect, script, history=history)
    assert ended(told).text == "Went on."
    (made,) = of(told, HistoryCompacted)
    last = _conversation(json.loads(model.requests[-1].body))
    assert "indeed" not in json.dumps(last)
    assert made.summary in json.dumps(last, ensure_ascii=False)


@pytest.mark.parametrize("name", ["nonsense", "no_such_provider:model", ""])
def test_a_model_that_does_not_exist_is_refused_with_a_remedy(name: str) -> None:
    with pytest.raises(UsageError, match="provider:model"):
        asyncio.run(spawn(replace(spec(), model=name)))
