"""Whatever a plan file holds, it is read or refused, in a time that its size bounds."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlock.lifecycle.children.workflow_plan import InvalidWorkflow, WorkflowSpec, waves
from interlock.lifecycle.plans.plan_file import MAX_PLAN_BYTES, read_plan
from interlock.lifecycle.plans.step_draft import KINDS, UNSUPPORTED
from interlock.vocabulary.ids import WorkflowId
from tests.effort import examples
from tests.lifecycle.plan_files.test_plan_file import WHOLE

WORKFLOW: Final = WorkflowId("wf_1")
_SPELLED: Final = (
    "plan name params limits defaults step id needs agent timeout checks outputs worktree write read required for_each"
    " show choices on_timeout model_visible rounds type default path x max_steps max_running fields list"
)
KEYS: Final = st.sampled_from(sorted({*KINDS, *UNSUPPORTED, *_SPELLED.split()}))
_WORDS: Final = (
    "|a|b|{{ params.x }}|{{ steps.a.summary }}|{{ item }}|{{|params.x|list|int|file|1h|out/x|../x|.git|-x|stop|shared"
    "|steps.a.outputs.x|json|\u202e|\x00"
)
TEXTS = st.sampled_from(_WORDS.split("|")) | st.text(max_size=5)
VALUES = st.recursive(
    TEXTS | st.integers() | st.booleans() | st.floats(allow_nan=False),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4),
)
STEPS = st.lists(st.dictionaries(KEYS, VALUES, max_size=8), max_size=5)


def read(text: str | bytes, params: dict[str, Any]) -> WorkflowSpec | InvalidWorkflow:
    """What becomes of a plan. Anything but its own refusal is raised."""
    try:
        return read_plan(text, params, WORKFLOW)
    except InvalidWorkflow as refused:
        return refused


def tried(text: str | bytes, params: dict[str, Any]) -> None:
    found = read(text, params)
    if isinstance(found, InvalidWorkflow):
        assert found.problems
        assert all(problem.message and problem.remedy for problem in found.problems)
    else:
        assert sorted(step for wave in waves(found) for step in wave) == sorted(step.id for step in found.steps)


def spelled(value: object) -> str:
    """A value in TOML."""
    match value:
        case bool():
            return str(value).lower()
        case str():
            return '"' + "".join(f"\\U{ord(one):08x}" for one in value if not 0xD800 <= ord(one) <= 0xDFFF) + '"'
        case list():
            return f"[{', '.join(map(spelled, value))}]"
        case dict():
            return f"{{ {', '.join(f'{key} = {spelled(one)}' for key, one in value.items())} }}"
        case _:
            return repr(value)


@given(st.binary(max_size=200) | st.text(max_size=200))
def test_any_text_is_read_or_refused(text: str | bytes) -> None:
    tried(text, {})


@settings(max_examples=examples(100, 3000))
@given(STEPS, VALUES, VALUES, VALUES, st.dictionaries(st.just("x") | TEXTS, VALUES, max_size=2))
def test_any_tables_are_read_or_refused(
    steps: list[dict[str, object]], params: object, limits: object, defaults: object, given_params: dict[str, Any]
) -> None:
    head = f"params = {spelled(params)}\nlimits = {spelled(limits)}\ndefaults = {spelled(defaults)}\n"
    tried(f"plan = 1\n{head}step = {spelled(steps)}", given_params)


@settings(max_examples=examples(200, 5000))
@given(st.data())
def test_a_plan_with_a_piece_changed_is_read_or_refused(data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(WHOLE)))
    end = data.draw(st.integers(start, min(len(WHOLE), start + 20)))
    pieces = ["", '"', "[", "]", "{{ item }}", "\n", "x", " = ", "[[step]]\n"]
    tried(WHOLE[:start] + data.draw(st.sampled_from(pieces) | st.text(max_size=5)) + WHOLE[end:], {})


def many(piece: str) -> str:
    return piece * (MAX_PLAN_BYTES // 2 // len(piece))


def steps(count: int, more: Callable[[int], str] = lambda _: "") -> str:
    head = "plan = 1\nlimits = { max_steps = 200, max_running = 64 }\n"
    return head + "".join(f'[[step]]\nid = "s{number}"\nrun = ["x"]\n{more(number)}\n' for number in range(count))


def names(letter: str, count: int) -> str:
    return str([f"{letter}{number}" for number in range(count)])


def prompt(text: str) -> str:
    return f'plan = 1\n[[step]]\nid = "a"\nagent = "c"\nprompt = "{text}"'


def lists() -> str:
    items = ", ".join(['"b"'] * 100)
    step = 'for_each = "params.x"\nagent = "c"\nprompt = "' + "{{ item }}" * 100 + '"'
    each = "".join(f'[[step]]\nid = "s{number}"\n{step}\n' for number in range(190))
    return f'plan = 1\nlimits.max_steps = 200\nparams.x = {{ type = "list", default = [{items}] }}\n{each}'


WORST: Final = {
    "a long dotted key": f"{many('a.')}a = 1",
    "a long dotted key with quotes": many('"".') + "a = 1",
    "a long header and many keys": f"[{many('a.')}a]\n" + "".join(f"k{number} = 1\n" for number in range(8000)),
    "39 parts and many keys": f"[{'a.' * 38}a]\n" + "".join(f"k{number} = 1\n" for number in range(20_000)),
    "one long word": many("a"),
    "many quotes": many('"'),
    "many dots": many("."),
    "many blanks": f"a{many(' ')}",
    "deep lists": f"x = {many('[')}",
    "deep tables": f"x = {many('{a=')}",
    "unknown keys": "plan = 1\n" + "".join(f"k{number} = 1\n" for number in range(10_000)),
    "many braces": prompt(many("{{")),
    "many templates": prompt(many("{{ x }}")),
    "many steps": steps(5000),
    "all need all": steps(150, lambda at: f"needs = {names('s', at)}"),
    "all write the same": steps(200, lambda _: f"write = {names('p', 20)}"),
    "all write something else": steps(200, lambda at: f"write = {names(f'{at}p', 20)}"),
    "lists of lists": lists(),
}


@pytest.mark.parametrize("name", WORST)
def test_the_worst_files_take_no_long(name: str) -> None:
    began = time.process_time()
    tried(WORST[name][:MAX_PLAN_BYTES], {})
    assert time.process_time() - began < 20, "its time is not bounded by its size"
