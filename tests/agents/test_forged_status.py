"""Forged status records (OSC 7501): every record of the protocol, from every place it can be written, in every state;
titles and hooks, too.

Each story is told twice on a virtual clock, once with the forgery and once without. The bytes go the whole way: the
scanner, the origin, the shim's line, its reader, the tracker. A forged record gains nothing, or a doubt that ends.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Final

import msgspec
import pytest

from interlock.agents.shim.report import OriginWatch
from interlock.agents.status_protocol import StatusScanner
from interlock.monitor.arbitration.claims import SourceReading
from interlock.monitor.arbitration.verdict import LASTING_SECONDS
from interlock.monitor.observation import Arrival
from interlock.monitor.policy import DEFAULT_POLICY
from interlock.monitor.scoring.recording import Frame, Header, Input, Record, RecordedStatus
from interlock.monitor.scoring.replay import replay_timeline
from interlock.monitor.sources.hooks import read_hook
from interlock.monitor.sources.shim_lines import read_shim_line
from interlock.monitor.tracker import TuiTrackerSession, Verdict
from interlock.screen.profile import NativeStatus
from interlock.screen.snapshot import Snapshot
from interlock.vocabulary.events.audit import Anomaly
from interlock.vocabulary.evidence import HOOKS_CONTRADICTED, NATIVE_CONTRADICTED, TITLE_CONTRADICTED, EvidenceSource
from interlock.vocabulary.states import Activity, Attention
from tests.screen.tiny import APPROVAL, IDLE, SILENT, TINY, WEAK, WORKING, composer, profile, reader

APP: Final = "tiny-agent"
PID: Final = 7
PROBE: Final = b"\x1b]7501;?\x1b\\"
BOUND: Final = DEFAULT_POLICY.native_status_seconds
ANSWERED: Final = composer("hello", "> do it", "answer")
TEXT: Final = base64.b64encode(b"Allow everything?").decode()

# The same tool, with a title that tells of work and of questions, as Codex has one.
TITLED: Final = TINY.replace("[pace]", "[titles]\nworking = '^@ '\nasking = '^! '\ncalm = '^[^@! ]'\n\n[pace]").replace(
    '[[rule]]\nid = "status.working"',
    '''[[rule]]
id = "title.asking"
state = "awaiting_operator"
kind = "approval"
input = "modal"
context = "approval_prompt"
when = [{ title = '^! ' }]

[[rule]]
id = "title.spinner"
state = "working"
input = "freeform"
context = "normal_prompt"
when = [{ title = '^@ ' }]

[[rule]]
id = "status.working"''',
)
TITLES: Final = {"working": "@ tiny", "asking": "! tiny", "calm": "tiny", "blank": "", "other": "vim"}

RECORDS: Final = {
    **{state: f"state={state}:app={APP}" for state in ("idle", "working", "done", "error", "clear")},
    **{kind: f"state=blocked:app={APP}:kind={kind}:msg={TEXT}" for kind in ("permission", "question", "auth")},
    "blocked": f"state=blocked:app={APP}",
    "child working": f"state=working:app={APP}:id=a/b:title={TEXT}",
    "child blocked": f"state=blocked:app={APP}:id=a:kind=permission",
    "progress": f"state=working:app={APP}:progress=99",
    "probe": "?",
    "unknown": f"state=pondering:app={APP}",
}


def osc(body: str, end: str = "\x1b\\") -> bytes:
    return f"\x1b]7501;{body}{end}".encode()


@dataclass
class Terminal:
    """An agent's terminal on a virtual clock, as the shim and the tracker see it."""

    declared: NativeStatus | None = field(default_factory=lambda: NativeStatus(APP))
    asks: bool = True
    saw_start: bool = True
    now: float = 100.0

    def __post_init__(self) -> None:
        known = replace(reader(), profile=profile(TITLED))
        known = replace(known, profile=replace(known.profile, native_status=self.declared))
        self.session = TuiTrackerSession(known, saw_start=self.saw_start)
        self.scanner, self.origins = StatusScanner(), OriginWatch()
        self.is_foreground = True
        self.verdicts: list[Verdict] = []
        self.anomalies: list[Anomaly] = []
        self.take(self.session.on_channel(EvidenceSource.NATIVE_STATUS, self.now, is_open=True))
        self.shows(IDLE)
        # The first frame begins a process; its channel opens after that, as the ear attaches then.
        self.take(self.session.on_channel(EvidenceSource.NATIVE_STATUS, self.now, is_open=True))
        if self.asks:
            self.writes(PROBE)

    def take(self, verdict: Verdict) -> None:
        self.verdicts.append(verdict)

    def shows(self, screen: Snapshot) -> None:
        self.screen = screen
        self.take(self.session.on_snapshot(screen, self.now, Arrival.PUSHED))

    def titled(self, title: str) -> None:
        """The same screen, under a title that any output may have set."""
        self.shows(replace(self.screen, title=title))

    def submits(self) -> None:
        self.origins.typed(b"do it\r")
        self.take(self.session.on_submit(self.now, "do it"))

    def exits(self) -> None:
        self.take(self.session.on_exit(self.now, 0))

    def writes(self, *pieces: bytes) -> None:
        """Bytes come out of the program's terminal, each piece by a read of its own."""
        for record in (record for piece in pieces for record in self.scanner.feed(piece)):
            origin = self.origins.of(record, is_own=self.is_foreground)
            kind = "probe" if record.is_probe else "status"
            self.hears({"type": kind, "pid": PID, **record._asdict(), **origin._asdict()})

    def hears(self, line: dict[str, object]) -> None:
        news = read_shim_line(json.dumps(line).encode(), at_seconds=self.now, declared=self.declared, pid=PID)
        assert isinstance(news, SourceReading)
        self.anomalies += news.anomalies
        self.take(self.session.on_claims(news.claims, self.now))

    def passes(self, seconds: float) -> None:
        until = self.now + seconds
        while (due := self.session.deadline) is not None and due <= until:
            self.now = max(self.now, due)
            self.take(self.session.on_timer(due))
        self.now = until
        self.take(self.session.on_timer(until))

    @property
    def last(self) -> Verdict:
        return self.verdicts[-1]

    @property
    def events(self) -> list[str]:
        return [event.value for verdict in self.verdicts for event in verdict.events]


