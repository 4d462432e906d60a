"""The files beside an agent's screen: whose they are, and which answer belongs to our prompt."""

from __future__ import annotations

import asyncio
import json
import os
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from interlock.agents.evidence.transcripts import TranscriptReader
from interlock.agents.observations import Observation, SessionNamed
from interlock.agents.pane_tracker import Told
from interlock.agents.port import ProcessIdentity
from interlock.agents.terminal.side_files import Beside, Fence, agent_home, open_rollouts
from interlock.vocabulary.ids import SpawnId, TurnId
from tests.contract.harness import run
from tests.held_time import clock, run_held, until

SELF: Final = ProcessIdentity(os.getpid(), "1")
RECORDED: Final = Path(__file__).parents[2] / "recordings" / "transcripts"
SESSION: Final = "0f0e0d0c-1111-2222-3333-444455556666"


def test_the_home_of_an_agent_is_that_of_its_own_environment() -> None:
    assert agent_home("claude", {"HOME": "/h"}) == "/h/.claude"
    assert agent_home("claude", {"HOME": "/h", "CLAUDE_CONFIG_DIR": "/c"}) == "/c"
    assert agent_home("codex", {"CODEX_HOME": "/x"}) == "/x"
    assert agent_home("scripted", {"HOME": "/h"}) == ""


def test_the_session_is_named_by_the_status_file_of_its_process(tmp_path: Path) -> None:
    (tmp_path / "sessions").mkdir()
    transcript = tmp_path / "projects" / "here" / f"{SESSION}.jsonl"
    transcript.parent.mkdir(parents=True)
    transcript.touch()
    told: list[Told] = []
    seen: list[Observation] = []

    async def main() -> None:
        beside = Beside("claude", str(tmp_path), SELF, SpawnId("spn_1"))
        status = {"status": "busy", "sessionId": SESSION, "statusUpdatedAt": time.time() * 1000}
        (tmp_path / "sessions" / f"{SELF.pid}.json").write_text(json.dumps(status))
        following = asyncio.create_task(beside.follow(told.append, seen.append))
        async with asyncio.timeout(100):
            while not seen:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
        assert beside.session_id == SESSION

    run(main())
    assert seen == [SessionNamed(native_session_id=SESSION, transcript_path=str(transcript))]
    assert len(told) == 1


def test_a_transcript_of_codex_is_the_one_that_its_process_holds_open(tmp_path: Path) -> None:
    other, ours = tmp_path / f"rollout-1-{SESSION[:-1]}7.jsonl", tmp_path / f"rollout-2-{SESSION}.jsonl"
    other.touch()
    assert open_rollouts(SELF.pid) == []
    with ours.open("w"):
        assert open_rollouts(SELF.pid) == [ours]
        newer = tmp_path / f"rollout-3-{SESSION}.jsonl"
        with newer.open("w"):
            assert open_rollouts(SELF.pid) == [newer, ours]
    assert open_rollouts(2**22) == []


def test_an_answer_is_that_of_our_prompt_and_of_a_turn_that_began_after_it(tmp_path: Path) -> None:
    recorded = (RECORDED / "codex-turns.jsonl").read_text("utf-8")

    async def main() -> None:
        path = tmp_path / f"rollout-2-{SESSION}.jsonl"
        with path.open("a") as held:
            beside = Beside("codex", str(tmp_path), SELF, SpawnId("spn_1"))
            prompt = _first_prompt(tmp_path, recorded)
            beside.sent(prompt, await beside.fence())
            held.write(recorded)
            held.flush()
            assert await beside.answer() is not None
            beside.sent(prompt, await beside.fence())  # the same words again
            assert await beside.answer() is None
            beside.sent("never asked", Fence())
            assert await beside.answer() is None

    run(main())


def codex_turn(prompt: str, answer: str, at: float, *, is_over: bool = True) -> str:
    """One turn of a rollout, begun at that time."""
    date = datetime.fromtimestamp(at, UTC).isoformat()
    told = [
        {"type": "task_started", "turn_id": answer},
        {"type": "user_message", "message": prompt},
        {"type": "task_complete", "turn_id": answer, "last_agent_message": answer},
    ]
    said = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": answer}]}
    events = [{"timestamp": date, "type": "event_msg", "payload": one} for one in told[: 3 if is_over else 2]]
    events.insert(2, {"timestamp": date, "type": "response_item", "payload": said})
    return "".join(json.dumps(one) + "\n" for one in events)


