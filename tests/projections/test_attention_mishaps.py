"""Stalls, crashes and that all is quiet: told once each, also after a restart, and never of what is not known."""

from __future__ import annotations

from dataclasses import replace

import msgspec

from interlock.projections.attention import AttentionPolicy
from interlock.projections.attention_ledger import NoticeKind, NoticeLedger, merge, note, owe, strike
from interlock.vocabulary.events.presenter import Status
from interlock.vocabulary.states import Activity, Attention, TaskStatus
from interlock.vocabulary.wire.frames import TaskSummary
from tests.projections.test_attention import ALL, Watch, asking, at, line, watch


def doing(activity: Activity, version: int = 1, *, task: str = "ses_1", turn: str = "trn_1") -> TaskSummary:
    return msgspec.structs.replace(line(version, task=task, turn=turn), live=Status(activity=activity))


def ended(version: int, when: float, *, task: str = "ses_1", turn: str = "trn_1") -> TaskSummary:
    return line(version, status=TaskStatus.COMPLETED, task=task, turn=turn, changed_at=at(when))


def crashed(version: int, *moments: float, **more: object) -> TaskSummary:
    found = line(version, status=TaskStatus.COMPLETED, changed_at=at(-9))
    return msgspec.structs.replace(found, crashed_at=tuple(at(one) for one in moments), **more)


def every(quiet_seconds: float) -> Watch:
    """A watcher of every kind."""
    found = watch(quiet_seconds)
    found.state = replace(found.state, policy=AttentionPolicy(kinds=ALL.kinds, quiet_seconds=quiet_seconds))
    return found


def test_a_stall_is_told_once_a_turn_and_one_that_passes_is_told_to_nobody() -> None:
    told = watch(2.0).see(doing(Activity.STALLED)).wait(1).see(doing(Activity.WORKING, 2)).wait(9)
    assert told.kinds == []
    told = watch(2.0).see(doing(Activity.STALLED)).wait(2)
    assert told.kinds == [NoticeKind.STALLED]
    assert told.told[0].reason == "is stalled: its turn shows no progress"
    told.see(doing(Activity.WORKING, 2)).see(doing(Activity.STALLED, 3)).wait(9)
    told.restart().see(doing(Activity.STALLED, 4)).wait(9)
    assert told.kinds == [NoticeKind.STALLED]
    assert told.see(doing(Activity.STALLED, 5, turn="trn_2")).wait(9).kinds == [NoticeKind.STALLED] * 2


def test_what_is_not_known_is_no_stall_and_what_asks_is_told_as_a_question() -> None:
    assert watch(0.0).see(doing(Activity.UNKNOWN)).kinds == []
    asks = msgspec.structs.replace(asking(), live=Status(activity=Activity.STALLED, attention=Attention.APPROVAL))
    assert watch(0.0).see(asks).kinds == [NoticeKind.APPROVAL]


def test_each_crash_is_told_once_with_its_count_whatever_turn_is_noted_in_between() -> None:
    told = watch(2.0)
    told.now = 60
    told.see(crashed(2, 5)).see(crashed(3, 5))
    assert [(one.kind, one.reason) for one in told.told] == [(NoticeKind.CRASHED, "crashed")]
    told.see(asking(4, turn_id=line(turn="trn_2").turn_id, crashed_at=(at(5),))).wait(3).restart()
    told.see(crashed(5, 5, turn_id=line(turn="trn_2").turn_id)).see(crashed(6, 5, 70))
    assert [one.reason for one in told.told] == ["crashed", "waits for an approval", "crashed 2 times in an hour"]


def test_a_crash_before_the_ledger_began_is_no_news() -> None:
    assert watch(0.0).see(crashed(2, -5)).kinds == []


def test_all_quiet_is_told_once_the_last_worker_finished_and_rest_has_lasted() -> None:
    fleet = every(2.0).see(doing(Activity.WORKING), doing(Activity.WORKING, task="ses_2")).survey()
    fleet.see(ended(2, 5)).wait(9)
    assert NoticeKind.ALL_QUIET not in fleet.kinds
    fleet.see(ended(2, 20, task="ses_2")).wait(1)
    assert NoticeKind.ALL_QUIET not in fleet.kinds
    fleet.wait(1).restart().see(ended(2, 5), ended(2, 20, task="ses_2")).survey().wait(9)
    assert fleet.kinds.count(NoticeKind.ALL_QUIET) == 1
    last = fleet.told[-1]
    assert (last.task_id, last.reason) == ("ses_2", "finished last: no session works any more")
    fleet.see(doing(Activity.WORKING, 3, turn="trn_2")).see(ended(4, 90, turn="trn_2")).wait(9)
    assert fleet.kinds.count(NoticeKind.ALL_QUIET) == 2


def test_of_a_board_that_was_not_seen_as_a_whole_or_is_lost_no_rest_is_told() -> None:
    fleet = every(2.0).see(ended(2, 5)).wait(9)
    fleet.survey().lose().wait(9).see(ended(2, 5)).wait(9)
    assert NoticeKind.ALL_QUIET not in fleet.kinds
    assert fleet.survey().wait(9).kinds.count(NoticeKind.ALL_QUIET) == 1


def test_what_is_unknown_or_asks_or_waits_its_turn_is_not_quiet() -> None:
    queued = msgspec.structs.replace(ended(2, 4, task="ses_2"), queued=1)
    for other in (doing(Activity.UNKNOWN, task="ses_2"), asking(task_id=line(task="ses_2").task_id), queued):
        fleet = every(0.0).see(other).survey().see(ended(2, 5))
        assert NoticeKind.ALL_QUIET not in fleet.kinds, other
    held = msgspec.structs.replace(queued, held="a limit")
    assert NoticeKind.ALL_QUIET in every(0.0).see(held).survey().see(ended(2, 5)).kinds


def test_what_ended_before_the_ledger_began_is_no_rest() -> None:
    assert every(0.0).see(ended(2, -5)).survey().kinds == []


def test_ledgers_merge_crashes_rest_and_what_is_owed() -> None:
    told = every(0.0)
    told.now = 60
    told.see(crashed(2, 5)).see(ended(3, 50)).survey()
    crash, rest = told.told[0], told.told[-1]
    empty = NoticeLedger(horizon=at(0))
    both = merge(owe(note(empty, crash), [crash], ["webhook", "command"]), note(empty, rest))
    assert both.quiet_at == at(50)
    assert both.tasks[crash.task_id].crashed_at == at(5)
    left = strike(both, crash.key, "webhook")
    assert [one.channel for one in left.undelivered] == ["command"]
    assert strike(strike(left, crash.key, "command"), "other", "command").undelivered == ()