def idle(terminal: Terminal) -> None:
    terminal.passes(5)


def working(terminal: Terminal) -> None:
    terminal.submits()
    terminal.passes(0.3)
    terminal.shows(WORKING)
    terminal.passes(5)


def blocked(terminal: Terminal) -> None:
    working(terminal)
    terminal.shows(APPROVAL)
    terminal.passes(5)


def answered(terminal: Terminal) -> None:
    working(terminal)
    terminal.shows(ANSWERED)
    terminal.passes(0.2)


def unreadable(terminal: Terminal) -> None:
    terminal.shows(SILENT)
    terminal.passes(5)


def exited(terminal: Terminal) -> None:
    working(terminal)
    terminal.exits()
    terminal.passes(1)


STATES: Final = {one.__name__: one for one in (idle, working, blocked, answered, unreadable, exited)}
Place = Callable[[Terminal, bytes], None]


def own_output(terminal: Terminal, record: bytes) -> None:
    terminal.writes(b"text " + record + b" more text")


def one_byte_a_read(terminal: Terminal, record: bytes) -> None:
    terminal.writes(*(record[at : at + 1] for at in range(len(record))))


def in_the_title(terminal: Terminal, record: bytes) -> None:
    terminal.writes(b"\x1b]2;work" + record + b"\x07")


def on_the_alternate_screen(terminal: Terminal, record: bytes) -> None:
    terminal.writes(b"\x1b[?1049h" + record + b"\x1b[?1049l")


def through_tmux(terminal: Terminal, record: bytes) -> None:
    terminal.writes(b"\x1bPtmux;\x1b" + record.replace(b"\x1b", b"\x1b\x1b") + b"\x1b\\")


def ended_by_a_bell(terminal: Terminal, record: bytes) -> None:
    terminal.writes(record.removesuffix(b"\x1b\\") + b"\x07")


def echo_of_a_pasted_prompt(terminal: Terminal, record: bytes) -> None:
    terminal.origins.typed(b"\x1b[200~" + record + b"\x1b[201~")
    terminal.writes(b"> " + record)


