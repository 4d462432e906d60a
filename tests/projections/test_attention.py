"""Edges into needing a person: each is told once, whatever flaps, repeats, arrives late or is started again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.projections import attention_ledger
from interlock.projections.attention import (
    MAX_QUESTION,
    MAX_TEXT,
    AttentionPolicy,
    AttentionState,
    AttentionTimerFired,
    Input,
    Lost,
    Sighted,
    Surveyed,
    scrub,
    step,
)
from interlock.projections.attention_ledger import (
    DEFAULT_KINDS,
    REASONS,
    Notice,
    NoticeKind,
    NoticeLedger,
    is_told,
    merge,
    note,
)
from interlock.vocabulary.events.presenter import Status
from interlock.vocabulary.ids import SessionId, TurnId
from interlock.vocabulary.states import Activity, Attention, TaskStatus
from interlock.vocabulary.wire.frames import TaskSummary
from tests.each_row import each_row

BEGAN = datetime(2026, 1, 31, 12, tzinfo=UTC)
ALL = AttentionPolicy(kinds=frozenset(NoticeKind))


def at(seconds: float) -> datetime:
    return BEGAN + timedelta(seconds=seconds)


def line(
    version: int = 1,
    *,
    status: TaskStatus | None = TaskStatus.RUNNING,
    attention: Attention = Attention.NONE,
    question: str = "",
    turn: str | None = "trn_1",
    task: str = "ses_1",
    approvals: int = 0,
    changed_at: datetime | None = None,
    is_supervised: bool = True,
) -> TaskSummary:
    return TaskSummary(
        task_id=SessionId(task),
        version=version,
        task_status=status,
        turn_id=None if turn is None else TurnId(turn),
        agent="claude",
        title="fix the test",
        live=Status(activity=Activity.QUIET, attention=attention),
        question=question,
        open_approvals=approvals,
        status_updated_at=changed_at or at(1),
        is_supervised=is_supervised,
    )


def asking(version: int = 1, question: str = "Run pytest?", **more: object) -> TaskSummary:
    found = line(version, status=TaskStatus.PENDING_CONFIRMATION, attention=Attention.APPROVAL, question=question)
    return msgspec.structs.replace(found, **more)


@dataclass
class Watch:
    """A watcher whose time is set by hand."""

    state: AttentionState = field(default_factory=lambda: AttentionState(ledger=NoticeLedger(horizon=BEGAN)))
    now: float = 0.0
    told: list[Notice] = field(default_factory=list)

    def see(self, *lines: TaskSummary, approval_id: str = "") -> Watch:
        for one in lines:
            self._step(Sighted(msgspec.structs.replace(one, approval_id=approval_id or one.approval_id)))
        return self

    def wait(self, seconds: float) -> Watch:
        self.now += seconds
        return self._step(AttentionTimerFired())

    def lose(self) -> Watch:
        return self._step(Lost())

    def restart(self) -> Watch:
        """All that is left is the ledger, as it is written down."""
        stored = msgspec.json.decode(msgspec.json.encode(self.state.ledger), type=NoticeLedger)
        self.state = AttentionState(ledger=stored, policy=self.state.policy)
        return self

    def survey(self) -> Watch:
        return self._step(Surveyed())

    def _step(self, given: Input) -> Watch:
        self.state, told = step(self.state, given, at(self.now))
        self.told += told
        return self

    @property
    def kinds(self) -> list[NoticeKind]:
        return [one.kind for one in self.told]


def watch(quiet_seconds: float) -> Watch:
    return Watch(
        AttentionState(ledger=NoticeLedger(horizon=BEGAN), policy=AttentionPolicy(quiet_seconds=quiet_seconds))
    )


def deadline(seen: Watch) -> datetime | None:
    return seen.state.deadline


def test_a_question_is_told_once_it_has_stood_with_all_that_a_person_needs() -> None:
    seen = Watch().see(asking())
    assert seen.told == []
    assert deadline(seen) == at(2)
    (notice,) = seen.wait(2).told
    assert (notice.kind, notice.agent, notice.title) == (NoticeKind.APPROVAL, "claude", "fix the test")
    assert (notice.reason, notice.question) == ("waits for an approval", "Run pytest?")
    assert (notice.task_id, notice.turn_id, notice.version) == ("ses_1", "trn_1", 1)
    assert deadline(seen) is None
    assert seen.see(asking()).wait(100).see(asking(9)).wait(100).told == [notice]


def test_what_was_answered_meanwhile_is_told_to_nobody() -> None:
    seen = Watch().see(asking()).wait(1).see(line(2)).wait(5)
    assert seen.told == []
    assert seen.see(asking(3)).wait(2).kinds == [NoticeKind.APPROVAL]


def test_time_that_has_passed_counts_before_what_is_seen_now() -> None:
    seen = Watch().see(asking())
    seen.now = 2
    assert seen.see(line(2)).kinds == [NoticeKind.APPROVAL]


def test_without_a_quiet_time_it_is_told_at_once() -> None:
    assert watch(0.0).see(asking()).kinds == [NoticeKind.APPROVAL]


def test_a_flap_is_no_second_edge_and_starts_no_clock_anew() -> None:
    seen = Watch().see(asking()).wait(1).see(line(1)).wait(0.5).see(asking()).wait(0.5)
    assert seen.kinds == [NoticeKind.APPROVAL]
    assert seen.see(line(2)).wait(9).see(asking(3)).wait(9).kinds == [NoticeKind.APPROVAL]


def test_another_question_another_turn_another_task_are_edges_of_their_own() -> None:
    seen = watch(0.0).see(asking(), asking(2, "Delete it?"), asking(3, turn_id=TurnId("trn_2")))
    seen.see(asking(1, task_id=SessionId("ses_2")))
    assert [(one.task_id, one.turn_id, one.question) for one in seen.told] == [
        ("ses_1", "trn_1", "Run pytest?"),
        ("ses_1", "trn_1", "Delete it?"),
        ("ses_1", "trn_2", "Run pytest?"),
        ("ses_2", "trn_1", "Run pytest?"),
    ]
    assert len({one.key for one in seen.told}) == 4


def test_an_approvals_id_tells_equal_questions_apart() -> None:
    seen = watch(0.0).see(asking(), approval_id="a1").see(line(2)).see(asking(3), approval_id="a2")
    seen.see(line(4)).see(asking(5), approval_id="a2")
    assert len(seen.told) == 2


def test_a_question_that_is_open_again_is_told_again_once_with_the_reason() -> None:
    def again(version: int, undelivered: int) -> TaskSummary:
        return asking(version, approval_id="a1", undelivered=undelivered, question_problem="its input is closed")

    seen = (
        watch(0.0).see(asking(approval_id="a1")).see(line(2)).see(again(3, 1), again(4, 1)).restart().see(again(5, 1))
    )
    reason = "waits for an approval; a decision did not reach the agent: its input is closed"
    assert [one.reason for one in seen.told] == ["waits for an approval", reason]
    seen.see(line(6)).see(again(7, 2), again(8, 2))
    assert [one.reason for one in seen.told][2:] == [reason]
    assert len({one.key for one in seen.told}) == 3


@pytest.mark.parametrize("kind", [Attention.APPROVAL, Attention.QUESTION, Attention.PLAN])
def test_words_that_come_later_are_of_the_same_question(kind: Attention) -> None:
    blank = line(1, attention=kind)
    seen = watch(0.0).see(blank, line(2, attention=kind, question="Which one?"))
    assert [one.question for one in seen.told] == [""]
    assert len(seen.see(line(3, attention=kind)).told) == 1  # and when they go again
    assert len(seen.see(line(4), line(5, attention=kind)).told) == 1


def test_words_that_come_before_the_blank_one_was_told_are_told() -> None:
    seen = Watch().see(line(1, attention=Attention.QUESTION)).wait(1).see(asking(2)).wait(2)
    assert [one.question for one in seen.told] == ["Run pytest?"]


def test_a_question_that_comes_back_without_its_words_is_no_other() -> None:
    seen = watch(0.0).see(asking(1), line(2), line(3, attention=Attention.APPROVAL))
    assert [one.question for one in seen.told] == ["Run pytest?"]
    assert seen.see(line(4, attention=Attention.QUOTA)).kinds[1:] == [NoticeKind.QUOTA]


def test_words_after_the_blank_one_was_answered_are_another_question() -> None:
    seen = watch(0.0).see(line(1, attention=Attention.QUESTION), line(2), asking(3))
    assert [one.question for one in seen.told] == ["", "Run pytest?"]


def test_the_words_of_the_next_question_are_not_those_of_the_last_one() -> None:
    """A terminal shows that it asks before its dialog is read, and for a moment after that was answered."""
    blank = Attention.APPROVAL
    seen = watch(0.0).see(asking(1), line(2, attention=blank), line(3), line(4, attention=blank))
    seen.see(asking(5, "Which port?"), line(6, attention=blank), asking(7, "Which host?"))
    assert [one.question for one in seen.told] == ["Run pytest?", "Which port?", "Which host?"]


@pytest.mark.parametrize("kind", [Attention.APPROVAL, Attention.QUOTA])
def test_a_blank_one_has_words_once(kind: Attention) -> None:
    seen = watch(0.0).see(line(1, attention=kind), line(2, attention=kind, question="A?"))
    seen.see(line(3, attention=kind), line(4, attention=kind, question="B?"), line(5, attention=kind, question="A?"))
    assert [one.question for one in seen.told] == ["", "B?"]


def test_words_of_another_need_before_it_are_not_those_of_a_blank_one() -> None:
    quota = Attention.QUOTA
    seen = watch(0.0).see(asking(1), line(2, attention=quota), line(3, attention=quota, question="Wait until noon."))
    assert [one.kind for one in seen.told] == [NoticeKind.APPROVAL, NoticeKind.QUOTA]


def test_the_kind_may_change_while_the_question_stays() -> None:
    plan = Status(activity=Activity.QUIET, attention=Attention.PLAN)
    seen = watch(0.0).see(asking(), asking(2, live=plan))
    assert len(seen.told) == 1


@each_row(
    "kind", [Attention.APPROVAL, Attention.QUESTION, Attention.PLAN, Attention.AUTH, Attention.QUOTA, Attention.ERROR]
)
def test_every_attention_is_told(kind: Attention) -> None:
    assert Watch().see(line(attention=kind)).wait(2).kinds == [NoticeKind(kind.value)]


def test_a_step_that_waits_is_told_each_time_that_it_does() -> None:
    def waits(version: int, since: datetime) -> TaskSummary:
        asked = line(version, question="Run it again?", approvals=1, status=None, turn=None)
        return msgspec.structs.replace(asked, approval_id="wf_1:build", asks=Attention.DECISION, asked_at=since)

    seen = watch(0.0).see(waits(1, at(1)), waits(2, at(1)), line(3, status=None, turn=None), waits(4, at(9)))
    assert [(one.kind, one.question) for one in seen.told] == [(NoticeKind.DECISION, "Run it again?")] * 2
    assert seen.told[0].reason == "waits for a decision about a step"


@pytest.mark.parametrize("found", [line(approvals=1), line(status=TaskStatus.PENDING_CONFIRMATION)])
def test_what_the_log_says_counts_where_nothing_is_seen(found: TaskSummary) -> None:
    unseen = msgspec.structs.replace(found, live=None)
    assert Watch().see(unseen).wait(2).kinds == [NoticeKind.APPROVAL]


@each_row(
    "found",
    [
        line(),
        line(status=None),
        line(status=TaskStatus.CANCELLING),
        asking(is_supervised=False),
        asking(task_status=TaskStatus.DELETE),
    ],
)
def test_who_needs_nobody_is_not_told_of(found: TaskSummary) -> None:
    assert Watch().see(found).wait(9).told == []


@pytest.mark.parametrize(
    ("status", "kind", "reason"),
    [
        (TaskStatus.FAILED, NoticeKind.FAILED, "did not complete its turn"),
        (TaskStatus.CANCELLED, NoticeKind.INTERRUPTED, "was interrupted"),
        (TaskStatus.COMPLETED, NoticeKind.COMPLETED, "completed its turn"),
    ],
)
def test_an_end_is_told_at_once_and_once(status: TaskStatus, kind: NoticeKind, reason: str) -> None:
    seen = Watch(AttentionState(ledger=NoticeLedger(horizon=BEGAN), policy=ALL)).see(line(3, status=status))
    assert seen.kinds == [kind]
    assert (seen.told[0].at, seen.told[0].reason) == (at(1), reason)
    assert seen.see(line(4, status=TaskStatus.PENDING, turn=None), line(5, status=status)).kinds == [kind]
    assert seen.see(line(6, status=status, turn="trn_2")).kinds == [kind, kind]


@each_row(
    ("attention", "reason"),
    [
        (Attention.APPROVAL, "waits for an approval"),
        (Attention.QUESTION, "asks a question"),
        (Attention.PLAN, "wants its plan approved"),
        (Attention.AUTH, "needs you to sign in"),
        (Attention.QUOTA, "has used up its quota"),
        (Attention.ERROR, "reports an error"),
    ],
)
def test_what_a_session_needs_is_told_in_words(attention: Attention, reason: str) -> None:
    (notice,) = Watch().see(line(1, attention=attention)).wait(9).told
    assert (notice.kind.value, notice.reason) == (attention.value, reason)


def test_a_completion_is_told_only_if_asked_for_and_is_no_news_on_the_day_that_it_is() -> None:
    seen = Watch().see(line(status=TaskStatus.COMPLETED))
    assert seen.told == []
    seen.state = AttentionState(ledger=seen.state.ledger, policy=ALL)
    assert seen.see(line(status=TaskStatus.COMPLETED)).told == []


def test_a_failed_end_says_what_its_error_says() -> None:
    failed = line(3, status=TaskStatus.FAILED, attention=Attention.ERROR)
    assert Watch().see(failed).wait(9).kinds == [NoticeKind.FAILED]
    assert Watch().see(line(2, attention=Attention.ERROR)).wait(1).see(failed).wait(9).kinds == [NoticeKind.FAILED]
    later = Watch().see(line(2, attention=Attention.ERROR)).wait(2).see(failed).wait(9)
    assert later.kinds == [NoticeKind.ERROR, NoticeKind.FAILED]


def test_a_question_after_an_end_is_told_too() -> None:
    found = line(3, status=TaskStatus.FAILED, attention=Attention.AUTH)
    assert Watch().see(found).wait(2).kinds == [NoticeKind.FAILED, NoticeKind.AUTH]


def test_what_is_older_than_what_is_known_says_nothing() -> None:
    seen = watch(0.0).see(line(7), asking(6))
    assert seen.told == []
    assert len(seen.see(asking(8)).restart().see(asking(7, "An old one?")).told) == 1


def test_an_end_before_the_ledger_began_is_no_news() -> None:
    seen = Watch().see(line(status=TaskStatus.FAILED, changed_at=at(0)))
    assert seen.told == []
    assert Watch().see(line(status=TaskStatus.FAILED, changed_at=at(0.1))).kinds == [NoticeKind.FAILED]


def test_what_ended_while_nobody_watched_is_told_afterwards() -> None:
    seen = Watch().see(line()).restart()
    seen.now = 1000
    assert seen.see(line(2, status=TaskStatus.FAILED, changed_at=at(500))).kinds == [NoticeKind.FAILED]


def test_neither_a_reconnect_nor_a_restart_tells_it_again() -> None:
    failed = line(2, status=TaskStatus.FAILED, task="ses_2")
    seen = Watch().see(asking(), failed).wait(2)
    assert len(seen.told) == 2
    seen.lose().see(asking(), failed).wait(9).restart().see(asking(), failed).wait(9)
    assert len(seen.told) == 2


def test_while_nothing_can_be_seen_nothing_is_told() -> None:
    seen = Watch().see(asking()).lose().wait(9)
    assert seen.told == []
    assert seen.see(asking()).wait(2).kinds == [NoticeKind.APPROVAL]


def test_words_that_come_after_a_reconnect_are_still_of_the_same_question() -> None:
    seen = watch(0.0).see(line(1, attention=Attention.APPROVAL)).lose().see(asking(2))
    assert [one.question for one in seen.told] == [""]


def test_text_is_one_plain_line_of_bounded_length() -> None:
    hostile = "\x1b]0;owned\x07\x1b[31mred\x9b2J\u202egnp\r\nfake\u2028x\x00\ud800\U000e0041"
    seen = watch(0.0).see(asking(1, hostile, agent=hostile, title=hostile))
    for text in (seen.told[0].question, seen.told[0].agent, seen.told[0].title):
        assert text == "]0;owned [31mred 2J gnp fake x"
    assert scrub("a" * 1000) == "a" * (MAX_TEXT - 1) + "…"
    assert scrub("b" * MAX_TEXT) == "b" * MAX_TEXT


def test_a_notice_says_what_would_run() -> None:
    command = "rm -rf " + "build " * 200
    seen = watch(0.0).see(asking(1, "Allow Bash?", called_with=f'Bash {{"command": "{command}x"}}'))
    assert seen.told[0].question == f'Allow Bash? · Bash {{"command": "{command}x"}}'
    longer = watch(0.0).see(asking(1, "Allow Bash?", called_with="x" * 9_000))
    assert len(longer.told[0].question) == MAX_QUESTION


def test_every_kind_has_a_reason_and_all_but_good_news_are_told_by_default() -> None:
    assert set(REASONS) == set(NoticeKind)
    assert set(NoticeKind) - set(DEFAULT_KINDS) == {NoticeKind.COMPLETED, NoticeKind.ALL_QUIET}
    assert {one.value for one in Attention} - {one.value for one in NoticeKind} == {"none"}


def notice(
    task: str = "ses_1", key: str = "k", *, version: int = 1, turn: str | None = "t1", when: float = 0
) -> Notice:
    return Notice(
        key=key,
        kind=NoticeKind.APPROVAL,
        task_id=SessionId(task),
        version=version,
        turn_id=None if turn is None else TurnId(turn),
        reason="",
        at=at(when),
    )


def noted(*notices: Notice, ledger: NoticeLedger | None = None) -> NoticeLedger:
    found = ledger or NoticeLedger(horizon=BEGAN)
    for one in notices:
        found = note(found, one)
    return found


def test_a_ledger_forgets_the_task_noted_longest_ago_and_takes_its_ends_for_old_news(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(attention_ledger, "MAX_TASKS", 2)
    ledger = noted(notice("ses_1", when=5), notice("ses_2", when=6), notice("ses_1", "again", when=7))
    ledger = noted(notice("ses_3", when=8), ledger=ledger)
    assert list(ledger.tasks) == ["ses_1", "ses_3"]
    assert ledger.horizon == at(6)
    merged = merge(ledger, noted(notice("ses_9", when=9)))
    assert (list(merged.tasks), merged.horizon) == (["ses_3", "ses_9"], at(7))
    late = merge(noted(notice("ses_8", when=8), notice("ses_9", when=9)), noted(notice("ses_1", when=1)))
    assert list(late.tasks) == ["ses_8", "ses_9"]


def test_a_ledger_keeps_the_last_keys_of_a_turn_and_drops_an_older_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attention_ledger, "MAX_KEYS", 2)
    ledger = noted(notice(key="a"), notice(key="b"), notice(key="c"))
    assert ledger.tasks[SessionId("ses_1")].keys == ("b", "c")
    ledger = noted(notice(key="d", turn=None), ledger=ledger)
    assert ledger.tasks[SessionId("ses_1")].turn_id == "t1"
    ledger = noted(notice(key="e", turn="t2", version=9), ledger=ledger)
    assert (ledger.tasks[SessionId("ses_1")].keys, ledger.tasks[SessionId("ses_1")].turn_id) == (("e",), "t2")


def test_merged_ledgers_know_what_both_knew() -> None:
    one, other = noted(notice(key="a"), notice("ses_2")), noted(notice(key="b", version=2))
    for merged in (merge(one, other), merge(other, one)):
        assert is_told(merged, notice(key="a"))
        assert is_told(merged, notice(key="b"))
        assert is_told(merged, notice("ses_2"))
        assert merged.tasks[SessionId("ses_1")].version == 2
    newer = noted(notice(key="z", turn="t2", version=5))
    assert merge(newer, one).tasks[SessionId("ses_1")] == newer.tasks[SessionId("ses_1")]
    assert merge(one, newer).tasks[SessionId("ses_1")] == newer.tasks[SessionId("ses_1")]
    assert merge(NoticeLedger(horizon=at(9)), one).horizon == merge(one, NoticeLedger(horizon=at(9))).horizon == at(9)


LINES = st.builds(
    line,
    status=st.sampled_from([None, *TaskStatus]),
    attention=st.sampled_from(Attention),
    question=st.sampled_from(["", "Run pytest?", "Delete it?"]),
    turn=st.sampled_from(["trn_1", "trn_2"]),
    task=st.sampled_from(["ses_1", "ses_2"]),
    changed_at=st.sampled_from([at(0), at(1)]),
)
STEPS = st.lists(st.one_of(LINES, st.sampled_from(["wait", "restart", "lose", "again"])), max_size=30)


@given(STEPS, st.sampled_from([0.0, 2.0]))
def test_no_edge_is_ever_told_twice_and_what_stands_is_told(steps: list[TaskSummary | str], quiet: float) -> None:
    seen = Watch(
        AttentionState(ledger=NoticeLedger(horizon=BEGAN), policy=AttentionPolicy(kinds=ALL.kinds, quiet_seconds=quiet))
    )
    last: dict[str, TaskSummary] = {}
    turns = {"ses_1": "trn_1", "ses_2": "trn_1"}
    for version, one in enumerate(steps, start=1):
        if isinstance(one, TaskSummary):
            # Turns of a task come one after the other, and never again.
            turns[one.task_id] = max(turns[one.task_id], str(one.turn_id))
            found = msgspec.structs.replace(one, version=version, turn_id=TurnId(turns[one.task_id]))
            last[one.task_id] = found
            seen.see(found)
        elif one == "again":
            seen.see(*last.values())
        else:
            {"wait": lambda: seen.wait(1), "restart": seen.restart, "lose": seen.lose}[one]()
    seen.see(*last.values()).wait(quiet + 1)
    counted = Counter(one.key for one in seen.told)
    assert all(count == 1 for count in counted.values()), counted
    _assert_standing_is_known(seen, last.values())


def _assert_standing_is_known(seen: Watch, lines: Iterable[TaskSummary]) -> None:
    known = {key for noted in seen.state.ledger.tasks.values() for key in noted.keys}
    ends = ("/failed", "/interrupted", "/completed")
    for one in lines:
        is_old = one.status_updated_at == BEGAN
        unknown = seen.state.standing.get(one.task_id, frozenset()) - known
        # A blank one is known by any question that was told.
        unknown = frozenset(key for key in unknown if not any(told.startswith(f"{key}:") for told in known))
        assert {key for key in unknown if not (is_old and key.endswith(ends))} == set()
