"""Scripted agents in a real tmux, started, driven, lost and found again by the terminal driver."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from interlock.agents.evidence.hooks import HookHeard
from interlock.agents.identify import foreground_argv
from interlock.agents.observations import (
    ApprovalAsked,
    ApprovalGone,
    BecameReady,
    ChannelLost,
    Exited,
    Progressed,
    PromptReached,
    ScreenLeft,
    StandingSeen,
    ToolsSeen,
    TurnEnded,
    TurnEnding,
    Warned,
)
from interlock.agents.port import AgentSpec, Decision, DeliveryUnknown, KeptOut, NotDelivered
from interlock.agents.processes.identity import is_alive
from interlock.agents.terminal.answering import AnswerPolicy
from interlock.agents.terminal.driver import TerminalDriver
from interlock.agents.terminal.launch import AgentGone, read_where
from interlock.agents.tmux import typing
from interlock.agents.tmux.panes import list_panes, start_pane
from interlock.agents.tmux.typing import TypingPolicy
from interlock.monitor.policy import MonitorPolicies, MonitorPolicy
from interlock.monitor.tracker import TuiTrackerSession, Verdict
from interlock.testing.scripted_agent import Gates
from interlock.vocabulary.errors import PeerFault, Unreachable, UsageError
from interlock.vocabulary.events.audit import DeliveryStage
from interlock.vocabulary.events.registry import Json
from interlock.vocabulary.evidence import NATIVE_CONTRADICTED, EvidenceSource
from interlock.vocabulary.states import Activity, Attention
from tests.agents.terminal.harness import (
    QUICK,
    SCRIPTED,
    Seen,
    agent,
    driving,
    new_spawn,
    pane_count,
    press,
    prompt,
    reading,
    scripted,
    shows,
)
from tests.contract.harness import run


def test_a_turn_is_told_from_ready_to_ready() -> None:
    async def main() -> None:
        async with driving() as driver, agent(driver) as seen:
            await seen.until(BecameReady)
            assert await seen.handle.submit(prompt("think 1; say Yes.")) is DeliveryStage.STARTED
            stages = [(await seen.until(PromptReached)).stage for _ in range(3)]
            assert stages == [DeliveryStage.TYPED, DeliveryStage.ACCEPTED, DeliveryStage.STARTED]
            working = await seen.until(StandingSeen, lambda one: one.standing.activity is Activity.WORKING)
            assert (working.profile, len(working.frame_sha256)) == ("scripted-1", 64)
            ended = await seen.until(TurnEnded)
            assert ended.ending is TurnEnding.NATURAL
            assert ended.surface is not None
            shown = ended.surface.ended
            assert shown is not None
            assert (shown.result, shown.profile, shown.saw_working) == ("completed", "scripted-1", True)
            assert (shown.business_state, shown.input_mode, shown.stability_seconds) == ("idle", "freeform", 1.0)
            assert "Yes." in shown.tail
            await seen.until(BecameReady)
            assert seen.of(Warned) == []

    run(main())


def test_a_turn_that_is_never_seen_to_start_is_told_when_it_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """A quick one: its end was held back until nothing waited for its start any more, five seconds later."""
    monkeypatch.setattr(typing._Attempt, "_is_started", lambda *_: False)
    policy = replace(QUICK, typing=replace(QUICK.typing, started_within_seconds=600))

    async def main() -> None:
        async with driving(policy) as driver, agent(driver) as seen:
            await seen.until(BecameReady)
            submit = asyncio.create_task(seen.handle.submit(prompt("say Yes.")))
            ended = await seen.until(TurnEnded)
            assert ended.ending is TurnEnding.NATURAL
            assert (await submit) in (DeliveryStage.ACCEPTED, DeliveryStage.STARTED)
            assert [one.stage for one in seen.of(PromptReached)][:2] == [DeliveryStage.TYPED, DeliveryStage.ACCEPTED]
            await seen.until(BecameReady)

    run(main())


def test_new_text_of_a_turn_is_told_as_progress() -> None:
    async def main() -> None:
        async with driving() as driver, agent(driver) as seen:
            await seen.until(BecameReady)
            assert seen.of(Progressed) == []
            await seen.handle.submit(prompt("think 2; say One.; think 2; say Two."))
            told = await seen.until(Progressed, lambda one: one.rule == "screen.new_text")
            assert told.source is EvidenceSource.SCREEN
            await seen.until(TurnEnded)

    run(main())


def test_a_process_that_an_agent_starts_in_its_turn_is_told_as_a_tool() -> None:
    async def main() -> None:
        async with driving() as driver, agent(driver) as seen:
            await seen.until(BecameReady)
            await seen.handle.submit(prompt("spawn child 600; hang"))
            told = await seen.until(ToolsSeen, lambda one: bool(one.open))
            assert [name for _, name in told.open] == ["sleep"]

    run(main())


def test_an_agent_that_comes_after_a_fault_in_watching_is_watched() -> None:
    def break_down(session: TuiTrackerSession, now: float) -> Verdict:
        raise RuntimeError("broken")

    async def main() -> None:
        async with driving() as driver, agent(driver) as first:
            await first.until(BecameReady)
            first.handle.tell(break_down)
            assert (await first.until(ChannelLost)).message == "watching failed: RuntimeError: broken"
            async with agent(driver) as second:
                await second.until(BecameReady)

    run(main())


def test_a_fault_in_the_tracker_of_one_agent_leaves_the_others_watched() -> None:
    def break_down(session: TuiTrackerSession, now: float) -> Verdict:
        raise RuntimeError("broken")

    async def main() -> None:
        async with driving() as driver, agent(driver) as first, agent(driver) as second:
            await first.until(BecameReady)
            await second.until(BecameReady)
            first.handle.tell(break_down)
            assert (await first.until(ChannelLost)).message == "watching failed: RuntimeError: broken"
            await second.handle.submit(prompt("say hello"))
            await second.until(TurnEnded)
            assert not second.of(ChannelLost)

    run(main())


def test_a_screen_that_no_profile_fits_is_unknown_and_says_so() -> None:
    quick = replace(QUICK, monitor=MonitorPolicies(MonitorPolicy(unknown_to_stalled_timeout_seconds=0.5)))
    strange = AgentSpec(agent="mystery", driver="terminal", argv=("cat",))

    async def main() -> None:
        async with driving(quick) as driver, agent(driver, strange) as seen:
            unread = await seen.until(StandingSeen, lambda one: bool(one.standing.evidence) and _is_unread(one))
            assert unread.standing.evidence[0].where == "profile generic-1, version unknown"
            with pytest.raises(
                NotDelivered, match=r"^nothing was typed: the screen does not show that it is ready$"
            ) as met:
                await seen.handle.submit(prompt("are you there?"))
            assert not isinstance(met.value, KeptOut), "nothing says that this passes by itself"
            assert Activity.STALLED not in {one.standing.activity for one in seen.of(StandingSeen)}

    run(main())


def _is_unread(seen: StandingSeen) -> bool:
    return (seen.standing.activity, seen.standing.evidence[0].rule) == (Activity.UNKNOWN, "no_profile_fits")


SAYS: Final = r"say() { printf '\033]7501;state=%s:app=mine\033\\' $1; }; "


def test_a_record_of_a_cli_that_declares_no_native_status_is_noted_also_by_who_adopts_it() -> None:
    async def main() -> None:
        async with driving() as driver:
            argv = ("sh", "-c", f"{SAYS} say working; exec sleep 600")
            spec = AgentSpec(agent="mine", driver="terminal", argv=argv)
            handle = await driver.spawn(spec, new_spawn())
            assert [pane.window_name for pane in await list_panes(driver.server)] == ["mine"]
            for is_adopted in (False, True):
                handle = await driver.adopt(spec, handle.spawn_id, handle.where) if is_adopted else handle
                async with reading(handle) as seen:
                    noted = await seen.until(Warned, lambda one: one.kind == "native_status_refused")
                    assert noted.details == {"reason": "undeclared", "excerpt": "working mine"}
                    proofs = [proof.source for one in seen.of(StandingSeen) for proof in one.standing.evidence]
                    assert EvidenceSource.NATIVE_STATUS not in proofs
                    await (handle.stop() if is_adopted else handle.release())

    run(main())


async def _forge_working(pid: int) -> None:
    """Write it as any program there could, again and again: it may fall into the midst of what the agent paints."""
    terminal = os.open(f"/proc/{pid}/fd/1", os.O_WRONLY | os.O_NOCTTY)
    try:
        while True:
            os.write(terminal, b"\x1b]7501;state=working:app=scripted-agent\x1b\\")
            await asyncio.sleep(1.0)
    finally:
        os.close(terminal)


def test_a_forged_working_is_a_doubt_that_ends_and_the_agent_is_quiet_again() -> None:
    async def main() -> None:
        policy = replace(QUICK, monitor=MonitorPolicies(MonitorPolicy(native_doubt_seconds=4)))
        async with driving(policy) as driver, agent(driver) as seen:
            await seen.until(StandingSeen, lambda one: one.standing.is_ready)
            assert seen.handle.process is not None
            writing = asyncio.create_task(_forge_working(seen.handle.process.pid))
            doubted = await seen.until(StandingSeen)
            writing.cancel()
            assert doubted.standing.activity is Activity.UNKNOWN
            assert doubted.standing.evidence[0].rule == NATIVE_CONTRADICTED
            assert (await seen.until(StandingSeen)).standing.is_ready
            assert [one.kind for one in seen.of(Warned)] == ["evidence_disagreement", "native_status_discredited"]

    run(main())


def test_a_hook_of_this_session_is_heard_and_one_of_another_is_not() -> None:
    async def main() -> None:
        spec = AgentSpec(agent="mute", driver="terminal", argv=("sleep", "600"))
        async with driving() as driver, agent(driver, spec) as seen:
            await seen.until(StandingSeen)
            handle, now = seen.handle, asyncio.get_running_loop().time()
            handle._beside._session_id = "ours"
            for session_id, event in (("other", "StopFailure"), ("", "StopFailure"), ("ours", "UserPromptSubmit")):
                payload = {"hook_event_name": event, "session_id": session_id}
                handle.hear_hook(HookHeard(handle.spawn_id, payload, now))
            heard = await seen.until(StandingSeen)
            assert (heard.standing.activity, heard.standing.attention) == (Activity.WORKING, Attention.NONE)
            assert heard.standing.rung is EvidenceSource.HOOK

    run(main())


@pytest.mark.parametrize(
    ("decision", "ending"),
    [
        (Decision(request_id="", is_allowed=True, option_label="Yes, do it"), TurnEnding.NATURAL),
        (Decision(request_id="", is_allowed=True), TurnEnding.NATURAL),
        (Decision(request_id="", is_allowed=False, option_label="No, and stop"), TurnEnding.INTERRUPTED),
        (Decision(request_id="", is_allowed=False), TurnEnding.INTERRUPTED),
    ],
)
def test_an_approval_is_answered_by_the_text_of_an_option(decision: Decision, ending: TurnEnding) -> None:
    async def main() -> None:
        async with driving() as driver, agent(driver) as seen:
            await seen.until(BecameReady)
            await seen.handle.submit(prompt("ask Delete 5s of it?; say Done."))
            asked = await seen.until(ApprovalAsked)
            assert (asked.attention, asked.question) == (Attention.APPROVAL, "Delete 5s of it?")
            assert [(one.label, one.kind) for one in asked.options] == [
                ("Yes, do it", "allow_once"),
                ("No, and stop", "reject_once"),
            ]
            await seen.handle.decide(
                Decision(
                    request_id=asked.request_id, is_allowed=decision.is_allowed, option_label=decision.option_label
                )
            )
            gone = await seen.until(ApprovalGone)
            assert (gone.request_id, gone.is_answered) == (asked.request_id, True)
            assert (await seen.until(TurnEnded)).ending is ending
            with pytest.raises(NotDelivered, match="not open any more"):
                await seen.handle.decide(Decision(request_id=asked.request_id, is_allowed=True))

    run(main())


def test_what_is_told_of_a_turn_rests_on_what_is_seen_of_it_now() -> None:
    async def work() -> None:
        async with driving() as driver, agent(driver) as seen:
            await seen.until(BecameReady)
            await seen.handle.submit(prompt("hang"))
            begun = await seen.until(StandingSeen, lambda one: one.standing.activity is Activity.WORKING)
            assert (begun.standing.rung, begun.rows) == (EvidenceSource.OPERATOR, "")
            later = await seen.until(StandingSeen)
            assert later.standing.activity is Activity.WORKING
            assert later.standing.rung is not EvidenceSource.OPERATOR

    run(work())


def test_an_end_names_its_turn_and_is_never_told_among_the_signs_of_the_next_prompt() -> None:
    async def work() -> None:
        async with driving() as driver, agent(driver) as seen:
            await seen.until(BecameReady)
            await seen.handle.submit(prompt("say half; hang", "trn_old"))
            await seen.handle.interrupt()
            await seen.until(StandingSeen, lambda one: one.standing.activity is Activity.QUIET)
            await seen.handle.submit(prompt("say whole", "trn_new"))
            ended = await seen.until(TurnEnded, lambda one: one.turn_id == "trn_new")
            assert ended.ending is TurnEnding.NATURAL
            reached = [at for at, one in enumerate(seen.all) if isinstance(one, PromptReached)]
            late = [one for one in seen.all[reached[-1] :] if isinstance(one, TurnEnded)]
            assert [one.turn_id for one in late] == ["trn_new"]

    run(work())


def test_each_dialog_is_a_question_of_its_own_though_its_words_are_the_same(tmp_path: Path) -> None:
    """The gate holds the agent until the end of the first was seen: what stands on no captured frame cannot be known,
    and is asked anew (below it is told how)."""
    gates, spec = Gates(tmp_path), replace(scripted(), argv=(*scripted().argv, "--gates", str(tmp_path)))

    async def main() -> None:
        async with driving() as driver, agent(driver, spec) as seen:
            await seen.until(BecameReady)
            await seen.handle.submit(prompt("ask Again?; say One.; gate between; ask Again?; say Two."))
            first = await seen.until(ApprovalAsked)
            await seen.handle.decide(Decision(request_id=first.request_id, is_allowed=True))
            assert (await seen.until(ApprovalGone)).is_answered
            gates.open("between")
            second = await seen.until(ApprovalAsked)
            assert second.request_id != first.request_id
            with pytest.raises(NotDelivered, match="not open any more"):
                await seen.handle.decide(Decision(request_id=first.request_id, is_allowed=True))
            await seen.handle.decide(Decision(request_id=second.request_id, is_allowed=True))
            assert (await seen.until(TurnEnded)).ending is TurnEnding.NATURAL
            assert [gone.is_answered for gone in seen.of(ApprovalGone)] == [True, True]

    run(main())


PATCHED: Final = """
from interlock.testing.scripted_agent import __main__ as program, tui
{patch}
program.main([])
"""
# It takes no Enter in the first moments of a dialog.
DEAF: Final = PATCHED.format(
    patch="""
