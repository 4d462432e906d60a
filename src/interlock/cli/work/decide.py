"""`interlock approve`, `deny`, `answer` and `approvals`: what agents ask, and a person's answer."""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Final, TypeAlias
from urllib.parse import quote

from cyclopts import Parameter

from interlock.cli import output
from interlock.cli.look.session_lines import age, find_task, shown_of
from interlock.cli.look.show import asked_lines, commands
from interlock.cli.server.api import ServerApi, home_folder
from interlock.cli.server.options import HomeOption, JsonFlag, SessionArgument
from interlock.cli.tables import Line, Tone
from interlock.cli.wire.routes import APPROVALS, PAGE, task_approvals, task_detail, task_path
from interlock.cli.work.choices import answering, approving, choose_option, choose_question, denying, spelled
from interlock.cli.work.retrying import act, new_id, not_known, read_words
from interlock.vocabulary.errors import Unreachable, UsageError
from interlock.vocabulary.ids import SPAWN_ID_VARIABLE
from interlock.vocabulary.wire.resources import ApprovalStanding

if TYPE_CHECKING:
    from interlock.cli.wire.json_shapes import ApprovalsJson, DecisionJson
    from interlock.vocabulary.wire.json_types import ApprovalJson, DialogOptionJson

SHOWN_WITHIN_SECONDS: Final = 5.0
_WORKFLOW: Final = "wf_"
_LOOK_SECONDS: Final = 0.1
_ASKING: Final = ("approval", "question", "plan", "decision")

ApprovalArgument: TypeAlias = Annotated[
    str, Parameter(help="The question's id, the beginning of it, or its number; not needed where it is the only one.")
]
ReasonOption: TypeAlias = Annotated[str, Parameter(help="A reason, given to the agent and kept in the log.")]


def approve(
    session: SessionArgument,
    approval: ApprovalArgument = "",
    /,
    *,
    reason: ReasonOption = "",
    home: HomeOption = None,
    json: JsonFlag = False,
) -> int:
    """Allow what an agent asks for, this once. What allows more is chosen by `interlock answer --option`.

    Exit code 2: nothing is asked under that name now, or the question has no such answer.
    """
    api = ServerApi.of_home(home_folder(home))
    asked = find_question(api, session, approval)
    return _decide(api, asked, "approved", approving(asked), text=reason, is_allowed=True, json=json)


def deny(
    session: SessionArgument,
    approval: ApprovalArgument = "",
    /,
    *,
    reason: ReasonOption = "",
    home: HomeOption = None,
    json: JsonFlag = False,
) -> int:
    """Refuse what an agent asks for. Exit code 2: nothing is asked under that name now."""
    api = ServerApi.of_home(home_folder(home))
    asked = find_question(api, session, approval)
    return _decide(api, asked, "denied", denying(asked), text=reason, is_allowed=False, json=json)


def answer(
    session: SessionArgument,
    approval_or_text: Annotated[
        str, Parameter(allow_leading_hyphen=True, help="The answer in words; or the question, as for `approve`.")
    ] = "",
    text: Annotated[
        str | None,
        Parameter(allow_leading_hyphen=True, help="The answer, behind the question; - for standard input."),
    ] = None,
    /,
    *,
    option: Annotated[
        str | None, Parameter(help="One of the offered answers: its label, the beginning of it, or its number.")
    ] = None,
    home: HomeOption = None,
    json: JsonFlag = False,
) -> int:
    """Answer a question: by one of its options, or in words.

    Exit code 2: nothing is asked under that name now, or the question has no such answer.
    """
    if option is not None and text is not None:
        raise UsageError("there are two answers", remedy="give a text or --option")
    if option is None and text is None:
        approval_or_text, text = "", approval_or_text
    words = "" if text is None else read_words(text, "the answer")
    if approval_or_text.startswith("-"):
        raise UsageError(f"there is no option {approval_or_text}", remedy="see `interlock answer --help`")
    api = ServerApi.of_home(home_folder(home))
    asked = find_question(api, session, approval_or_text)
    if option is not None:
        chosen = choose_option(asked, option)
        return _decide(api, asked, "answered", chosen, is_allowed=not _rejects(chosen), json=json)
    found, said = answering(asked, words)
    return _decide(api, asked, "answered", found, text=said, is_allowed=found is None or not _rejects(found), json=json)


