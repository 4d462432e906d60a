"""Panes of a real tmux, tracked: whose verdict it is, what is told beside the screen, deadlines, and the end."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from typing import Final

from interlock.agents.pane_tracker import LiveVerdict, PaneTracker
from interlock.agents.profiles import builtin_profiles
from interlock.agents.tmux.capture import PaneCapture
from interlock.agents.tmux.typing import TypedTurn, type_prompt
from interlock.agents.tmux.watcher import PaneSeen
from interlock.monitor.arbitration.claims import Claim
from interlock.monitor.observation import Arrival
from interlock.monitor.policy import MonitorPolicy
from interlock.monitor.tracker import TrackerEvent, TuiTrackerSession, Verdict
from interlock.screen.selection import GENERIC, select_reader
from interlock.screen.snapshot import read_snapshot
from interlock.vocabulary.evidence import EvidenceSource
from interlock.vocabulary.states import Activity
from tests.agents.tmux.harness import stage
from tests.contract.harness import run

AGENT: Final = (sys.executable, "-m", "interlock.testing.scripted_agent")
SCRIPTED: Final = select_reader(builtin_profiles(), "scripted")
RULE: Final = "─" * 40
READY: Final = read_snapshot(f"{RULE}\n> \n{RULE}", columns=40, title="scripted - ready")
HASTY: Final = MonitorPolicy(watched_gap_seconds=0.2)


async def until(tracker: PaneTracker, holds: Callable[[LiveVerdict], bool]) -> LiveVerdict:
    async with asyncio.timeout(100):
        async for live in tracker:
            if holds(live):
                return live
    raise AssertionError("no pane is left")


def hook(at: float) -> Claim:
    return Claim(rung=EvidenceSource.HOOK, at_seconds=at, rule="hook.UserPromptSubmit", activity=Activity.WORKING)


def test_each_pane_has_a_session_and_verdicts_of_its_own() -> None:
    async def main() -> None:
        async with stage(*AGENT) as on, PaneTracker() as tracker:
            panes = [on.pane, await on.start(*AGENT)]
            for pane in panes:
                tracker.add(pane, TuiTrackerSession(SCRIPTED))
            for _ in panes:
                await until(tracker, lambda live: TrackerEvent.READY in live.verdict.events)
            for pane, prompt in zip(panes, ("think 600", "ask Shall I?"), strict=True):
                await type_prompt(pane, prompt, SCRIPTED.parse_snapshot)
            asked = await until(tracker, lambda live: TrackerEvent.BLOCKED in live.verdict.events)
            assert asked.pane_id == panes[1].pane_id
            at_work = await until(tracker, lambda live: live.pane_id == panes[0].pane_id)
            assert at_work.verdict.activity == "working"

    run(main())


def test_what_is_told_is_taken_in_although_the_pane_shows_nothing() -> None:
    async def main() -> None:
        async with stage() as on, PaneTracker() as tracker:
            tracker.add(on.pane, TuiTrackerSession(select_reader(builtin_profiles(), GENERIC)))
            # The first times tmux may still report on the new pane. Later on nothing else ends the wait.
            for _ in range(8):
                waiting = asyncio.create_task(until(tracker, lambda live: live.cause is None))
                await on.client.command("display-message", "-p", "")
                tracker.tell(on.pane.pane_id, lambda session, now: session.on_claims([hook(now)], now))
                assert (await waiting).verdict.activity == "working"

    run(main())


def test_a_deadline_of_what_was_told_is_kept() -> None:
    async def main() -> None:
        async with stage() as on, PaneTracker() as tracker:
            tracker.add(on.pane, TuiTrackerSession(select_reader(builtin_profiles(), GENERIC), HASTY))
            await until(tracker, lambda live: live.cause is not None)
            tracker.tell(on.pane.pane_id, lambda session, now: session.on_claims([hook(now)], now))
            told = await until(tracker, lambda live: live.verdict.activity == "working")
            # A hook that nothing else supports is not believed for ever, and nothing but the clock can end it.
            over = await until(tracker, lambda live: live.verdict.activity != "working")
            assert over.cause is None
            assert over.verdict.at_seconds >= told.verdict.at_seconds + HASTY.watched_gap_seconds

    run(main())


def test_what_is_told_comes_before_what_the_pane_shows_later() -> None:
    async def main() -> None:
        async with stage(*AGENT) as on, PaneTracker() as tracker:
            tracker.add(on.pane, TuiTrackerSession(SCRIPTED))
            await until(tracker, lambda live: live.verdict.standing.is_ready)

            def submitted(session: TuiTrackerSession, now: float) -> Verdict:
                return session.on_submit(now, "say Yes.")

            typing = asyncio.create_task(
                type_prompt(
                    on.pane,
                    "say Yes.",
                    SCRIPTED.parse_snapshot,
                    turn=TypedTurn(lambda: tracker.tell(on.pane.pane_id, submitted)),
                )
            )
            opened = await until(tracker, lambda live: live.verdict.turn is not None)
            assert (opened.cause, opened.verdict.turn and opened.verdict.turn.source) == (None, "submitted")
            await until(tracker, lambda live: TrackerEvent.COMPLETED in live.verdict.events)
            assert (await typing).accepted

    run(main())


def test_tracking_ends_with_the_last_pane() -> None:
    async def main() -> list[TrackerEvent]:
        async with stage() as on, PaneTracker() as tracker:
            pane = await on.start("sh", "-c", "exec sleep 600")
            tracker.add(pane, TuiTrackerSession(SCRIPTED))
            await until(tracker, lambda live: live.cause is not None)
            await pane.kill()
            async with asyncio.timeout(100):
                return [event async for live in tracker for event in live.verdict.events]

    assert run(main()) == [TrackerEvent.GONE]


def test_when_the_session_of_a_pane_goes_the_last_word_on_it_is_no_claim() -> None:
    async def main() -> LiveVerdict:
        async with stage(*AGENT) as on, PaneTracker() as tracker:
            tracker.add(on.pane, TuiTrackerSession(SCRIPTED))
            await until(tracker, lambda live: live.verdict.standing.is_ready)
            await on.client.command("kill-session", "-t", on.client.session_id)
            async with asyncio.timeout(100):
                return [live async for live in tracker][-1]

    last = run(main())
    assert last.verdict.activity in ("unknown", "gone"), last


def test_a_session_that_fails_is_of_its_pane_alone() -> None:
    async def main() -> None:
        tracker, now, failed = PaneTracker(), asyncio.get_running_loop().time(), list[tuple[str, str]]()
        tracker._on_failure = lambda pane_id, error: failed.append((pane_id, str(error)))
        broken, whole = TuiTrackerSession(SCRIPTED), TuiTrackerSession(SCRIPTED)
        broken.on_snapshot = broken.on_timer = None  # type: ignore[assignment, method-assign]
        tracker._sessions = {"%1": broken, "%2": whole}
        for pane_id in ("%1", "%2", "%1"):
            tracker._see(PaneSeen(PaneCapture(pane_id, "@1", READY, 7, None, None, 0, now), Arrival.RECONNECTED, now))
        assert [live.pane_id for live in tracker._verdicts] == ["%2"]
        assert failed == [("%1", "'NoneType' object is not callable")]
        tracker._take_in("%1", lambda session, at: session.on_timer(at))
        assert len(failed) == 1, "what failed takes in nothing more"

    run(main())


def test_a_screen_that_had_to_wait_for_its_capture_stands_since_its_last_change() -> None:
    """An idle must stand for a while; the time in which its capture waited for others is a part of that."""

    async def main() -> None:
        tracker, now = PaneTracker(), asyncio.get_running_loop().time()
        tracker._sessions["%1"] = TuiTrackerSession(SCRIPTED)

        def see(arrival: Arrival, since_seconds: float) -> float:
            tracker._see(PaneSeen(PaneCapture("%1", "@1", READY, 7, None, None, 0, now), arrival, since_seconds))
            return tracker._verdicts.pop().verdict.at_seconds

        assert see(Arrival.RECONNECTED, now - 9) >= now
        seen_at = tracker._latest["%1"]
        assert see(Arrival.PUSHED, seen_at + 5) == seen_at + 5
        assert see(Arrival.PUSHED, seen_at + 1) == seen_at + 5, "time does not go back"

    run(main())


def test_a_deadline_waits_for_what_its_own_pane_shows_and_not_for_the_others() -> None:
    """Where many panes stop together their captures come one after the other, and each idle is due at its own time."""

    async def main() -> None:
        tracker, now = PaneTracker(), asyncio.get_running_loop().time()
        tracker._sessions = {pane_id: TuiTrackerSession(SCRIPTED) for pane_id in ("%1", "%2")}
        tracker._deadlines = {"%1": now - 1, "%2": now - 1}
        seen = PaneSeen(PaneCapture("%2", "@1", READY, 7, None, None, 0, now), Arrival.PUSHED, now)
        tracker._watch._tell(seen)
        first, second = await anext(tracker), await anext(tracker)
        assert (first.pane_id, first.cause) == ("%1", None)
        assert (second.pane_id, second.cause) == ("%2", seen)

    run(main())