def test_after_a_clear_the_answer_of_codex_is_in_the_other_file_that_it_holds_open(tmp_path: Path) -> None:
    async def main() -> None:
        beside = Beside("codex", str(tmp_path), SELF, SpawnId("spn_1"))
        first, second = tmp_path / f"rollout-1-{SESSION}.jsonl", tmp_path / f"rollout-2-{SESSION[:-1]}7.jsonl"
        with first.open("a") as held:
            held.write(codex_turn("do it", "Old.", time.time() - 100))
            held.flush()
            beside.sent("do it", await beside.fence())
            second.write_text(codex_turn("do it", "Older.", time.time() - 50), "utf-8")
            with second.open("a") as cleared:
                assert await beside.answer() is None
                cleared.write(codex_turn("do it", "New.", time.time()))
                cleared.flush()
                assert await beside.answer() == "New."
            assert beside.session_id == f"{SESSION[:-1]}7"

    run(main())


def test_the_end_of_our_prompt_is_told_once_and_not_the_end_of_an_older_one(tmp_path: Path) -> None:
    """Nor that of one whose end is not written yet."""

    async def main() -> None:
        beside = Beside("codex", str(tmp_path), SELF, SpawnId("spn_1"))
        told: list[Told] = []
        steps: list[str] = []
        with (tmp_path / f"rollout-1-{SESSION}.jsonl").open("a") as held:
            following = asyncio.create_task(beside.follow(told.append, lambda one: steps.append(type(one).__name__)))

            async def written(text: str) -> None:
                before = steps.count("Progressed")
                held.write(text)
                held.flush()
                async with asyncio.timeout(100):
                    while steps.count("Progressed") == before:  # noqa: ASYNC110
                        await asyncio.sleep(0.01)
                await asyncio.sleep(0)

            await written(codex_turn("do it", "Old.", time.time()))
            beside.sent("do it", await beside.fence(), TurnId("trn_1"))
            await written(codex_turn("something else", "Else.", time.time()))
            assert told == []
            await written(codex_turn("do it", "New.", time.time(), is_over=False))
            assert told == []
            beside.near_end(is_near=True)
            held.write(codex_turn("do it", "New.", time.time()).splitlines()[-1] + "\n")
            held.flush()
            async with asyncio.timeout(100):
                while not told:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
            await written(codex_turn("do it", "Again.", time.time()))
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)
        assert len(told) == 1

    run(main())


def test_an_end_that_may_come_is_looked_for_at_once_and_then_with_pauses(tmp_path: Path) -> None:
    async def main() -> None:
        looks, beside = [0], Beside("codex", str(tmp_path), SELF, SpawnId("spn_1"))
        caught_up = beside._caught_up

        async def counted() -> TranscriptReader | None:
            looks[0] += 1
            return await caught_up()

        beside._caught_up = counted  # type: ignore[method-assign]
        following = asyncio.create_task(beside.follow(lambda _: None, lambda _: None))
        await until(lambda: looks[0] == 1)
        beside.near_end(is_near=True)
        await until(lambda: looks[0] == 2)
        for _ in range(20):  # the clock stands still: nobody looks again
            await beside.fence()
        assert looks[0] == 2 + 20, "each fence is a look"
        await clock().advance_past(0.03)
        await until(lambda: looks[0] == 3 + 20)
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)

    run_held(main())


def _first_prompt(folder: Path, recorded: str) -> str:
    copy = folder / "copy.jsonl"
    copy.write_text(recorded, "utf-8")
    reader = TranscriptReader("codex", copy)
    reader.poll()
    return next(turn.prompts[0] for turn in reader.turns if turn.ending == "natural" and turn.answer)


def test_an_agent_without_files_that_we_know_has_no_answer() -> None:
    assert run(Beside("scripted", "", SELF, SpawnId("spn_1")).answer()) is None
    assert run(Beside("claude", "", SELF, SpawnId("spn_1")).answer()) is None
