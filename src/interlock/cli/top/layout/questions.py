"""What the selected session asks, and the keys that answer it. Pure.

Laws:
1. What a key would do is what the screen says: each answer stands with its key, and no other key answers.
2. A question that does not fit is cut with a word about it, and can be seen whole.
3. A question that was answered says so, and takes no second answer.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Final

import msgspec

from interlock.cli.look.session_lines import age, duration, read_moment
from interlock.cli.output import escape
from interlock.cli.tables import Line, Tone
from interlock.cli.top.keys import key_of
from interlock.cli.top.layout.wrapping import MAX_CHARACTERS, joined, plain_lines, shortened, wrap, wrapped_lines
from interlock.cli.work.choices import approving, denying, is_yes_or_no
from interlock.vocabulary.errors import UsageError
from interlock.vocabulary.wire.approval import Approval

if TYPE_CHECKING:
    from interlock.vocabulary.wire.json_types import ApprovalJson, DialogOptionJson

MAX_OPTIONS: Final = 9
_LEAST_LINES: Final = 2
_AIRY: Final = 12
_INDENT, _DEEPER = "  ", "    "
_ALLOWED: Final = frozenset({"approval", "plan"})


def body_of(approval: Approval) -> ApprovalJson:
    """A question as the rest of the command line knows it."""
    body: ApprovalJson = msgspec.to_builtins(approval)
    return body


def can_approve(asked: ApprovalJson) -> bool:
    """Whether one key can say yes, this once."""
    try:
        option = approving(asked)
    except UsageError:
        return False
    return option is not None or (not asked.get("options") and asked.get("attention") in _ALLOWED)


def can_deny(asked: ApprovalJson) -> bool:
    """Whether one key can say no."""
    return denying(asked) is not None or is_yes_or_no(asked) or asked.get("attention") in _ALLOWED


def can_reply(asked: ApprovalJson) -> bool:
    """Whether words are an answer."""
    return not is_yes_or_no(asked)


def question_lines(
    asked: Sequence[ApprovalJson], at: int, width: int, height: int, now: datetime, *, is_live: bool = True
) -> list[Line]:
    """The question in brief, at most so many lines; nothing where nothing is asked."""
    if not asked:
        return []
    one = asked[at]
    head, text = _head(one, at, len(asked), now, is_live=is_live), _text(one, width)
    options = _options(one, width)
    if not is_live:
        text, options = [_faint(line) for line in text], [_faint(line) for line in options]
    keys = _keys(one, len(asked), is_live=is_live)
    room = max(_LEAST_LINES, height - 2 - len(options))
    if len(text) > room:
        hidden = len(text) - room + 1
        text = [*text[: room - 1], [(f"  [{hidden} lines more: v shows all of it]", Tone.DOUBTFUL.value)]]
    has_air = bool(options) and height >= _AIRY and len(text) < room
    return [head, *text, *([[]] if has_air else []), *options, keys]


def option_at(asked: ApprovalJson, width: int, height: int, row: int) -> int | None:
    """The number of the answer that stands in a row of `question_lines`, of which there are so many; None: none does.
    An answer that has no key has a number, too."""
    numbers = [
        number
        for number, option in enumerate(asked.get("options", ()), start=1)
        for _ in range(len(_option_lines(option, width)))
    ]
    at = row - (height - 1 - len(numbers))
    return numbers[at] if 0 <= at < len(numbers) else None


def whole_question(asked: ApprovalJson, width: int) -> list[Line]:
    """All of it, for a panel."""
    return [*_text(asked, width, is_whole=True), [], *_options(asked, width)]


def _head(asked: ApprovalJson, at: int, count: int, now: datetime, *, is_live: bool) -> Line:
    place = f" {at + 1} of {count}" if count > 1 else ""
    deadline = read_moment(asked.get("deadline_at"))
    waited = age(asked.get("asked_at"), now)
    left = "" if deadline is None else f", {duration((deadline - now).total_seconds())} left"
    said = [(f"! {asked['attention']}{place}", Tone.URGENT), (f"  asked {waited} ago{left}", Tone.FAINT)]
    if is_live:
        return joined(said)
    return joined(
        [(f"! {asked['attention']}{place}", Tone.FAINT), ("  last known; it may have been answered since", Tone.FAINT)]
    )


def _text(asked: ApprovalJson, width: int, *, is_whole: bool = False) -> list[Line]:
    question, left_out = (str(asked["question"]), 0) if is_whole else shortened(str(asked["question"]))
    again = f"asked again: the decision did not reach the agent: {asked['problem']}" if asked.get("problem") else ""
    lines = wrapped_lines(plain_lines(again), width, _INDENT, Tone.DOUBTFUL)
    lines += wrapped_lines(plain_lines(question), width, _INDENT)
    # What a question was asked with says the same again; what is to be allowed is known by its arguments alone.
    if asked.get("tool") and (is_whole or asked["attention"] in _ALLOWED):
        arguments, more = _arguments(str(asked["tool"]), asked.get("arguments"), width, is_whole=is_whole)
        left_out += more
        lines += arguments
    if left_out:
        lines.append([(f"  [{left_out:,} characters more: v shows all of it]", Tone.DOUBTFUL.value)])
    return lines


def _arguments(tool: str, arguments: object, width: int, *, is_whole: bool) -> tuple[list[Line], int]:
    """What the tool is to be run with: as a person reads it, or exactly; and how many characters are left out.

    Text of several lines goes on deeper than any name stands: it cannot pass for another argument.
    """
    spelled = json.dumps(arguments, ensure_ascii=False, indent=1 if is_whole else None)
    if is_whole or len(spelled) > MAX_CHARACTERS or not isinstance(arguments, dict):
        shown, left_out = (spelled, 0) if is_whole else shortened(spelled)
        return wrapped_lines(plain_lines(f"{tool} {shown}"), width, _INDENT), left_out
    lines: list[Line] = []
    for name, value in arguments.items():
        said = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        first, *rest = plain_lines(said) or [""]
        said = f"{'' if lines else f'{escape(tool)}  '}{escape(str(name))}: {first}"
        head, *more = wrap(said, max(1, width - len(_DEEPER)))
        lines.append([(_INDENT + head, Tone.PLAIN.value)])
        lines += wrapped_lines([*more, *rest], width, _DEEPER)
    return lines or wrapped_lines([escape(tool)], width, _INDENT), 0


def _options(asked: ApprovalJson, width: int) -> list[Line]:
    lines: list[Line] = []
    for number, option in enumerate(asked.get("options", ()), start=1):
        key = str(number) if number <= MAX_OPTIONS else " "
        first, *rest = _option_lines(option, width)
        lines.append(joined([(f"  {key}  ", Tone.HEAD), *first]))
        lines += [joined([("     ", Tone.PLAIN), *line]) for line in rest]
    return lines


def _faint(line: Line) -> Line:
    return [(text, Tone.FAINT.value) for text, _ in line]


def _option_lines(option: DialogOptionJson, width: int) -> list[Line]:
    return wrapped_lines(plain_lines(str(option["label"])) or ["(blank)"], max(1, width - 6))


def _keys(asked: ApprovalJson, count: int, *, is_live: bool) -> Line:
    if asked["state"] != "open":
        return joined([("  answered; the agent has yet to go on", Tone.FAINT)])
    if not is_live:
        return joined([("  it can be answered when the server is back", Tone.FAINT)])
    offered = len(asked.get("options", ()))
    numbers = f"1-{min(offered, MAX_OPTIONS)}" if offered > 1 else "1" if offered else ""
    said = [(key_of("approve"), "approve")] if can_approve(asked) else []
    said += [(key_of("deny"), "deny")] if can_deny(asked) else []
    said += [(numbers, "choose")] if numbers else []
    said += [(key_of("reply"), "reply")] if can_reply(asked) else []
    said += [(key_of("question(1)"), "next question")] if count > 1 else []
    pieces = [piece for key, word in said for piece in ((f"  {key}", Tone.HEAD), (f" {word}", Tone.FAINT))]
    return joined(pieces)