def after_a_forged_probe(terminal: Terminal, record: bytes) -> None:
    terminal.writes(PROBE, record)


# Nothing tells these from the agent's own: the writer may share its process group.
PASSED: Final = (
    own_output,
    one_byte_a_read,
    in_the_title,
    on_the_alternate_screen,
    through_tmux,
    ended_by_a_bell,
    echo_of_a_pasted_prompt,
    after_a_forged_probe,
)


def by_a_tool(terminal: Terminal, record: bytes) -> None:
    """`cat FILE` in a process group of its own, which a shell puts into the foreground."""
    terminal.is_foreground = False
    terminal.writes(record)
    terminal.is_foreground = True


def under_another_name(terminal: Terminal, record: bytes) -> None:
    terminal.writes(record.replace(APP.encode(), b"another"))


def without_a_name(terminal: Terminal, record: bytes) -> None:
    terminal.writes(record.replace(f":app={APP}".encode(), b""))


def of_another_process(terminal: Terminal, record: bytes) -> None:
    (found,) = StatusScanner().feed(record)
    terminal.hears({"type": "status", "pid": PID + 1, **found._asdict(), "is_own": True, "has_asked": True})


def by_a_shim_that_does_not_tell(terminal: Terminal, record: bytes) -> None:
    terminal.hears({"type": "status", "pid": PID, "state": "idle", "app": APP})


REFUSED: Final = (by_a_tool, under_another_name, without_a_name, of_another_process, by_a_shim_that_does_not_tell)


def named(place: Place) -> str:
    return place.__name__


def saying(place: Place, record: str) -> Callable[[Terminal], None]:
    return lambda terminal: place(terminal, osc(record))


def told(state: str, make: Callable[[], Terminal] = Terminal) -> Terminal:
    terminal = make()
    STATES[state](terminal)
    return terminal


def told_twice(
    state: str, act: Callable[[Terminal], None], make: Callable[[], Terminal] = Terminal
) -> tuple[Terminal, Terminal]:
    forged, true = told(state, make), told(state, make)
    act(forged)
    return forged, true


def moments_of(terminal: Terminal) -> Iterator[Verdict]:
    """A story at moments until long after every bound."""
    yield terminal.last
    for seconds in (0.1, 1.0, 1.0, 1.0, 5.0, 30.0, BOUND, 60.0):
        terminal.passes(seconds)
        yield terminal.last


def moments(forged: Terminal, true: Terminal) -> Iterator[tuple[Verdict, Verdict]]:
    """Both stories at the same moments."""
    return zip(moments_of(forged), moments_of(true), strict=True)


def check_no_gain(forged: Verdict, true: Verdict) -> None:
    assert forged.standing.attention is true.standing.attention, "a person would be called, or not be called"
    assert forged.standing.activity in (true.standing.activity, Activity.UNKNOWN)
    bases = (forged.standing.activity_basis, forged.standing.attention_basis)
    assert EvidenceSource.NATIVE_STATUS not in {basis.rung for basis in bases}
    assert (forged.turn is None, forged.last_turn) == (true.turn is None, true.last_turn)
    assert forged.business_state is true.business_state


@pytest.mark.parametrize("place", PASSED, ids=named)
@pytest.mark.parametrize("state", STATES)
def test_a_record_that_nothing_tells_from_the_agents_own_changes_no_claim_but_to_unknown_for_a_while(
    state: str, place: Place
) -> None:
    true = told(state)
    truths = list(moments_of(true))
    for name, record in RECORDS.items():
        forged = told(state)
        place(forged, osc(record))
        for after, without in zip(moments_of(forged), truths, strict=True):
            check_no_gain(after, without)
        assert (name, forged.events) == (name, true.events)
        assert (name, forged.last.activity) == (name, true.last.activity), "the doubt lasts for ever"


