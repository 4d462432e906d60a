"""The ACP driver with an agent of our own that behaves well, badly, or not at all."""

from __future__ import annotations

import asyncio
import importlib
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

from interlock.agents.acp.driver import AcpDriver
from interlock.agents.observations import (
    ApprovalAsked,
    ApprovalGone,
    BecameReady,
    Exited,
    MessageEnded,
    SessionNamed,
    TextArrived,
    ToolReturned,
    Traced,
    TurnEnded,
    TurnEnding,
    Warned,
)
from interlock.agents.port import AgentSpec, Decision, NotDelivered, StaleResume
from interlock.agents.processes.identity import is_alive
from interlock.vocabulary.errors import PeerFault, UsageError
from interlock.vocabulary.events.audit import DeliveryStage
from tests.agents.acp.driving import Session, prompt
from tests.agents.acp.peer import FLOOD
from tests.agents.processes.trees import new_spawn_id

PEER = Path(__file__).parent / "peer.py"
LIMIT_SECONDS = 100.0


def spec(how: str = "well", **more: object) -> AgentSpec:
    made = AgentSpec(agent="peer", driver="acp", argv=(sys.executable, "-S", "-E", str(PEER), how))
    return replace(made, **more)  # type: ignore[arg-type]


def run(act: Callable[[Session], Awaitable[None]], how: AgentSpec | None = None) -> None:
    """Do something with a living agent; it must be gone afterwards, and `Exited` its last word."""

    async def whole() -> None:
        async with asyncio.timeout(LIMIT_SECONDS):
            handle = await AcpDriver().spawn(how or spec(), new_spawn_id())
            session = Session(handle)
            try:
                await act(session)
            finally:
                seen = await session.end()
            assert isinstance(seen[-1], Exited)
            assert len([one for one in seen if isinstance(one, Exited)]) == 1
            assert handle.process is not None
            assert not is_alive(handle.process)

    asyncio.run(whole())