answer, pressed = tui.Agent.answer, []
def hear(self, now):
    pressed.append(now)
    if len(pressed) > 2:
        answer(self, now)
tui.Agent.answer = hear
"""
)
# It takes a prompt out of the composer, and does nothing about it.
FORGETFUL: Final = PATCHED.format(
    patch="""
def submit(self, now):
    self.draft = ""
tui.Agent.submit = submit
"""
)


def test_a_key_that_was_swallowed_is_pressed_again() -> None:
    async def main() -> None:
        policy = replace(QUICK, answering=AnswerPolicy(gone_within_seconds=3.0))
        spec = replace(scripted(), argv=(sys.executable, "-c", DEAF))
        async with driving(policy) as driver, agent(driver, spec) as seen:
            await seen.until(BecameReady)
            await seen.handle.submit(prompt("ask Go on?; say Yes."))
            asked = await seen.until(ApprovalAsked)
            await seen.handle.decide(Decision(request_id=asked.request_id, is_allowed=True))
            assert (await seen.until(ApprovalGone)).is_answered
            assert (await seen.until(TurnEnded)).ending is TurnEnding.NATURAL

    run(main())


# The next dialog stands there in the frame in which the one before it is gone.
AT_ONCE: Final = PATCHED.format(
    patch="""
answer = tui.Agent.answer
def hear(self, now):
    answer(self, now)
    while self.steps and self.asked is None:
        self.tick(now)
