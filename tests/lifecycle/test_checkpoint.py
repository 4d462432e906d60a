"""Ready is proven: outputs that fit, checks that were run, files inside the write set, a checkpoint of now."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from interlock.lifecycle.children.checkpoint import (
    ChangedFiles,
    CheckFact,
    OutputFact,
    StepFacts,
    bound_checkpoint,
    checkpoint_id,
    missing_proofs,
)
from interlock.lifecycle.children.workflow_plan import StepOutput, StepSpec
from interlock.vocabulary.events.registry import Json
from interlock.vocabulary.ids import StepId, SubagentId
from tests.each_row import each_row

BEGAN = datetime(2030, 1, 1, tzinfo=UTC)
LATER = BEGAN + timedelta(seconds=5)
CHILD = SubagentId("sub_1")
ORDERS = StepOutput(name="orders", path="out/orders.json", type="json")
CHECK = ("make", "test")
STEP = StepSpec(id=StepId("a"), task="x", outputs=(ORDERS,), checks=(CHECK,), write_set=("out",))
FOUND = OutputFact(output=ORDERS, written_at=LATER, size_bytes=2, sha256="d1", content=b"{}")
PASSED = CheckFact(argv=CHECK, exit_code=0)
FACTS = StepFacts(
    began_at=BEGAN, outputs=(FOUND,), checks=(PASSED,), after=(FOUND,), changed=ChangedFiles(paths=("out/orders.json",))
)


def test_a_step_with_every_proof_is_ready() -> None:
    assert missing_proofs(STEP, FACTS) == ()


@each_row(
    ("facts", "why"),
    [
        # "Done, wrote orders.json", and there is none.
        (replace(FACTS, outputs=()), "output orders: it was not looked at"),
        (replace(FACTS, outputs=(OutputFact(output=ORDERS, problem="no such file"),)), "output orders: no such file"),
        # The file of an older turn.
        (replace(FACTS, outputs=(replace(FOUND, written_at=BEGAN - timedelta(seconds=1)),)), "since the step began"),
        (replace(FACTS, outputs=(replace(FOUND, written_at=None),)), "not known when it was written"),
        (replace(FACTS, outputs=(replace(FOUND, content=b"{"),)), "is no JSON"),
        (replace(FACTS, outputs=(replace(FOUND, content=None),)), "is no JSON"),
        (replace(FACTS, outputs=(replace(FOUND, content=b"[" * 100_000),)), "is no JSON"),
        (replace(FACTS, outputs=(replace(FOUND, content=b"3"),)), "no JSON object or list"),
        (replace(FACTS, checks=()), "check make test: it was not run"),
        (replace(FACTS, checks=(CheckFact(argv=("true",), exit_code=0),)), "check make test: it was not run"),
        (replace(FACTS, checks=(CheckFact(argv=CHECK, exit_code=2),)), "check make test: it exited 2"),
        (replace(FACTS, checks=(CheckFact(argv=CHECK, exit_code=None, problem="took too long"),)), "took too long"),
        (replace(FACTS, checks=(CheckFact(argv=CHECK, exit_code=None),)), "it exited None"),
        # A check that edits what it is to prove.
        (replace(FACTS, after=(replace(FOUND, sha256="d2"),)), "changed while the checks ran"),
        (replace(FACTS, after=()), "changed while the checks ran"),
        (replace(FACTS, changed=ChangedFiles(paths=("out/a", "src/b.py"))), "outside of its write set: src/b.py"),
        (replace(FACTS, changed=ChangedFiles(paths=("outer/a",))), "outside of its write set: outer/a"),
        (replace(FACTS, changed=ChangedFiles(paths=("out/../../b",))), "outside of its write set"),
        (replace(FACTS, changed=ChangedFiles(paths=tuple("abcdefg"))), "a, b, c, d, e and 2 more"),
    ],
)
def test_a_missing_proof_is_named(facts: StepFacts, why: str) -> None:
    missing = missing_proofs(STEP, facts)
    assert len(missing) == 1
    assert why in missing[0]


def test_every_missing_proof_is_named() -> None:
    assert len(missing_proofs(STEP, StepFacts(began_at=BEGAN, changed=ChangedFiles(paths=("x",))))) == 3


def test_a_change_that_may_be_of_others_is_not_held_against_a_step() -> None:
    assert missing_proofs(STEP, replace(FACTS, changed=ChangedFiles(paths=("src/b.py",), doubt="shared"))) == ()
    assert missing_proofs(replace(STEP, write_set=(".",)), replace(FACTS, changed=ChangedFiles(paths=("b",)))) == ()


FIELDS = replace(ORDERS, fields=(("file", "text"), ("line", "int"), ("sure", "bool")))


@each_row(
    ("is_list", "content", "why"),
    [
        (False, b'{"file": "a", "line": 3, "sure": true, "more": 1}', ""),
        (False, b'{"file": "a", "line": 3}', "has no field 'sure'"),
        (False, b'{"file": "a", "line": "3", "sure": true}', "has a field 'line' that is no int"),
        (False, b'{"file": "a", "line": true, "sure": true}', "has a field 'line' that is no int"),
        (False, b'{"file": "a", "line": 3, "sure": 1}', "has a field 'sure' that is no bool"),
        (False, b"[]", "is no object"),
        (True, b"[]", ""),
        (True, b"{}", "is no JSON list"),
        (True, b'[{"file": "a", "line": 3, "sure": true}, {"file": null}]', "item 1 of out/orders.json"),
        (True, b"[3]", "item 0 of out/orders.json is no object"),
    ],
)
def test_json_is_checked_field_by_field(is_list: bool, content: bytes, why: str) -> None:
    output = replace(FIELDS, is_list=is_list)
    fact = replace(FOUND, output=output, content=content)
    missing = missing_proofs(replace(STEP, outputs=(output,)), replace(FACTS, outputs=(fact,), after=(fact,)))
    assert why in "".join(missing)
    assert bool(missing) == bool(why)


@each_row(
    "checkpoint",
    [
        None,
        "checkpoint_ready",
        [{"status": "checkpoint_ready", "checkpoint_id": "sub_1.2"}],
        {"status": "checkpoint_ready"},  # quoted from a file, or from a prompt
        {"status": "checkpoint_ready", "checkpoint_id": "sub_1.1"},  # of the attempt before
        {"status": "checkpoint_ready", "checkpoint_id": "sub_2.2"},  # of another child
        {"status": "checkpoint_ready", "checkpoint_id": ["sub_1.2"]},
    ],
)
def test_a_checkpoint_of_something_else_is_none(checkpoint: Json) -> None:
    assert bound_checkpoint(checkpoint, checkpoint_id(CHILD, 2)) is None


def test_a_checkpoint_of_this_attempt_counts() -> None:
    checkpoint: Json = {"status": "partial", "checkpoint_id": "sub_1.2"}
    assert bound_checkpoint(checkpoint, checkpoint_id(CHILD, 2)) == checkpoint


@given(st.binary(max_size=60), st.booleans())
def test_any_content_is_judged(content: bytes, is_list: bool) -> None:
    fact = replace(FOUND, output=replace(FIELDS, is_list=is_list), content=content)
    missing_proofs(replace(STEP, outputs=(fact.output,)), replace(FACTS, outputs=(fact,), after=(fact,)))
