"""Classifier, phases, flags and projection, each against a table that was written by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from interlock.lifecycle.task_status import (
    RuntimePhase,
    SessionFacts,
    StatusClass,
    TaskFacts,
    classify,
    runtime_phase,
    task_flags,
    task_status,
)
from interlock.vocabulary.states import TaskStatus, TurnState
from tests.each_row import each_row

FOREIGN = (None, "", "running", "Running", " RUNNING", "RUNNING ", "DELETED", "none", "PENDING\u0000")
CLASSES = [
    ("PENDING", "active"),
    ("RUNNING", "active"),
    ("CANCELLING", "active"),
    ("PENDING_CONFIRMATION", "waiting"),
    ("COMPLETED", "terminal"),
    ("FAILED", "terminal"),
    ("CANCELLED", "terminal"),
    ("DELETE", "terminal"),
    ("UNKNOWN", "unknown"),
    *((word, "unknown") for word in FOREIGN),
]


@each_row(("status", "expected"), CLASSES)
def test_each_status_has_its_class_and_every_other_word_is_unknown(status: str | None, expected: str) -> None:
    assert classify(status) is StatusClass(expected)


def test_the_class_of_the_word_is_the_class_of_the_member() -> None:
    assert {status.value for status in TaskStatus} == {word for word, _ in CLASSES if word not in FOREIGN}
    assert all(classify(status) is classify(status.value) for status in TaskStatus)


@each_row(("status", "kind"), CLASSES)
def test_the_phase_follows_the_class_and_a_stream_shows_only_while_active(status: str | None, kind: str) -> None:
    without, streaming = {
        "active": ("running", "streaming"),
        "waiting": ("waiting_for_user", "waiting_for_user"),
        "terminal": ("terminal", "terminal"),
        "unknown": ("unknown", "unknown"),
    }[kind]
    assert runtime_phase(status, has_stream=False) is RuntimePhase(without)
    assert runtime_phase(status, has_stream=True) is RuntimePhase(streaming)


def test_the_server_produces_all_phases_but_those_of_a_connection() -> None:
    words = [*TaskStatus, None, "?"]
    produced = {runtime_phase(word, has_stream=stream) for word in words for stream in (False, True)}
    assert set(RuntimePhase) - produced == {RuntimePhase.SYNCING, RuntimePhase.ERROR}


# What each flag needs, status by status, in words; `FLAG_WORDS` says what each word asks of the five facts.
FLAG_TABLE = """
status                terminal  streaming         blocks      queue      cancel  join
PENDING               no        stream            yes         reachable  yes     unjoined
RUNNING               no        maybe_stream      yes         reachable  yes     unjoined
CANCELLING            no        stream            yes         reachable  no      unjoined
PENDING_CONFIRMATION  no        no                yes         reachable  yes     no
COMPLETED             yes       no                unverified  reachable  no      no
FAILED                yes       no                unverified  reachable  no      no
CANCELLED             yes       no                unverified  reachable  no      no
DELETE                yes       no                unverified  no         no      no
UNKNOWN               no        no                yes         reachable  no      no
missing               no        no                unverified  reachable  no      no
running               no        no                yes         reachable  no      no
DELETED               no        no                yes         reachable  no      no
"""
COLUMNS = {
    "terminal": "is_terminal",
    "streaming": "is_streaming",
    "blocks": "blocks_queued_dispatch",
    "queue": "can_queue_message",
    "cancel": "can_cancel_task",
    "join": "should_join_room",
}
FLAG_WORDS: dict[str, Callable[[bool, bool, bool, bool, bool], bool]] = {
    "yes": lambda stream, joined, reachable, verified, confirmed: True,
    "no": lambda stream, joined, reachable, verified, confirmed: False,
    "stream": lambda stream, joined, reachable, verified, confirmed: stream,
    "maybe_stream": lambda stream, joined, reachable, verified, confirmed: not (confirmed and not stream),
    "unverified": lambda stream, joined, reachable, verified, confirmed: not verified,
    "reachable": lambda stream, joined, reachable, verified, confirmed: reachable,
    "unjoined": lambda stream, joined, reachable, verified, confirmed: not joined,
}


def flag_rows() -> Iterator[tuple[str, dict[str, str]]]:
    heading, *rows = FLAG_TABLE.strip().splitlines()
    for row in rows:
        status, *words = row.split()
        yield status, dict(zip(heading.split()[1:], words, strict=True))


@each_row(("status", "words"), list(flag_rows()))
def test_flags_are_those_of_the_table_for_every_combination_of_facts(status: str, words: dict[str, str]) -> None:
    assert {status.value for status in TaskStatus} < {row for row, _ in flag_rows()}
    for facts in product((False, True), repeat=5):
        expected = {COLUMNS[column]: FLAG_WORDS[word](*facts) for column, word in words.items()}
        assert asdict(task_flags(flag_facts(None if status == "missing" else status, *facts))) == expected, facts


def flag_facts(
    status: str | None, stream: bool, joined: bool, reachable: bool, verified: bool, confirmed: bool
) -> TaskFacts:
    return TaskFacts(
        status=status,
        has_stream=stream,
        joined_room=joined,
        is_reachable=reachable,
        is_verified=verified,
        server_confirmed_no_stream=confirmed,
    )


@given(
    facts=st.builds(
        TaskFacts,
        status=st.sampled_from([*(status.value for status in TaskStatus), None]) | st.text(),
        has_stream=st.booleans(),
        joined_room=st.booleans(),
        is_reachable=st.booleans(),
        is_verified=st.booleans(),
        server_confirmed_no_stream=st.just(False),
    )
)
def test_a_confirmed_absence_of_a_stream_touches_no_flag_but_is_streaming(facts: TaskFacts) -> None:
    before = task_flags(facts)
    after = task_flags(replace(facts, server_confirmed_no_stream=True))
    assert replace(after, is_streaming=before.is_streaming) == before
    assert before.is_streaming or not after.is_streaming


def expected_status(facts: SessionFacts) -> str | None:
    """The design's sentence, clause by clause."""
    is_open = facts.turn in (TurnState.RUNNING, TurnState.WAITING)
    clauses = [
        (facts.is_deleted, "DELETE"),
        (facts.turn in (TurnState.ABANDONED, TurnState.UNKNOWN), "UNKNOWN"),
        (is_open and facts.cancel_requested, "CANCELLING"),
        (facts.turn is TurnState.WAITING or (is_open and facts.is_blocked), "PENDING_CONFIRMATION"),
        (facts.turn is TurnState.RUNNING, "RUNNING"),
        (facts.prompt_accepted and facts.cancel_requested, "CANCELLING"),
        (facts.prompt_accepted, "PENDING"),
        (facts.turn is TurnState.COMPLETED, "COMPLETED"),
        (facts.turn in (TurnState.PARTIAL_FAILED, TurnState.FAILED, TurnState.TIMED_OUT), "FAILED"),
        (facts.turn is TurnState.INTERRUPTED, "CANCELLED"),
        (True, None),
    ]
    return next(status for holds, status in clauses if holds)


def test_the_projection_is_total_and_says_what_the_design_says() -> None:
    for turn in [None, *TurnState]:
        for prompt, blocked, cancel, deleted in product((False, True), repeat=4):
            facts = SessionFacts(
                turn=turn,
                prompt_accepted=prompt,
                is_blocked=blocked,
                cancel_requested=cancel,
                is_deleted=deleted,
            )
            assert task_status(facts) == expected_status(facts), facts


def test_an_abandoned_turn_is_neither_idle_nor_done() -> None:
    status = task_status(SessionFacts(turn=TurnState.ABANDONED, prompt_accepted=True, cancel_requested=True))
    flags = task_flags(flag_facts(status, False, True, True, True, True))
    assert classify(status) is StatusClass.UNKNOWN
    assert flags.blocks_queued_dispatch
    assert not flags.is_terminal
