"""Which question is meant, and which of its answers. Pure.

Laws:
1. With one open question its name may be left out; with several it may not.
2. `approve` allows this once and no more, and only where one of the options means just that.
3. Words are no answer to a yes-or-no question: they could be taken for a yes.
4. What names nothing, or several things, is refused with the list of what there is.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from interlock.vocabulary.errors import UsageError

if TYPE_CHECKING:
    from interlock.vocabulary.wire.json_types import ApprovalJson, DialogOptionJson

_ALLOW: Final = "allow_once"
_REJECT: Final = "reject_once"


def choose_question(asked: Sequence[ApprovalJson], named: str, task_id: str) -> ApprovalJson:
    """The question that is meant: by its id, the beginning of it, its number in the list, or as the only one."""
    if not named:
        if len(asked) == 1:
            return asked[0]
        if not asked:
            raise UsageError(f"{task_id} has no open question", remedy="`interlock approvals` lists open questions")
        raise UsageError(f"{task_id} has {len(asked)} open questions: {_listed(asked)}", remedy="name one of them")
    found = [one for one in asked if str(one["approval_id"]) == named]
    found = found or [one for one in asked if str(one["approval_id"]).startswith(named)]
    if not found and named.isascii() and named.isdigit() and 0 < int(named) <= len(asked):
        found = [asked[int(named) - 1]]
    if len(found) == 1:
        return found[0]
    what = f"{named!r} may mean {len(found)} questions" if found else f"no open question {named!r} in {task_id}"
    listed = f": {_listed(asked)}" if asked else ""
    raise UsageError(f"{what}{listed}", remedy="`interlock approvals` lists open questions")


def _listed(asked: Sequence[ApprovalJson]) -> str:
    return ", ".join(f"{at}. {one['approval_id']} ({one['question']})" for at, one in enumerate(asked, start=1))


def choose_option(approval: ApprovalJson, text: str) -> DialogOptionJson:
    """One of the offered answers: by its label, the beginning of it, or its number."""
    options: list[DialogOptionJson] = list(approval.get("options", ()))
    wanted = text.casefold().strip()
    found = [one for one in options if str(one["label"]) == text]
    found = found or [one for one in options if str(one["label"]).casefold() == wanted]
    if not found and wanted.isascii() and wanted.isdigit() and 0 < int(wanted) <= len(options):
        found = [options[int(wanted) - 1]]
    found = found or [one for one in options if wanted and str(one["label"]).casefold().startswith(wanted)]
    if len(found) == 1:
        return found[0]
    how = "several options" if found else "no option"
    raise UsageError(f"{text!r} names {how}", remedy=f"it offers {_offered(options)}")


def _offered(options: Sequence[DialogOptionJson]) -> str:
    return ", ".join(f"{at}. {one['label']!r}" for at, one in enumerate(options, start=1)) or "none: give a text"


def is_yes_or_no(approval: ApprovalJson) -> bool:
    """Whether one of its options allows or rejects something."""
    return any(str(one.get("kind", "")).startswith(("allow", "reject")) for one in approval.get("options", ()))


def is_plain(approval: ApprovalJson) -> bool:
    """Whether one of its options, and no other, allows it just this once. Law 2."""
    return [one.get("kind") for one in approval.get("options", ())].count(_ALLOW) == 1


def approving(approval: ApprovalJson) -> DialogOptionJson | None:
    """The option that `approve` means; None: the question has no options at all. Law 2."""
    options = list(approval.get("options", ()))
    once = [one for one in options if one.get("kind") == _ALLOW]
    if not options or is_plain(approval):
        return once[0] if once else None
    why = "more than one option allows it" if once else "no option allows it just this once"
    raise UsageError(f"{why}: it offers {_offered(options)}", remedy=f"choose: {_answer_command(approval)}")


def denying(approval: ApprovalJson) -> DialogOptionJson | None:
    """The option that `deny` means; None: the agent is told no, and no option is named."""
    return next((one for one in approval.get("options", ()) if one.get("kind") == _REJECT), None)


def answering(approval: ApprovalJson, text: str) -> tuple[DialogOptionJson | None, str]:
    """What a text means as an answer: an option of that name, or the words themselves. Law 3."""
    wanted = text.casefold().strip()
    for option in approval.get("options", ()):
        if str(option["label"]).casefold() == wanted:
            return option, ""
    if is_yes_or_no(approval):
        options = list(approval["options"])
        raise UsageError(
            f"{text!r} is no answer to it: it offers {_offered(options)}",
            remedy=f"approve it, deny it, or choose: {_answer_command(approval)}",
        )
    if not text.strip():
        raise UsageError("an answer must not be blank", remedy="give a text, or --option")
    return None, text


def _answer_command(approval: ApprovalJson) -> str:
    words = ["interlock", "answer", str(approval["session_id"]), str(approval["approval_id"]), "--option"]
    return f"{shlex.join(words)} LABEL"


def spelled(option: DialogOptionJson, approval: ApprovalJson) -> str:
    """How the server is told of an option: by its label, or where two have the same one, by its id."""
    label = str(option["label"])
    is_unique = sum(str(one["label"]) == label for one in approval["options"]) == 1
    return label if is_unique else str(option.get("id") or label)
