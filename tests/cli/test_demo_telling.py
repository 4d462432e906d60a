"""Who tells the story, and what ends it: on frames that a test hands over."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Coroutine
from pathlib import Path
from typing import Any, cast

import pytest

from interlock.cli import output
from interlock.cli.demo import run as demo_run
from interlock.cli.demo import teller as demo_teller
from interlock.cli.demo.acts import Stage, _telling
from interlock.cli.demo.cast import GREET, Part
from interlock.cli.demo.server import _base
from interlock.cli.demo.teller import Teller
from interlock.client.client import Client
from interlock.client.task import TaskHandle
from interlock.vocabulary.events.presenter import Status
from interlock.vocabulary.ids import SessionId
from interlock.vocabulary.states import Activity
from interlock.vocabulary.wire.frames import AgentStatusChanged, TaskFrame

HOME = Path("home")


def is_now(activity: Activity) -> AgentStatusChanged:
    return AgentStatusChanged(task_id=SessionId("ses_1"), version=1, tick=1, status=Status(activity=activity))


class Handle:
    """A task whose frames are put in by a test."""

    def __init__(self) -> None:
        self.waiting: asyncio.Queue[TaskFrame | Exception] = asyncio.Queue()
        self.has_history = False

    async def frames(self, *, history: bool) -> AsyncIterator[TaskFrame]:
        self.has_history = history
        while True:
            frame = await self.waiting.get()
            if isinstance(frame, Exception):
                raise frame
            yield frame

    async def wait(self, _until: object, seconds: float) -> None:
        raise TimeoutError(f"not within {seconds:g} s")


def as_task(handle: Handle) -> TaskHandle:
    return cast("TaskHandle", handle)


@pytest.fixture(autouse=True)
def _no_breath(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo_teller, "_BREATH_SECONDS", 0)


async def settle(handle: Handle) -> None:
    """Until the frames that were put in are taken, and whoever took the last one came as far as it can."""
    for _ in range(50):
        await asyncio.sleep(0)
    assert handle.waiting.empty()


def test_frames_wait_while_a_command_prints(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    has_begun, may_end = threading.Event(), threading.Event()

    def command(tokens: list[str]) -> int:
        output.print_text(f"begin {tokens}")
        has_begun.set()
        assert may_end.wait(10)
        output.note("a note of it")
        output.print_text("end")
        return 3

    async def story() -> int:
        handle, teller = Handle(), Teller(HOME, is_json=False)
        teller.follow(as_task(handle), "one")
        handle.waiting.put_nowait(is_now(Activity.WORKING))
        await settle(handle)
        running = asyncio.create_task(teller.run("ps"))
        await asyncio.to_thread(has_begun.wait, 10)
        handle.waiting.put_nowait(is_now(Activity.QUIET))
        await settle(handle)
        may_end.set()
        code = await running
        await settle(handle)
        await teller.close()
        assert handle.has_history
        return code

    monkeypatch.setattr("interlock.cli.main", command)
    assert asyncio.run(story()) == 3
    lines = [line[9:] if "s  one" in line else line for line in capsys.readouterr().out.splitlines()]
    assert lines == [
        "one       is working",
        "",
        "$ interlock ps",
        "begin ['ps', '--home', 'home']",
        "a note of it",
        "end",
        "",
        "one       is quiet",
    ]


def test_for_a_script_there_is_one_object_a_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def command(tokens: list[str]) -> int:
        output.print_json({"command": tokens})
        return 0

    async def story() -> None:
        handle, teller = Handle(), Teller(HOME, is_json=True)
        teller.follow(as_task(handle), "one")
        handle.waiting.put_nowait(is_now(Activity.WORKING))
        handle.waiting.put_nowait(is_now(Activity.WORKING))  # no news
        await settle(handle)
        await teller.say("these words are for people")
        await teller.run("ps")
        await teller.close()

    monkeypatch.setattr("interlock.cli.main", command)
    asyncio.run(story())
    frame, ran = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert (frame["title"], frame["told"], frame["frame"]["type"]) == ("one", "is working", "agent:status")
    assert ran == {"command": ["ps", "--home", "home", "--json"]}


def test_whoever_cannot_be_told_any_more_ends_the_story_at_once() -> None:
    async def story() -> None:
        handle = Handle()
        async with _telling(Teller(HOME, is_json=False)) as teller:
            teller.follow(as_task(handle), "one")
            handle.waiting.put_nowait(BrokenPipeError("nobody reads"))
            await asyncio.wait_for(asyncio.Event().wait(), 100)

    with pytest.raises(BrokenPipeError, match="nobody reads"):
        asyncio.run(story())


def test_a_scene_that_does_not_come_ends_the_demo_as_timed_out(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    async def scene(**_: bool) -> int:
        stage = Stage(cast("Client", None), tmp_path, has_tmux=False)
        stage.handles[GREET.title] = as_task(Handle())
        await stage.all_until([GREET], lambda _: True)
        return 0

    monkeypatch.setattr(demo_run, "_tell", scene)
    assert demo_run.tell_story(has_tmux=False, json=False) == 5
    assert "not within 40 s" in capsys.readouterr().err


def test_a_part_gets_its_prompts_in_order(tmp_path: Path) -> None:
    asked: dict[str, Any] = {}
    sent: list[str] = []

    class Opened:
        async def send(self, text: str) -> None:
            sent.append(text)

    class Opening:
        def open_task(self, **given: object) -> Coroutine[Any, Any, Opened]:
            async def opened() -> Opened:
                asked.update(given)
                return Opened()

            return opened()

    part = Part(title="one", prompt="first", next_prompt="second", script="say hi", policy={"max_tokens": 1})
    stage = Stage(cast("Client", Opening()), tmp_path, has_tmux=True)
    asyncio.run(_enter(stage, part))
    assert sent == ["first", "second"]
    assert (asked["driver"], asked["title"], asked["policy"]) == (part.driver, "one", {"max_tokens": 1})
    assert asked["argv"][0] == "sh"
    assert Path(asked["argv"][1]).is_relative_to(tmp_path)


async def _enter(stage: Stage, part: Part) -> None:
    await stage.enter(part)


def test_the_folder_of_a_demo_has_a_short_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", "/x" * 30)
    assert len(str(_base())) < 30
    monkeypatch.setattr("tempfile.tempdir", "/x")
    assert _base() == Path("/x")