def test_nobody_else_waits_while_the_library_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loading it takes seconds where the machine is busy: long enough for other agents to be given up."""
    loading, goes_on = threading.Event(), threading.Event()

    imported = importlib.import_module

    def load(name: str, package: str | None = None) -> ModuleType | None:
        if not name.startswith(("acp", "interlock.agents.acp")):
            return imported(name, package)  # pydantic, which loads its parts as they are asked for
        loading.set()
        assert goes_on.wait(LIMIT_SECONDS), f"{name} was loaded where everybody waits"
        return None

    async def main() -> None:
        starting = asyncio.create_task(AcpDriver().spawn(spec(), new_spawn_id()))
        await asyncio.to_thread(loading.wait, LIMIT_SECONDS)
        goes_on.set()
        await (await starting).stop()

    monkeypatch.setattr(importlib, "import_module", load)
    asyncio.run(main())


def test_a_session_is_named_and_ready_before_the_first_prompt() -> None:
    async def act(session: Session) -> None:
        await session.until(BecameReady)
        assert session.seen == [SessionNamed(native_session_id="s1", model="m1", version="9"), BecameReady()]
        assert session.handle.capabilities.can_resume

    run(act)


def test_a_prompt_is_written_and_its_answer_told_in_pieces_and_whole() -> None:
    async def act(session: Session) -> None:
        assert await session.handle.submit(prompt("hello")) is DeliveryStage.TYPED
        await session.until(TurnEnded)
        told = [one for one in session.seen if isinstance(one, TextArrived | MessageEnded | TurnEnded)]
        assert told == [
            TextArrived(text="Hello "),
            TextArrived(text="there."),
            MessageEnded(text="Hello there."),
            TurnEnded(ending=TurnEnding.NATURAL),
        ]

    run(act)


def test_a_second_prompt_in_an_open_turn_is_not_delivered() -> None:
    async def act(session: Session) -> None:
        await session.handle.submit(prompt("wait"))
        with pytest.raises(NotDelivered):
            await session.handle.submit(prompt("hello"))
        await session.handle.interrupt()
        await session.until(TurnEnded)
        assert session.seen[-1] == TurnEnded(ending=TurnEnding.INTERRUPTED)
        assert (await session.turn("hello"))[-1] == TurnEnded(ending=TurnEnding.NATURAL)

    run(act)


@pytest.mark.parametrize(
    ("decision", "output", "error"),
    [
        (Decision(request_id="2", is_allowed=True), "chose yes", None),
        (Decision(request_id="2", is_allowed=True, option_id="ever"), "chose ever", None),
        (Decision(request_id="2", is_allowed=True, option_label="Ever"), "chose ever", None),
        (Decision(request_id="2", is_allowed=False), None, "denied"),
        (Decision(request_id="2", is_allowed=False, option_id="gone"), None, "denied"),
    ],
)
def test_a_decision_reaches_the_agent_as_one_of_its_own_options(
    decision: Decision, output: str | None, error: str | None
) -> None:
    async def act(session: Session) -> None:
        await session.handle.submit(prompt("ask"))
        await session.until(ApprovalAsked)
        (asked,) = [one for one in session.seen if isinstance(one, ApprovalAsked)]
        assert (asked.call_id, asked.args) == ("c1", {"command": "ls"})
        await session.handle.decide(decision)
        with pytest.raises(NotDelivered):
            await session.handle.decide(decision)
        await session.until(TurnEnded)
        (returned,) = [one for one in session.seen if isinstance(one, ToolReturned)]
        assert (returned.output, returned.error and returned.error.kind) == (output, error)
        assert ApprovalGone(request_id="2") in session.seen

    run(act)


def test_an_option_that_is_not_offered_is_refused_and_the_question_stays_open() -> None:
    async def act(session: Session) -> None:
        await session.handle.submit(prompt("ask"))
        await session.until(ApprovalAsked)
        with pytest.raises(UsageError, match="yes, ever, no"):
            await session.handle.decide(Decision(request_id="2", is_allowed=True, option_id="other"))
        await session.handle.decide(Decision(request_id="2", is_allowed=True))
        await session.until(TurnEnded)

    run(act)


def test_an_interrupt_takes_the_open_question_back() -> None:
    async def act(session: Session) -> None:
        await session.handle.submit(prompt("ask"))
        await session.until(ApprovalAsked)
        await session.handle.interrupt()
        await session.until(TurnEnded)
        assert ApprovalGone(request_id="2", is_answered=False) in session.seen
        assert session.seen[-1] == TurnEnded(ending=TurnEnding.INTERRUPTED)
        with pytest.raises(NotDelivered):
            await session.handle.interrupt()

    run(act)


def test_requests_that_nobody_serves_are_answered_as_unknown() -> None:
    async def act(session: Session) -> None:
        seen = await session.turn("outside")
        assert MessageEnded(text="[('5', -32601), ('x', -32601)]") in seen

    run(act)


def test_lines_of_any_shape_neither_end_the_turn_nor_the_session() -> None:
    async def act(session: Session) -> None:
        seen = await session.turn("garbage")
        assert seen[-1] == TurnEnded(ending=TurnEnding.NATURAL)
        assert [len(one.text) for one in seen if isinstance(one, MessageEnded)] == [3_000_000]
        assert [one for one in seen if isinstance(one, Traced)]
        assert (await session.turn("hello"))[-1] == TurnEnded(ending=TurnEnding.NATURAL)

    run(act)


def test_an_error_in_answer_to_the_prompt_ends_the_turn_with_its_detail() -> None:
    async def act(session: Session) -> None:
        ended = (await session.turn("refuse"))[-1]
        assert isinstance(ended, TurnEnded)
        assert (ended.ending, ended.error_message) == (TurnEnding.ERROR, "Internal error: no luck")

    run(act)


def test_an_error_of_no_known_shape_ends_the_turn_and_not_the_session() -> None:
    async def act(session: Session) -> None:
        ended = (await session.turn("odd"))[-1]
        assert isinstance(ended, TurnEnded)
        assert ended.ending is TurnEnding.ERROR
        assert (await session.turn("hello"))[-1] == TurnEnded(ending=TurnEnding.NATURAL)

    run(act)


def test_a_death_in_mid_line_ends_the_turn_without_a_word_and_is_told_last() -> None:
    async def act(session: Session) -> None:
        await session.handle.submit(prompt("die"))
        await session.until(Exited)
        kinds = [type(one) for one in session.seen[-4:]]
        assert kinds == [Warned, Traced, TurnEnded, Exited]
        ended, exited = session.seen[-2:]
        assert ended == TurnEnded(ending=TurnEnding.SILENT)
        assert exited == Exited(code=3, stderr_tail="this is the end\n")
        with pytest.raises(NotDelivered):
            await session.handle.submit(prompt("hello"))

    run(act)


def test_what_a_resumed_session_repeats_of_its_past_is_not_news() -> None:
    async def act(session: Session) -> None:
        await session.until(BecameReady)
        assert session.seen == [SessionNamed(native_session_id="s1", model="m1", version="9"), BecameReady()]
        assert MessageEnded(text="Hello there.") in await session.turn("hello")

    run(act, spec(resume="s1"))


def test_a_flood_that_nobody_reads_waits_and_does_not_hold_up_the_stop() -> None:
    async def whole() -> None:
        async with asyncio.timeout(LIMIT_SECONDS):
            handle = await AcpDriver().spawn(spec(), new_spawn_id())
            await handle.submit(prompt("flood"))
            await asyncio.gather(handle.stop(), handle.stop())
            seen = [one async for one in handle.observations()]
            assert isinstance(seen[-1], Exited)

    asyncio.run(whole())


def test_a_flood_that_is_read_late_is_read_whole() -> None:
    async def act(session: Session) -> None:
        seen = await session.turn("flood")
        assert len([one for one in seen if isinstance(one, TextArrived)]) == FLOOD

    run(act)


@pytest.mark.parametrize(
    ("how", "kind", "words"),
    [
        (spec("auth"), UsageError, "wants a login.*Peer login"),
        (spec("early"), PeerFault, "ended before it opened a session.*I have no settings"),
        (spec(resume="s2"), StaleResume, "knows no session 's2'"),
        (spec(options={"colour": "red"}), UsageError, "no option 'colour'"),
        (spec(options={"mode": "wild"}), UsageError, "no mode 'wild'; choose from: plain, careful"),
        (spec(argv=("/no/such/agent",)), UsageError, "there is no"),
    ],
)
def test_a_spawn_that_fails_says_why(how: AgentSpec, kind: type[Exception], words: str) -> None:
    with pytest.raises(kind, match=words):
        asyncio.run(AcpDriver().spawn(how, new_spawn_id()))


def test_a_mode_that_the_agent_offers_is_set() -> None:
    async def act(session: Session) -> None:
        await session.until(BecameReady)

    run(act, spec(options={"mode": "careful"}))


def test_an_agent_that_says_nothing_is_given_up_and_ended() -> None:
    with pytest.raises(PeerFault, match=r"no session within 0\.5 s"):
        asyncio.run(AcpDriver(start_seconds=0.5).spawn(spec("silent"), new_spawn_id()))


def test_a_spawn_that_is_cancelled_leaves_no_process(tmp_path: Path) -> None:
    async def whole() -> list[str]:
        marker = f"il-acp-{tmp_path}"  # the whole path: another worker's folder has the same name
        silent = spec("silent")
        spawning = asyncio.create_task(AcpDriver().spawn(spec(argv=(*silent.argv, marker)), new_spawn_id()))
        async with asyncio.timeout(LIMIT_SECONDS):
            await asyncio.to_thread(_await_start, marker)
            spawning.cancel()
            with pytest.raises(asyncio.CancelledError):
                await spawning
        return _running(marker)

    assert asyncio.run(whole()) == []


def _await_start(marker: str) -> None:
    until = time.monotonic() + LIMIT_SECONDS
    while not _running(marker):
        assert time.monotonic() < until, "the agent did not start"
        time.sleep(0.01)


def _running(marker: str) -> list[str]:
    found = []
    for entry in Path("/proc").iterdir():
        try:
            words = (entry / "cmdline").read_bytes().decode("utf-8", "replace") if entry.name.isdigit() else ""
        except OSError:
            continue
        if marker in words:
            found.append(entry.name)
    return found


def test_without_the_library_the_remedy_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "acp", None)
    with pytest.raises(UsageError, match=r"pip install interlock\[acp\]"):
        asyncio.run(AcpDriver().spawn(spec(), new_spawn_id()))