tui.Agent.answer = hear
"""
)


@pytest.mark.parametrize("outcome", ["say One.", "call Bash -> x", "say One.; say Two.; say Three."])
def test_no_key_goes_into_the_next_dialog_of_the_same_words(outcome: str) -> None:
    """What came of the first answer stands above the next dialog: that is no notice, after which a key is repeated."""

    async def main() -> None:
        policy = replace(QUICK, answering=AnswerPolicy(gone_within_seconds=0.3))
        async with (
            driving(policy) as driver,
            agent(driver, replace(scripted(), argv=(sys.executable, "-c", AT_ONCE))) as seen,
        ):
            await seen.until(BecameReady)
            await seen.handle.submit(prompt(f"ask Again?; {outcome}; ask Again?; say Over."))
            first = await seen.until(ApprovalAsked)
            with pytest.raises(DeliveryUnknown):
                await seen.handle.decide(Decision(request_id=first.request_id, is_allowed=True))
            second = await seen.until(ApprovalAsked)
            assert (second.question, bool(second.problem)) == (first.question, True)
            assert not seen.of(TurnEnded), "the second was answered, and nobody decided it"
            # Its end is seen plainly, since the turn is over after it.
            await seen.handle.decide(Decision(request_id=second.request_id, is_allowed=True))
            assert (await seen.until(TurnEnded)).ending is TurnEnding.NATURAL

    run(main())


def test_an_answer_that_is_never_taken_is_not_claimed_and_is_asked_again_with_the_reason() -> None:
    async def main() -> None:
        policy = replace(QUICK, answering=AnswerPolicy(gone_within_seconds=0.1, presses=3))
        spec = replace(scripted(), argv=(sys.executable, "-c", DEAF.replace("> 2", "> 99")))
        async with driving(policy) as driver, agent(driver, spec) as seen:
            await seen.until(BecameReady)
            await seen.handle.submit(prompt("ask Go on?; say Yes."))
            asked = await seen.until(ApprovalAsked)
            with pytest.raises(DeliveryUnknown):
                await seen.handle.decide(Decision(request_id=asked.request_id, is_allowed=True))
            gone = await seen.until(ApprovalGone)
            assert (gone.request_id, gone.is_answered) == (asked.request_id, False)
            again = await seen.until(ApprovalAsked)
            assert (again.question, again.options) == (asked.question, asked.options)
            assert again.request_id != asked.request_id
            assert again.problem == "Enter was pressed, and a dialog of the same words still stands"

    run(main())


@pytest.mark.deep  # as long as a CLI may show nothing after a prompt
def test_a_prompt_of_which_nothing_came_ends_in_silence() -> None:
    async def main() -> None:
        policy = replace(QUICK, typing=TypingPolicy(started_within_seconds=0.5))
        spec = replace(scripted(), argv=(sys.executable, "-c", FORGETFUL))
        async with driving(policy) as driver, agent(driver, spec) as seen:
            await seen.until(BecameReady)
            await seen.handle.submit(prompt("say Yes."))
            assert (await seen.until(TurnEnded, within_seconds=60)).ending is TurnEnding.SILENT
            await seen.until(BecameReady)

    run(main(), 200)


def test_a_dialog_that_somebody_else_answered_is_gone_and_not_by_us() -> None:
    async def main() -> None:
        async with driving() as driver, agent(driver) as seen:
            await seen.until(BecameReady)
            await seen.handle.submit(prompt("ask Go on?; think 1"))
            asked = await seen.until(ApprovalAsked)
            await press(seen, "Enter")
            gone = await seen.until(ApprovalGone)
            assert (gone.request_id, gone.is_answered) == (asked.request_id, False)

    run(main())


def test_nothing_is_typed_into_a_dialog_a_draft_or_a_working_agent() -> None:
    async def main() -> None:
        async with driving() as driver, agent(driver) as seen:
            await seen.until(BecameReady)
            await press(seen, "half a thought")
            await shows(seen, "half a thought")
            with pytest.raises(KeptOut, match=r"^nothing was typed: a draft of somebody stands in the composer$"):
                await seen.handle.submit(prompt("say No."))
            await press(seen, *["BSpace"] * len("half a thought"))
            await shows(seen, "> Ask for something")
            await seen.handle.submit(prompt("think 600"))
            with pytest.raises(KeptOut, match=r"^nothing was typed: the agent is working$"):
                await seen.handle.submit(prompt("say No."))
            await seen.handle.interrupt()
            await seen.until(BecameReady)
            with pytest.raises(NotDelivered, match=r"^nothing was pressed: no turn is open$"):
                await seen.handle.interrupt()
            await seen.handle.submit(prompt("ask Go on?"))
            await seen.until(ApprovalAsked)
            with pytest.raises(KeptOut, match=r"^nothing was typed: a dialog is open$"):
                await seen.handle.submit(prompt("say No."))
            wrong = Decision(request_id=seen.of(ApprovalAsked)[0].request_id, is_allowed=True, option_label="Maybe")
            with pytest.raises(NotDelivered, match="names 0 of the options"):
                await seen.handle.decide(wrong)
            assert "say No." not in str(seen.all)

    run(main())


def test_work_that_we_did_not_send_is_a_surprise_and_its_end_is_told() -> None:
    async def main() -> None:
        async with driving() as driver, agent(driver) as seen:
            await seen.until(BecameReady)
            await press(seen, "think 1", "Enter")
            assert (await seen.until(Warned)).kind == "turn_not_submitted"
            assert (await seen.until(TurnEnded)).ending is TurnEnding.NATURAL

    run(main())


def test_an_error_of_the_agent_is_its_own_end() -> None:
    async def main() -> None:
        async with driving() as driver, agent(driver) as seen:
            await seen.until(BecameReady)
            await seen.handle.submit(prompt("think 1; fail the model is out"))
            ended = await seen.until(TurnEnded)
            assert ended.ending is TurnEnding.ERROR
            assert "the model is out" in ended.error_message

    run(main())


def test_an_agent_that_leaves_by_itself_is_gone_with_its_code() -> None:
    async def main() -> None:
        async with driving() as driver:
            handle = await driver.spawn(scripted(), new_spawn())
            async with reading(handle) as seen:
                await seen.until(BecameReady)
                await handle.submit(prompt("think 1; exit 7"))
                await seen.end()
                *_, gone, exited = (one for one in seen.all if not isinstance(one, ScreenLeft))
                assert isinstance(gone, StandingSeen)
                assert gone.standing.activity is Activity.GONE
                assert isinstance(exited, Exited)
                assert (exited.code, exited.signal) == (7, None)
                assert seen.of(TurnEnded) == []
            await left_nothing(driver, seen)
            assert (await handle.stop()).survivors == ()

    run(main())


@pytest.mark.parametrize("victim", ["agent", "shim"])
def test_an_agent_that_is_killed_at_work_is_gone_by_the_signal(victim: str) -> None:
    async def main() -> None:
        async with driving() as driver:
            handle = await driver.spawn(scripted(), new_spawn())
            async with reading(handle) as seen:
                await seen.until(BecameReady)
                await handle.submit(prompt("think 600"))
                where = read_where(handle.where)
                os.kill(where.pid if victim == "agent" else where.pane_pid, signal.SIGKILL)
                exited = await seen.until(Exited)
                # Nobody saw how the agent ended where its own parent was killed.
                assert (exited.code, exited.signal) == (None, signal.SIGKILL if victim == "agent" else None)
                await seen.end()
            await left_nothing(driver, seen)

    run(main())


def test_a_dead_tmux_server_is_told_and_then_the_end_of_its_agent() -> None:
    async def main() -> None:
        async with driving() as driver:
            handle = await driver.spawn(scripted(), new_spawn())
            async with reading(handle) as seen:
                await seen.until(BecameReady)
                await handle.submit(prompt("think 600"))
                await driver.server.kill()
                await seen.until(ChannelLost)
                await seen.until(Exited)
                await seen.end()
                with pytest.raises(NotDelivered):
                    await handle.submit(prompt("say No."))
            await left_nothing(driver, seen)

    run(main())


def test_a_stop_ends_the_agent_its_children_and_its_pane() -> None:
    async def main() -> None:
        async with driving() as driver:
            argv = ("sh", "-c", "setsid sleep 600 & exec sleep 600")
            handle = await driver.spawn(AgentSpec(agent="sleeper", driver="terminal", argv=argv), new_spawn())
            async with reading(handle) as seen:
                await seen.until(Warned, lambda one: one.kind == "no_profile")
                report, again = await asyncio.gather(handle.stop(), handle.stop())
                assert report is again
                assert sum("sleep" in ended.command for ended in report.ended) >= 2
                assert report.survivors == ()
                await seen.until(Exited)
                await seen.end()
            await left_nothing(driver, seen)
            with pytest.raises(NotDelivered):
                await handle.interrupt()

    run(main())


def test_an_idle_agent_is_left_by_its_own_keys() -> None:
    async def main() -> None:
        async with driving() as driver:
            handle = await driver.spawn(scripted(), new_spawn())
            async with reading(handle) as seen:
                await seen.until(BecameReady)
                await handle.stop()
                assert (await seen.until(Exited)).code == 0

    run(main())


def test_a_turn_goes_on_while_nobody_watches_and_is_followed_to_its_end_by_another_driver() -> None:
    async def main() -> None:
        async with driving() as driver:
            first = await driver.spawn(scripted(), new_spawn())
            async with reading(first) as seen:
                await seen.until(BecameReady)
                await first.submit(prompt("think 2; say Yes."))
                await first.release()
                await seen.end()
                assert seen.of(Exited) == []
            with pytest.raises(NotDelivered):
                await first.submit(prompt("say No."))
            assert first.process is not None
            assert is_alive(first.process)

            other = TerminalDriver(driver.run_folder, driver.server, QUICK, driver.profiles)
            second = await other.adopt(scripted(), first.spawn_id, first.where)
            assert (second.process, second.where) == (first.process, first.where)
            async with reading(second) as seen:
                await seen.until(StandingSeen, lambda one: one.standing.activity is Activity.WORKING)
                assert (await seen.until(TurnEnded)).ending is TurnEnding.NATURAL
                await seen.until(BecameReady)
                assert seen.of(Warned) == []
                await second.submit(prompt("ask Go on?"))
                asked = await seen.until(ApprovalAsked)
                await second.decide(Decision(request_id=asked.request_id, is_allowed=True))
                await seen.until(TurnEnded)
                await second.stop()
            await left_nothing(driver, seen)

    run(main())


def test_a_dialog_that_was_open_is_asked_again_under_another_id() -> None:
    async def main() -> None:
        async with driving() as driver:
            first = await driver.spawn(scripted(), new_spawn())
            async with reading(first) as seen:
                await seen.until(BecameReady)
                await first.submit(prompt("ask Go on?"))
                before = await seen.until(ApprovalAsked)
                await first.release()
            second = await driver.adopt(scripted(), first.spawn_id, first.where)
            async with reading(second) as seen:
                asked = await seen.until(ApprovalAsked)
                assert (asked.question, asked.options) == (before.question, before.options)
                assert asked.request_id != before.request_id
                await second.decide(Decision(request_id=asked.request_id, is_allowed=False))
                assert (await seen.until(TurnEnded)).ending is TurnEnding.INTERRUPTED
                await second.stop()

    run(main())


def test_only_that_very_process_is_adopted() -> None:
    async def main() -> None:
        async with driving() as driver:
            first = await driver.spawn(scripted(), new_spawn())
            await first.release()
            where = first.where
            assert isinstance(where, dict)
            wrongs: list[dict[str, Json]] = [
                {"started": "1"},
                {"pane_started": "1", "pid": 2**22},
                {"pane_id": "%99", "pid": 2**22},
            ]
            with pytest.raises(Unreachable, match="lives, but its terminal"):
                await driver.adopt(scripted(), first.spawn_id, {**where, "pane_id": "%99"})
            for wrong in wrongs:
                with pytest.raises(AgentGone):
                    await driver.adopt(scripted(), first.spawn_id, {**where, "is_own": False, **wrong})
            with pytest.raises(UsageError):
                await driver.adopt(scripted(), first.spawn_id, {"pane": 1})
            second = await driver.adopt(scripted(), first.spawn_id, where)
            await second.stop()
            with pytest.raises(AgentGone):
                await driver.adopt(scripted(), first.spawn_id, where)

    run(main())


def test_a_pane_of_somebody_else_is_driven_and_left_to_them() -> None:
    async def main() -> None:
        async with driving() as driver:
            shell = ["sh", "-c", f"set -m; {' '.join(SCRIPTED)}; exec sleep 600"]
            info = await start_pane(driver.server, shell)
            async with asyncio.timeout(100):
                while SCRIPTED[-1] not in (foreground_argv(info.identity.pid) or ()):  # noqa: ASYNC110
                    await asyncio.sleep(0.02)
            spec = AgentSpec(agent="mine", driver="terminal")
            where: dict[str, Json] = {"socket": driver.server.socket, "pane_id": info.pane_id, "control": True}
            handle = await driver.adopt(spec, new_spawn(), where)
            async with reading(handle) as seen:
                await seen.until(BecameReady)
                assert read_where(handle.where).cli == "scripted"
                await handle.submit(prompt("think 1; say Yes."))
                assert (await seen.until(TurnEnded)).ending is TurnEnding.NATURAL
                await handle.stop()
                assert await pane_count(driver) == 1

    run(main())


def test_what_cannot_start_raises_and_leaves_nothing_behind() -> None:
    async def main() -> None:
        async with driving() as driver:
            spec = scripted()
            for wrong in (
                replace(spec, argv=()),
                replace(spec, argv=("no-such-program",)),
                replace(spec, cwd="/no/such/folder"),
                replace(spec, options={"colour": "red"}),
                replace(spec, resume="ses_1"),
                replace(spec, model="gpt"),
            ):
                with pytest.raises(UsageError):
                    await driver.spawn(wrong, new_spawn())
            at_once = replace(spec, argv=("sh", "-c", "echo the key is missing; exit 3"), agent="sh")
            with pytest.raises(PeerFault, match="the key is missing"):
                await driver.spawn(at_once, new_spawn())
            assert await pane_count(driver) == 0
            assert list(driver.run_folder.iterdir()) == []

    run(main())


def test_a_spawn_that_is_cancelled_leaves_nothing_behind() -> None:
    async def main() -> None:
        async with driving() as driver:
            for delay_seconds in (0.0, 0.02, 0.05, 0.1, 0.2):
                spawning = asyncio.create_task(driver.spawn(scripted(), new_spawn()))
                await asyncio.wait({spawning}, timeout=delay_seconds)
                if spawning.cancel():
                    await asyncio.gather(spawning, return_exceptions=True)
                else:
                    await spawning.result().stop()  # it was faster
                assert await pane_count(driver) == 0
                assert list(driver.run_folder.glob("*")) == []

    run(main())


def test_an_agent_knows_nothing_of_what_was_given_to_another() -> None:
    async def main() -> None:
        async with driving() as driver:
            argv = ("sh", "-c", "env | grep -E '^(MARK|INTERLOCK_SPAWN_ID)' | sort; exec sleep 600")
            spec = AgentSpec(agent="sh", driver="terminal", argv=argv)
            first = await driver.spawn(replace(spec, environment={"MARK_ONE": "1"}), new_spawn())
            second = await driver.spawn(replace(spec, environment={"MARK_TWO": "2"}), new_spawn())
            async with reading(first) as one, reading(second) as two:
                await shows(one, "MARK_ONE=1")
                await shows(two, "MARK_TWO=2")
                screens = [
                    await driver.server.run(["capture-pane", "-p", "-t", read_where(each.where).pane_id])
                    for each in (first, second)
                ]
            assert screens[0].split() == [f"INTERLOCK_SPAWN_ID={first.spawn_id}", "MARK_ONE=1"]
            assert screens[1].split() == [f"INTERLOCK_SPAWN_ID={second.spawn_id}", "MARK_TWO=2"]
            await first.stop()
            assert second.process is not None
            assert is_alive(second.process)
            await second.stop()
            assert await pane_count(driver) == 0

    run(main())


async def left_nothing(driver: TerminalDriver, seen: Seen) -> None:
    """No process of the agent, no pane, no socket. (Exited is told before the pane is closed.)"""
    process = seen.handle.process
    assert process is not None
    async with asyncio.timeout(100):
        while is_alive(process) or await pane_count(driver) or list(driver.run_folder.iterdir()):  # noqa: ASYNC110
            await asyncio.sleep(0.02)