@pytest.mark.parametrize("place", REFUSED, ids=named)
@pytest.mark.parametrize("state", STATES)
def test_a_record_of_somebody_else_changes_nothing_at_all(state: str, place: Place) -> None:
    true = told(state)
    truths = list(moments_of(true))
    for name, record in RECORDS.items():
        forged = told(state)
        place(forged, osc(record))
        for after, without in zip(moments_of(forged), truths, strict=True):
            assert (name, after.standing) == (name, without.standing)
        assert (name, forged.events) == (name, true.events)


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("make", [lambda: Terminal(declared=None), lambda: Terminal(asks=False)], ids=["none", "mute"])
def test_records_of_a_cli_that_declares_none_or_never_introduced_itself_change_nothing(
    state: str, make: Callable[[], Terminal]
) -> None:
    for record in RECORDS.values():
        forged, true = told_twice(state, lambda _: None, make)
        for terminal in (forged, true):
            terminal.submits()
        after_a_forged_probe(forged, osc(record))
        for after, without in moments(forged, true):
            assert after.standing == without.standing
        assert forged.events == true.events


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("record", ["idle", "working", "permission"])
def test_a_record_that_is_forged_each_second_is_discredited(record: str, state: str) -> None:
    forged, true = told_twice(state, lambda _: None)
    for second in range(int(2 * BOUND)):
        own_output(forged, osc(RECORDS[record]))
        for terminal in (forged, true):
            terminal.passes(1)
        check_no_gain(forged.last, true.last)
        if second > DEFAULT_POLICY.native_doubt_seconds + 3:
            assert forged.last.standing.activity is true.last.standing.activity, "the queue is held for ever"
    assert forged.events == true.events


@pytest.mark.parametrize(("state", "record"), [("working", "idle"), ("working", "done"), ("idle", "working")])
def test_a_contradicted_screen_is_unknown_within_seconds_and_says_both_sides(state: str, record: str) -> None:
    forged, true = told_twice(state, saying(own_output, RECORDS[record]))
    forged.passes(1.9)
    assert forged.last.standing.activity is true.last.standing.activity
    forged.passes(0.2)
    standing = forged.last.standing
    assert standing.activity is Activity.UNKNOWN
    said = standing.evidence[0]
    assert said.rule == NATIVE_CONTRADICTED
    reported = "working" if record == "working" else "quiet"
    assert said.where.startswith(f"it reports {reported} (osc7501.{record}), its screen shows {true.last.activity}")


def test_a_forged_block_calls_nobody_and_its_doubt_ends() -> None:
    forged, _ = told_twice("idle", saying(own_output, RECORDS["permission"]))
    forged.passes(5)
    assert (forged.last.activity, forged.last.attention) == (Activity.UNKNOWN, Attention.NONE)
    assert "reports blocked (approval)" in forged.last.standing.evidence[0].where
    forged.passes(BOUND)
    assert forged.last.standing.is_ready


@pytest.mark.parametrize("state", STATES)
def test_who_adopts_a_pane_is_told_what_was_forged_before_and_believes_it_no_more_than_others(state: str) -> None:
    for record in RECORDS.values():
        forged, true = told_twice(state, saying(own_output, record), lambda: Terminal(saw_start=False))
        for after, without in moments(forged, true):
            check_no_gain(after, without)
        assert forged.events == true.events


def recorded(record: str | None) -> list[Record]:
    """A turn of 18 seconds, as a recording has it, with a record that claims every proof of its origin."""
    shown = [(0.0, IDLE, 4), (2.0, WORKING, 72), (20.0, ANSWERED, 12)]
    records: list[Record] = [Input(t=1.0, submit=True, prompt="do it")]
    for begin, screen, count in shown:
        ansi = "\n".join(row.text for row in screen.rows)
        records += [Frame(t=begin + tick / 4, ansi=ansi) for tick in range(count)]
    if record is not None:
        (found,) = StatusScanner().feed(osc(record))
        said = {**found._asdict(), "is_own": True, "has_asked": True, "greeted_as": APP}
        lines = ({"type": "started"}, {"type": "status", **said})
        records += [RecordedStatus(t=3.0, source="shim", data=msgspec.Raw(json.dumps(line).encode())) for line in lines]
    return sorted(records, key=lambda one: getattr(one, "t", 0.0))


@pytest.mark.parametrize("record", [body for body in RECORDS.values() if body != "?"])
def test_a_record_in_a_recording_changes_no_verdict_but_to_unknown(record: str) -> None:
    known = reader()
    known = replace(known, profile=replace(known.profile, native_status=NativeStatus(APP)))
    header = Header(format=1, cli="tiny")
    forged, true = ([*replay_timeline(header, recorded(one), known)] for one in (record, None))
    for (_, after), (_, without) in zip(forged, true, strict=True):
        check_no_gain(after, without)
        assert after.events == without.events
    assert [event.value for _, verdict in true for event in verdict.events] == ["ready", "completed", "ready"]


