"""Puts the values of parameters into the steps of a plan, and makes one step for each item of a list.

Laws:
1. The steps of a list are called `id:0`, `id:1`, ...; who needs the step needs them all.
2. A value never becomes an option: a word of a command that begins with a template does not begin with `-`. The program
   of a command, its first word, is the plan's.
3. A path is looked at again when its values are in place.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from interlock.lifecycle.children.workflow_plan import STEP_BASE, PlanProblem, StepOutput, StepSpec
from interlock.lifecycle.plans.params import ParamValue
from interlock.lifecycle.plans.plan_table import PlanTable, shown
from interlock.lifecycle.plans.step_draft import StepDraft, refuse_path
from interlock.lifecycle.plans.templates import fenced, names_in, resolve
from interlock.vocabulary.ids import StepId

MAX_TEXT: Final = 64_000
MAX_REFERENCES: Final = 200


def expand(
    drafts: Sequence[StepDraft], values: Mapping[str, ParamValue], max_steps: int, problems: list[PlanProblem]
) -> tuple[StepSpec, ...]:
    """The steps with every value in place. What a value makes impossible is a problem."""
    items = {draft.id: _items(draft, values) for draft in drafts if draft.for_each}
    ids = {draft.id: tuple(_ids(draft, items)) for draft in drafts}
    count = sum(map(len, ids.values()))
    if count > max_steps:
        message = f"the plan has {count} steps with its lists, and max_steps is {max_steps}"
        problems.append(PlanProblem(message, "give shorter lists, or raise limits.max_steps"))
        return ()
    steps: list[StepSpec] = []
    for draft in drafts:
        if draft.each is not None:
            needs = tuple(each for needed in dict.fromkeys(draft.needs) for each in ids[needed])
            steps.append(_standing_for_items(draft, draft.each, needs))
            continue
        for number, step_id in enumerate(ids[draft.id]):
            item = items[draft.id][number] if draft.for_each else ""
            one = _Expansion(draft, step_id, item, values, items, problems)
            steps.append(one.step(tuple(each for needed in dict.fromkeys(draft.needs) for each in ids[needed])))
    problems += _same_outputs(steps)
    return tuple(steps)


def _standing_for_items(draft: StepDraft, each: tuple[str, str], needs: tuple[StepId, ...]) -> StepSpec:
    """What stands for the steps of items that are not known yet."""
    return StepSpec(
        id=StepId(draft.id),
        each=".".join(each),
        each_max=draft.each_max,
        depends_on=needs,
        required=draft.required,
        write_set=(".",) if draft.write else (),  # what its steps write is not known yet
        worktree=draft.worktree,
        base=draft.base,
    )


def expand_items(
    draft: StepDraft,
    standing: StepSpec,
    given: Sequence[str],
    values: Mapping[str, ParamValue],
    needs: tuple[StepId, ...],
    problems: list[PlanProblem],
) -> tuple[StepSpec, ...]:
    """A step for each item that came to be known; what an item makes impossible is a problem."""
    steps = []
    for number, item in enumerate(given):
        one = _Expansion(draft, StepId(f"{draft.id}:{number}"), item, values, {}, problems)
        steps.append(replace(one.step(needs), worktree=standing.worktree, base=standing.base))
    problems += _same_outputs(steps)
    return tuple(steps)


def _items(draft: StepDraft, values: Mapping[str, ParamValue]) -> tuple[str, ...]:
    found = values[draft.for_each]
    return found if isinstance(found, tuple) else (found,)


def _ids(draft: StepDraft, items: Mapping[str, Sequence[str]]) -> Iterator[StepId]:
    if not draft.for_each:
        yield StepId(draft.id)
    for number in range(len(items.get(draft.id, ()))):
        yield StepId(f"{draft.id}:{number}")


@dataclass(frozen=True, slots=True)
class _Expansion:
    """One step of a draft, and what goes into it."""

    draft: StepDraft
    id: StepId
    item: str
    values: Mapping[str, ParamValue]
    items: Mapping[str, Sequence[str]]
    problems: list[PlanProblem]

    @property
    def table(self) -> PlanTable:
        return PlanTable(f"step {self.id!r}", {}, self.problems)

    def step(self, needs: tuple[StepId, ...]) -> StepSpec:
        draft = self.draft
        text = self._text()
        return StepSpec(
            id=self.id,
            task=text if draft.kind == "prompt" else "",
            run=self._command(draft.run),
            gate=text if draft.kind == "gate" else "",
            choices=draft.choices,
            checks=tuple(self._command(check) for check in draft.checks),
            outputs=tuple(self._output(output) for output in draft.outputs),
            model_visible=draft.model_visible,
            rounds=draft.rounds,
            retries=draft.retries,
            retry_on=draft.retry_on,
            once=draft.once,
            worktree=draft.worktree,
            on_timeout=draft.on_timeout,
            base=tuple(self._bases()),
            agent=draft.agent,
            depends_on=needs,
            required=draft.required,
            timeout_ms=draft.timeout_ms,
            write_set=tuple(self._path("write", path) for path in draft.write),
            read_set=tuple(self._path("read", path) for path in draft.read),
        )

    def _bases(self) -> Iterator[str]:
        """The bases, those of a step that is made for each item as all of its steps."""
        for base in self.draft.base:
            step = base.removeprefix(STEP_BASE)
            if base.startswith(STEP_BASE) and step in self.items:
                yield from (f"{STEP_BASE}{step}:{number}" for number in range(len(self.items[step])))
            else:
                yield base

    def _text(self) -> str:
        text = self.draft.text
        names = names_in(text)
        given = sum(len("".join(self.values[one])) for one in names.params) + len(self.item) * text.count("{{")
        references = sum(len(self.items.get(one.step, ("",))) for one in names.steps)
        if len(text) + given > MAX_TEXT or references > MAX_REFERENCES:
            self.table.problem(
                "is too long with its values in place",
                f"keep a text below {MAX_TEXT} characters and {MAX_REFERENCES} values of steps",
            )
            return text
        each, item = self.draft.each, self.item
        if each and item:  # an agent wrote it: it is data, also in a text
            item = fenced(f"an item of {'.'.join(each)}", item)
        return resolve(text, self.values, item, is_filled=True, items=self.items)

    def _command(self, argv: tuple[str, ...]) -> tuple[str, ...]:
        words = tuple(self._word(word) for word in argv)
        if argv and "{{" in argv[0]:
            self.table.problem(
                f"takes its program from {shown(argv[0])}", "name the program itself; its arguments may be templates"
            )
        for word, written in zip(words, argv, strict=True):
            if word.startswith("-") and not written.startswith("-"):
                self.table.problem(
                    f"gives {shown(word)} to {argv[0]}, which would read it as an option",
                    "give a value that does not begin with -, or write it after an option, as in --name=VALUE",
                )
        return words

    def _path(self, key: str, written: str) -> str:
        path = self._word(written)
        if path != written:
            refuse_path(self.table, key, path, is_written=key != "read")
        return path

    def _output(self, output: StepOutput) -> StepOutput:
        if not output.path:
            return output
        path = self._path("path", output.path)
        if not any(_is_below(path, self._word(written)) for written in self.draft.write):
            self.table.problem(
                f"has the output {shown(path)}, which it may not write", f"step {self.draft.id}: name it under `write`"
            )
        return replace(output, path=path)

    def _word(self, written: str) -> str:
        return resolve(written, self.values, self.item) if "{{" in written else written


def _parts(path: str) -> tuple[str, ...]:
    return tuple(part for part in path.split("/") if part not in ("", "."))


def _is_below(path: str, folder: str) -> bool:
    """Whether a path is a folder, or lies below it."""
    parts = _parts(folder)
    return _parts(path)[: len(parts)] == parts


def _same_outputs(steps: Sequence[StepSpec]) -> Iterator[PlanProblem]:
    """Two steps that prove themselves by one file: the second would count what the first wrote."""
    owner: dict[tuple[str, ...], StepId] = {}
    for step in steps:
        for output in (one for one in step.outputs if one.path):
            other = owner.setdefault(_parts(output.path), step.id)
            if other != step.id:
                yield PlanProblem(
                    f"steps {other!r} and {step.id!r} have the same output {shown(output.path)}",
                    "give each its own path; {{ item }} may stand in it",
                )
