"""What each face shows of live text at a moment, read from what that face gives and nothing else."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from interlock.cli.look.live_text import LiveText, TextOutlet
from interlock.cli.look.show import active_stream_lines
from interlock.cli.tables import Line
from interlock.cli.top.layout.transcript import Reader
from interlock.client.machine.frames import take_frame
from interlock.client.machine.state import TaskState
from interlock.client.machine.transcript import take_messages, take_piece
from interlock.projections.present.display import Item
from interlock.projections.present.presenter import Presenter
from interlock.projections.task.view import TaskView
from interlock.vocabulary.events.envelope import Event
from interlock.vocabulary.ids import SessionId
from interlock.vocabulary.wire.frames import TaskSnapshot
from tests.parity.faces import LiveFace, LiveSaid, headings, live_of, live_of_client

EVERYTHING: Final = 10**9
LIVE_LABEL: Final = "partial: still being written"
BROKEN_LABEL: Final = "partial: broke off"
Step = Event | bool


@dataclass
class Paper:
    """What `logs -f` printed, line by line."""

    text: str = ""

    def lines(self, lines: list[Line]) -> None:
        self.text += "".join("".join(text for text, _ in line) + "\n" for line in lines)

    def piece(self, text: str) -> None:
        self.text += text


@dataclass
class Blocks:
    """Live text on paper: what still grows, and how each text that does not ended."""

    open: str = ""
    ended: list[tuple[str, str]] = field(default_factory=list)


def blocks_of(paper: str) -> Blocks:
    """Read the paper as a person does: live text stands under its heading, and a line in brackets says what it came to.
    Other headings may come in between. No text here holds a line's end."""
    found = Blocks()
    is_live = False
    for line in paper.split("\n"):
        if line == f"agent  [{LIVE_LABEL}]":
            is_live = True
        elif line.startswith("[") and line.endswith("]"):
            found.ended.append((found.open, line[1:-1]))
            found.open, is_live = "", False
        elif line and not line.startswith(" "):
            is_live = False
        elif is_live:
            found.open += line[2:]
    return found


class Lived:
    """A session as a library user, the server, a client in the room and a person before `logs -f` live it."""

    def __init__(self, session: SessionId) -> None:
        self.session = session
        self.view, self.presenter = TaskView(session), Presenter()
        self.items: list[Item] = []
        self.state = TaskState(task_id=session, tick=0)
        self.away = self.state
        self.paper = Paper()
        self.printer = LiveText(TextOutlet(self.paper.lines, self.paper.piece, lambda _: None))

    def take(self, step: Step) -> None:
        if isinstance(step, bool):
            self.items += self.presenter.set_supervised(self.session, step)
            frames = self.view.set_supervised(step)
        else:
            self.items += self.presenter.add(step)
            frames = self.view.add(step)
        for frame in frames:
            self.state, _ = take_frame(self.state, frame, 0.0)
            body = msgspec.json.decode(msgspec.json.encode(frame))
            self.printer.add(body)

    def leave(self) -> None:
        """A second client goes away here, with what it knows."""
        self.away = self.state

    @property
    def expected(self) -> LiveFace:
        return live_of(self.items)

    def snapshots(self) -> Iterator[tuple[str, LiveSaid | None]]:
        """Faces that give the text that is open, to who was not there before."""
        whole = self.view.snapshot(limit=EVERYTHING)
        wire = msgspec.json.decode(msgspec.json.encode(whole), type=TaskSnapshot)
        bare = take_messages(TaskState(task_id=self.session), wire.messages, is_whole=True)
        yield "snapshot of WebSocket and SSE, in the client", live_of_client(take_piece(bare, wire.stream, 0.0)).open
        known = self.away.stream
        rest = self.view.snapshot(
            stream_id=None if known is None else known.stream_id,
            cursor=0 if known is None else known.cursor,
            limit=EVERYTHING,
        )
        back = take_piece(take_messages(self.away, rest.messages, is_whole=True), rest.stream, 0.0)
        yield "a client that comes back to its cursor", live_of_client(back).open

    def check_text(self) -> str:
        """What `show` prints of text that is being written."""
        body = msgspec.to_builtins(self.view.check())
        return "".join(text for line in active_stream_lines(body["active_stream"], "ses_1") for text, _ in line)

    def top(self) -> Sequence[tuple[str, str]]:
        """Heading and label of what `top` lays out and no log holds."""
        local = [one for one in self.state.transcript if one.message_id == 0]
        return [(one.heading, one.bracket) for one in headings(Reader().lines(local, 400))]


def check_moment(lived: Lived) -> None:
    """Every face shows the live text that the one fold says, with its label."""
    expected = lived.expected
    for name, said in lived.snapshots():
        assert said == expected.open, name
    client = live_of_client(lived.state)
    assert client == expected, "frames, folded by the client"
    check = lived.view.check().active_stream
    assert (None if check is None else (check.stream_id, check.cursor)) == (
        None if expected.open is None else (expected.open.stream_id, len(expected.open.text))
    ), "HTTP runtime-check"
    assert (lived.check_text() == "") == (expected.open is None), "show"
    assert blocks_of(lived.paper.text).open == ("" if expected.open is None else expected.open.text), "logs -f"
    labels = [one.label for one in (*expected.broken, *([] if expected.open is None else [expected.open]))]
    assert [bracket for _, bracket in lived.top()] == labels, "top"


def check_laws(lived: Lived) -> None:
    """Said without the fold: live text is labelled as partial until a message takes its place."""
    face = lived.expected
    if face.open is not None:
        assert face.open.label == LIVE_LABEL
        assert lived.check_text().startswith("text is being written: ")
    assert all(one.label == BROKEN_LABEL for one in face.broken)
    messages = lived.view.snapshot(limit=EVERYTHING).messages
    answers = {one.text for one in messages if one.role == "answer" and one.status == "completed"}
    for text, label in blocks_of(lived.paper.text).ended:
        assert label != "answer" or text in answers, "only an answer is called one"
        is_said = label.startswith(("partial: ", "void: ", "unverified: ")) or label in ("answer", "agent, at work")
        assert is_said, label