# Hooks, which every process that the agent starts can send


def disagreements(terminal: Terminal) -> list[object]:
    """What the recorded disagreements were about, in order."""
    said = [output for verdict in terminal.verdicts for output in verdict.outputs]
    return [one.details for one in said if isinstance(one, Anomaly) and one.kind == "evidence_disagreement"]


def hears_hook(terminal: Terminal, event: str) -> None:
    payload = {"hook_event_name": event, "session_id": "one", "tool_name": "Bash"}
    terminal.take(terminal.session.on_claims(read_hook(payload, at_seconds=terminal.now).claims, terminal.now))


@pytest.mark.parametrize("event", ["Stop", "UserPromptSubmit", "PreToolUse", "PermissionRequest"])
@pytest.mark.parametrize("state", ["idle", "working", "blocked", "answered"])
def test_a_hook_that_is_forged_again_and_again_holds_nothing_against_the_screen(state: str, event: str) -> None:
    forged, true = told_twice(state, lambda _: None)
    settled = forged.now + DEFAULT_POLICY.completion_stability_seconds  # the turn that was answered is over then
    for tick in range(60):
        if tick % 2 == 0:
            hears_hook(forged, event)
        for terminal in (forged, true):
            terminal.passes(0.35)
        if forged.now > settled + LASTING_SECONDS and state != "blocked":
            assert forged.last.activity is true.last.activity
            assert forged.last.attention is true.last.attention
        assert state != "blocked" or forged.last.attention is Attention.APPROVAL
    assert [one for one in forged.events if one != "blocked"] == [one for one in true.events if one != "blocked"]


def test_a_hook_counts_again_once_the_screen_has_said_the_same() -> None:
    terminal = Terminal()
    working(terminal)
    hears_hook(terminal, "Stop")
    terminal.passes(3)
    assert is_at(terminal, Activity.WORKING)
    terminal.shows(ANSWERED)
    terminal.passes(5)
    assert is_at(terminal, Activity.QUIET)
    hears_hook(terminal, "UserPromptSubmit")
    assert is_at(terminal, Activity.WORKING)


ALTERNATING: Final = (
    ("Stop", "UserPromptSubmit"),
    ("Stop", "PreToolUse"),
    ("PermissionRequest", "Stop"),
    ("PermissionRequest", "UserPromptSubmit", "Stop"),
)
"""Sequences of hooks, one of which says otherwise than the one before it."""


@pytest.mark.parametrize("gap", [0.4, 1.0, 1.9])
@pytest.mark.parametrize("events", ALTERNATING, ids="-".join)
@pytest.mark.parametrize("state", ["idle", "working", "blocked", "answered"])
def test_hooks_that_are_forged_in_turns_hold_nothing_against_the_screen(
    state: str, events: tuple[str, ...], gap: float
) -> None:
    """Each stands for less than a contradiction may last, and all together for no longer than one of them alone."""
    forged, true = told_twice(state, lambda _: None)
    wrong = called = 0.0
    for tick in range(round(90 / gap)):
        hears_hook(forged, events[tick % len(events)])
        for _ in range(2):
            for terminal in (forged, true):
                terminal.passes(gap / 2)
            # A dialog hides what the agent does, so nothing contradicts what is said of that.
            if state != "blocked" and forged.last.activity not in (true.last.activity, Activity.UNKNOWN):
                wrong += gap / 2
            if forged.last.attention is not true.last.attention:
                called += gap / 2
    assert wrong <= LASTING_SECONDS + gap, f"{wrong:.1f} s of a false status"
    assert called <= LASTING_SECONDS + gap, f"{called:.1f} s of a false attention"
    assert state == "blocked" or forged.last.activity is true.last.activity
    assert [one for one in forged.events if one != "blocked"] == [one for one in true.events if one != "blocked"]