def approvals(*, home: HomeOption = None, json: JsonFlag = False) -> int:
    """List every open question of every session, the oldest first, with the commands that answer it."""
    api = ServerApi.of_home(home_folder(home))
    asked = list(api.items(APPROVALS, limit=PAGE))
    if json:
        told: ApprovalsJson = {"approvals": asked}
        output.print_json(told)
        return 0
    if not asked:
        output.note("nothing is asked")
    counts = {one["session_id"]: sum(other["session_id"] == one["session_id"] for other in asked) for one in asked}
    now = datetime.now(UTC)
    for approval in asked:
        output.print_painted(_lines(approval, now, is_only=counts[approval["session_id"]] == 1))
    return 0


def _lines(approval: ApprovalJson, now: datetime, *, is_only: bool) -> list[Line]:
    asked = f"  {approval['session_id']}  {approval['approval_id']}  asked {age(approval.get('asked_at'), now)} ago"
    asked += "" if approval.get("is_answerable", True) else ", no server runs the session, so it cannot be answered now"
    options = approval.get("options", ())
    return [
        [(str(approval["attention"]), Tone.URGENT.value), (asked, "")],
        *asked_lines(approval),
        *([(f"  {at}. {one['label']}", "")] for at, one in enumerate(options, start=1)),
        *([("    ", ""), (line, Tone.HEAD.value)] for line in commands(approval, is_only=is_only)),
    ]


def find_question(api: ServerApi, session: str, named: str) -> ApprovalJson:
    """The open question that is meant. One that is over is told with what became of it. `WORKFLOW:STEP` is the
    question of a step."""
    if session.startswith(_WORKFLOW) and ":" in session and not named:
        session, named = f"ses_{session.partition(':')[0]}", session
    task_id = str(find_task(api, session)["task_id"])
    asked = _asked(api, task_id)
    try:
        return choose_question(asked, named, task_id)
    except UsageError:
        past = _past(api, task_id, named) if named else None
        if past is None:
            raise
        became = f" ({past['outcome']})" if past.get("outcome") else ""
        raise UsageError(
            f"question {past['approval_id']} is {past['state']} already{became}: {past['question']}",
            remedy=f"see `interlock show {task_id}`",
        ) from None


def _asked(api: ServerApi, task_id: str) -> list[ApprovalJson]:
    """What is asked now. An agent may say that it needs somebody before its screen shows what for: that is awaited."""
    deadline = time.monotonic() + SHOWN_WITHIN_SECONDS
    while True:
        detail = api.get(task_detail(task_id))
        asked = detail["approvals"]
        shown = shown_of(detail["summary"])
        is_due = shown.needs_person and shown.attention in _ASKING
        if asked or not is_due or time.monotonic() > deadline:
            return asked
        time.sleep(_LOOK_SECONDS)


def _past(api: ServerApi, task_id: str, named: str) -> ApprovalJson | None:
    known = list(api.items(task_approvals(task_id), limit=PAGE))
    found = [one for one in known if str(one["approval_id"]).startswith(named) and one["state"] != "open"]
    return found[0] if len(found) == 1 else None


def _rejects(option: DialogOptionJson) -> bool:
    return str(option.get("kind", "")).startswith("reject")


def _decide(
    api: ServerApi,
    asked: ApprovalJson,
    done: str,
    option: DialogOptionJson | None,
    *,
    is_allowed: bool,
    json: bool,
    text: str = "",
) -> int:
    decision_id = new_id("dec")
    body = {
        "is_allowed": is_allowed,
        "option": spelled(option, asked) if option is not None else "",
        "text": text,
        "from_spawn": os.environ.get(SPAWN_ID_VARIABLE, ""),
    }
    task_id, name = str(asked["session_id"]), quote(str(asked["approval_id"]), safe="")
    path = f"{task_path(task_id)}/approvals/{name}/decision"
    try:
        told = act(api, ApprovalStanding, "POST", path, body, key=decision_id, task_id=task_id)
    except Unreachable as error:
        raise not_known(error, "see `interlock approvals`, and decide again if it is still asked") from error
    if json:
        decision: DecisionJson = {
            "session_id": task_id,
            "approval_id": told.approval_id,
            "state": told.state,
            "is_allowed": is_allowed,
            "option": None if option is None else option["label"],
            "text": text,
        }
        output.print_json(decision)
        return 0
    chosen = f" with {option['label']!r}" if option is not None else ""
    said = f", saying {text!r}" if text else ""
    output.print_text(f"{done}{chosen}{said}: {asked['question']}")
    return 0
