"""Who tells the story of `interlock demo`: frames of the server as they come, and commands with what they print.

Law: a command's words are not mixed with frames that come meanwhile; these are told after it.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec

from interlock.cli import output
from interlock.cli.tables import Tone
from interlock.cli.wire.json_answers import frame_json
from interlock.client.task import TaskHandle
from interlock.vocabulary.ending_words import repeats
from interlock.vocabulary.events.presenter import Status
from interlock.vocabulary.states import Attention, TaskStatus
from interlock.vocabulary.wire.approval import Approval
from interlock.vocabulary.wire.frames import (
    AgentStatusChanged,
    ApprovalClosed,
    ApprovalDecided,
    ApprovalOpened,
    ChatMessage,
    Message,
    MessageStatus,
    Role,
    TaskFrame,
    TaskStatusChanged,
)

# Frames of a task as lines of a story. Pure: what is told is what a frame says, and a frame that says nothing new to a
# person is not told.

QUOTED_LENGTH: Final = 72
_ENDS: Final = (TaskStatus.COMPLETED, TaskStatus.FAILED, TaskStatus.CANCELLED)


def tell(frame: TaskFrame, before: Status | None = None) -> str | None:
    """What a person should hear of a frame; None for the rest. `before` is how the agent was seen last."""
    match frame:
        case ChatMessage(message=message):
            return _message(message)
        case AgentStatusChanged(status=status):
            return None if before is not None and axes(before) == axes(status) else _status(status)
        case ApprovalOpened(approval=approval):
            return f"asks ({approval.attention.value}): {approval.question}{_options(approval)}"
        case ApprovalDecided(approval=approval):
            return f"was answered by {approval.decided_by or 'somebody'}: {approval.outcome}"
        case ApprovalClosed(approval=approval):
            return f"the question is over: {approval.outcome or 'it is not known how'}"
        case TaskStatusChanged(task_status=status) if status in _ENDS:
            return f"the task is {status.value}"
        case _:
            return None


def axes(status: Status) -> tuple[str, str]:
    """What it does and what it needs. Evidence may change while these do not."""
    return status.activity.value, status.attention.value


def _status(status: Status) -> str:
    needs = "" if status.attention is Attention.NONE else f", needs {status.attention.value}"
    proofs = [proof.rule or proof.where for proof in status.evidence[:1]]
    return f"is {status.activity.value}{needs}{f'  [{proofs[0]}]' if proofs and proofs[0] else ''}"


def _message(message: Message) -> str:
    status = "" if message.status is MessageStatus.COMPLETED else message.status.value
    label = f" [{message.label or status}]" if message.label or status else ""
    said = _quoted(message.text)
    match message.role:
        case Role.USER:
            return f"you{label}: {said}"
        case Role.TOOL:
            kind = "tool" if message.kind is None else message.kind.value
            return f"{kind} {message.name}: {message.label or message.status.value}"
        case Role.END:
            kind = "" if repeats(message.status, message.error_kind) else f" ({message.error_kind})"
            return f"the turn ended: {message.status.value}{kind}{f': {said}' if message.text else ''}"
        case Role.ANSWER | Role.COMMENTARY:
            seen = "" if message.is_verified or message.label else " [read off the screen]"
            return f"agent{label}{seen}: {said}"


def _quoted(text: str) -> str:
    line = " ".join(text.split())
    shown = line if len(line) <= QUOTED_LENGTH else f"{line[: QUOTED_LENGTH - 3]}..."
    return f'"{shown}"' if line else "no words"


def _options(approval: Approval) -> str:
    labels = " | ".join(option.label for option in approval.options)
    return f"  ({labels})" if labels else ""


_TITLE_COLUMNS: Final = 8
_BREATH_SECONDS: Final = 0.3


class Teller:
    """Tells in text, or with `is_json` one object a line."""

    def __init__(self, home: Path, *, is_json: bool, clock: Callable[[], float] = time.monotonic) -> None:
        self._home = home
        self._is_json = is_json
        self._clock = clock
        self._began = clock()
        self._turn = asyncio.Lock()
        self._listening: list[asyncio.Task[None]] = []
        self._is_apart = True
        self.on_trouble: Callable[[], object] = _do_nothing
        self.trouble: BaseException | None = None

    def follow(self, handle: TaskHandle, title: str) -> None:
        """Tell everything of a task, from its beginning on."""
        listening = asyncio.create_task(self._listen(handle, title))
        listening.add_done_callback(self._ended)
        self._listening.append(listening)

    def _ended(self, listening: asyncio.Task[None]) -> None:
        if not listening.cancelled() and listening.exception() is not None and self.trouble is None:
            self.trouble = listening.exception()
            self.on_trouble()

    async def _listen(self, handle: TaskHandle, title: str) -> None:
        seen: Status | None = None
        async for frame in handle.frames(history=True):
            said = tell(frame, seen)
            if isinstance(frame, AgentStatusChanged):
                seen = frame.status
            if said is not None:
                async with self._turn:
                    self._tell(title, said, frame)

    def _tell(self, title: str, said: str, frame: TaskFrame) -> None:
        passed = self._clock() - self._began
        if self._is_json:
            told = frame_json(msgspec.to_builtins(frame))
            output.print_json({"seconds": round(passed, 3), "title": title, "told": said, "frame": told})
        else:
            when = f"{passed:6.1f}s  "
            output.print_painted([[(when, Tone.FAINT), (f"{title:<{_TITLE_COLUMNS}}", Tone.HEAD), (f"  {said}", "")]])
        self._is_apart = False
        output.flush()

    async def say(self, text: str) -> None:
        """Words of ours, about what comes next. What came before is told first."""
        await asyncio.sleep(_BREATH_SECONDS)
        if not self._is_json:
            async with self._turn:
                self._leave_gap()
                output.print_text(f"{text}")
                self._is_apart = False
                self._leave_gap()

    async def run(self, *command: str) -> int:
        """Run a command of `interlock` on the home of the demo, and show what it prints; its exit code."""
        await asyncio.sleep(_BREATH_SECONDS)
        async with self._turn:
            if not self._is_json:
                self._leave_gap()
                output.print_painted([[(f"$ interlock {' '.join(command)}", Tone.HEAD)]])
            code = await asyncio.to_thread(self._run, command)
            self._is_apart = False
            self._leave_gap()
            return code

    def _leave_gap(self) -> None:
        if not (self._is_json or self._is_apart):
            output.print_text("")
            self._is_apart = True
        output.flush()

    def _run(self, command: tuple[str, ...]) -> int:
        from interlock.cli import main

        line = [*command, "--home", str(self._home)]
        if self._is_json:
            return main([*line, "--json"])
        with contextlib.redirect_stderr(sys.stdout):  # what it notes belongs to the story, and in its place
            return main(line)

    async def close(self) -> None:
        """Tell nothing more."""
        for one in self._listening:
            one.cancel()
        await asyncio.gather(*self._listening, return_exceptions=True)


def _do_nothing() -> None:
    """Nobody is to be told of trouble."""
