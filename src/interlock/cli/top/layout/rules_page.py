"""The rules of one session as lines: whether they answer, what each says, and a rule for what is asked now. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from interlock.cli.rules.files import words_of
from interlock.cli.rules.session_rules import SessionRules
from interlock.cli.tables import Line, Tone
from interlock.cli.top.layout.wrapping import joined, plain_lines, wrapped_lines
from interlock.lifecycle.rules.verdict import RuleFile

_ANSWERS = "Rules answer what they allow or deny; whatever no rule names waits for you."


def rules_page(rules: SessionRules) -> Callable[[int], Sequence[Line]]:
    """The page, and at its end what may be added."""

    def lay(width: int) -> Sequence[Line]:
        tone = Tone.DOUBTFUL if rules.is_paused else Tone.ACTIVE if rules.files else Tone.PLAIN
        lines = wrapped_lines([_state(rules)], width, tone=tone)
        for file in rules.files:
            lines += [[], *wrapped_lines(plain_lines(_file(file)), width, tone=Tone.HEAD)]
            for rule in file.rules:
                count = rules.counts.get(rule.id, 0)
                said = f"{rule.then.value:<6}{rule.id}: {words_of(rule)}"
                lines += wrapped_lines(plain_lines(f"{said}{_times(count)}"), width, "  ")
        gone = {id: count for id, count in rules.counts.items() if not _is_known(rules.files, id)}
        for id, count in gone.items():
            lines += wrapped_lines(plain_lines(f"{id}: no longer in a file{_times(count)}"), width, "  ", Tone.FAINT)
        return [*lines, *_offer(rules, width)]

    return lay


def _state(rules: SessionRules) -> str:
    if rules.is_all_paused:
        return "Paused in every session: rules allow nothing. `interlock rules resume` ends that."
    if rules.is_paused:
        return "Paused in this session: rules allow nothing here, and still deny. p resumes them."
    if not rules.files:
        return "There are no rules here: every question waits for you. `interlock rules suggest` proposes some."
    return f"{_ANSWERS} p pauses them in this session."


def _file(file: RuleFile) -> str:
    if file.problems:
        return f"{file.path} cannot be used, so every question waits: {file.problems[0]}"
    trust = "" if file.is_trusted else " (not trusted: its allow rules do not count; `interlock rules trust`)"
    return f"{file.path}{trust}"


def _times(count: int) -> str:
    return "" if not count else f"   answered {count} here"


def _is_known(files: Sequence[RuleFile], id: str) -> bool:
    return any(rule.id == id for file in files for rule in file.rules)


def _offer(rules: SessionRules, width: int) -> list[Line]:
    if rules.no_offer:
        return [[], *wrapped_lines(plain_lines(f"For the open question: {rules.no_offer}."), width, tone=Tone.FAINT)]
    if not rules.offer:
        return []
    title = f"y adds this to {rules.path}. It allows exactly this command, of every agent, from the next time on;"
    return [
        [],
        *wrapped_lines(plain_lines(f"{title} this question still waits for you."), width, tone=Tone.HEAD),
        *(joined([(f"  {line}", Tone.PLAIN)]) for line in rules.offer.splitlines()),
    ]