def test_hooks_that_take_back_what_they_say_are_a_doubt_that_names_both_sides_and_ends() -> None:
    terminal = Terminal()
    working(terminal)
    for event in ("Stop", "UserPromptSubmit", "Stop"):
        hears_hook(terminal, event)
        terminal.passes(1.5)
    assert is_at(terminal, Activity.UNKNOWN)
    said = terminal.last.standing.evidence[0]
    assert (said.source, said.rule) == (EvidenceSource.HOOK, HOOKS_CONTRADICTED)
    assert said.where.startswith("its hooks say quiet (hook.Stop) and take it back, its screen shows working")
    (told,) = disagreements(terminal)
    assert isinstance(told, dict)
    assert told["axis"] == "activity"
    terminal.passes(DEFAULT_POLICY.native_doubt_seconds)
    assert is_at(terminal, Activity.WORKING)


def test_the_doubt_about_hooks_ends_when_the_screen_says_something_else_or_a_prompt_is_sent() -> None:
    terminal = Terminal()
    idle(terminal)
    for event in ("UserPromptSubmit", "Stop", "UserPromptSubmit"):
        hears_hook(terminal, event)
        terminal.passes(1.5)
    assert is_at(terminal, Activity.UNKNOWN)
    terminal.shows(WORKING)
    assert is_at(terminal, Activity.WORKING)


def test_hooks_of_turns_that_begin_and_end_in_time_are_no_doubt() -> None:
    """What a real agent does: each hook a little before its screen, for as many turns as there are."""
    terminal = Terminal()
    idle(terminal)
    for _ in range(40):
        terminal.submits()
        hears_hook(terminal, "UserPromptSubmit")
        terminal.passes(0.3)
        terminal.shows(WORKING)
        terminal.passes(3)
        hears_hook(terminal, "Stop")
        terminal.passes(0.3)
        terminal.shows(ANSWERED)
        terminal.passes(3)
        assert is_at(terminal, Activity.QUIET)
    assert Activity.UNKNOWN not in {verdict.activity for verdict in terminal.verdicts[3:]}


# Titles, which any output can set as well


def is_at(terminal: Terminal, activity: Activity) -> bool:
    return terminal.last.activity is activity


def is_in_doubt(verdict: Verdict) -> bool:
    return verdict.activity in (Activity.UNKNOWN, Activity.STALLED)


@pytest.mark.parametrize("title", ["working", "asking"])
def test_a_forged_title_over_a_screen_at_rest_is_a_doubt_at_once_and_opens_no_turn(title: str) -> None:
    forged, true = told_twice("idle", lambda terminal: terminal.titled(TITLES[title]))
    for after, _ in moments(forged, true):
        assert (after.activity, after.attention, after.turn) == (Activity.UNKNOWN, Attention.NONE, None)
        assert after.standing.evidence[0].rule == TITLE_CONTRADICTED
        said = "work" if title == "working" else "a question"
        assert after.standing.evidence[0].where == f"its title says {said}, its screen shows an idle composer"
    forged.titled("tiny")
    forged.passes(1)
    assert forged.last.standing.is_ready, "the doubt outlasts the title"
    assert not {"completed", "interrupted", "failed"} & set(forged.events)


@pytest.mark.parametrize("state", ["idle", "working", "blocked", "answered"])
@pytest.mark.parametrize("title", TITLES)
def test_a_forged_title_calls_nobody_ends_nothing_and_holds_no_claim_beyond_its_bound(state: str, title: str) -> None:
    forged, true = told_twice(state, lambda terminal: terminal.titled(TITLES[title]))
    began = forged.now
    ends = ("completed", "interrupted", "failed", "blocked")
    for after, without in moments(forged, true):
        assert after.attention in (without.attention, Attention.NONE), "a person would be called"
        # In an open turn it is believed for a while.
        is_held = state == "answered" and forged.now < began + DEFAULT_POLICY.native_doubt_seconds
        if not (is_held and after.activity is Activity.WORKING):
            assert after.activity is without.activity or is_in_doubt(after), (after.activity, without.activity)
        assert [one for one in forged.events if one in ends] <= [one for one in true.events if one in ends]


@pytest.mark.parametrize("title", ["calm", "blank", "other"])
@pytest.mark.parametrize("state", ["idle", "working", "blocked", "answered", "unreadable"])
def test_a_title_that_says_nothing_changes_nothing(state: str, title: str) -> None:
    forged, true = told_twice(state, lambda terminal: terminal.titled(TITLES[title]))
    for after, without in moments(forged, true):
        assert (after.activity, after.attention) == (without.activity, without.attention)
    assert forged.events == true.events


def test_a_title_that_asks_over_work_calls_nobody_and_says_both_sides() -> None:
    forged, _ = told_twice("working", lambda terminal: terminal.titled(TITLES["asking"]))
    forged.passes(5)
    assert (forged.last.activity, forged.last.attention) == (Activity.UNKNOWN, Attention.NONE)
    assert forged.last.standing.evidence[0].where == "its title says a question, its screen shows work"


def test_a_title_at_work_is_believed_while_the_text_moves_and_not_when_it_stands_still() -> None:
    terminal = Terminal()
    idle(terminal)
    for line in range(90):
        terminal.shows(replace(composer("hello", "> do it", *map(str, range(line % 8)), f"line {line}"), title="@ x"))
        assert is_at(terminal, Activity.WORKING), line
        terminal.passes(1)
    terminal.passes(DEFAULT_POLICY.native_doubt_seconds - 2)
    assert is_at(terminal, Activity.WORKING)
    terminal.passes(4)
    assert is_at(terminal, Activity.UNKNOWN)
    assert terminal.last.standing.evidence[0].rule == TITLE_CONTRADICTED


def test_where_the_screen_says_nothing_a_title_is_not_contradicted() -> None:
    forged, _ = told_twice("unreadable", lambda terminal: terminal.titled(TITLES["asking"]))
    assert forged.last.attention is Attention.APPROVAL


def test_a_dialog_under_a_title_that_asks_is_read_from_the_screen() -> None:
    terminal = Terminal()
    working(terminal)
    terminal.shows(replace(APPROVAL, title=TITLES["asking"]))
    assert (terminal.last.attention, terminal.last.rule) == (Attention.APPROVAL, "box.approval")


def test_a_title_that_was_forged_to_spin_makes_no_weak_idle_a_strong_one() -> None:
    """A calm title proves rest only where it was seen to spin over a screen at work."""

    def rests(terminal: Terminal) -> list[str]:
        terminal.submits()
        terminal.passes(0.3)
        terminal.shows(WORKING)
        terminal.passes(1)
        terminal.shows(replace(WEAK, title="tiny"))
        terminal.passes(2.5)
        return terminal.events

    spun, calm = Terminal(), Terminal()
    spun.titled(TITLES["working"])
    spun.passes(1)
    spun.titled("tiny")
    spun.passes(1)
    calm.passes(2)
    assert rests(spun)[-1] == rests(calm)[-1]
    assert "completed" not in spun.events


def ends_within(terminal: Terminal, spins_at: float, *, seconds: float = 2.5) -> list[str]:
    """A prompt is sent; its answer shows on a screen that looks idle, and the title spins from then for a second."""
    terminal.submits()
    terminal.passes(spins_at)
    terminal.shows(replace(WEAK, title=TITLES["working"]))
    terminal.passes(1)
    terminal.titled("tiny")
    terminal.passes(seconds)
    return terminal.events


def test_a_title_that_spins_right_after_the_first_prompt_is_the_clis_own_and_makes_a_weak_idle_strong() -> None:
    """Codex before 0.166 shows nothing but its title while an answer streams. No tool runs that soon."""
    terminal = Terminal()
    terminal.titled("tiny")
    terminal.passes(2)
    assert ends_within(terminal, 0.2)[-1] == "ready"
    assert "completed" in terminal.events


@pytest.mark.parametrize("case", ["later", "second prompt", "spun before", "adopted"])
def test_a_title_that_spins_at_another_time_may_be_anybodys(case: str) -> None:
    terminal = Terminal(saw_start=case != "adopted")
    terminal.titled(TITLES["working"] if case == "spun before" else "tiny")
    terminal.passes(2)
    if case == "second prompt":
        working(terminal)
        terminal.shows(ANSWERED)
        terminal.passes(5)
    said = len(terminal.events)
    assert "completed" not in ends_within(terminal, 1.5 if case == "later" else 0.2)[said:]
