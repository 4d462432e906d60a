"""`interlock search`: messages of all sessions, found by their words.

Law: an answer that may lack something says so, and its exit code is 3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock.cli import output
from interlock.cli.log.purge import parse_day
from interlock.cli.look.session_lines import find_task, short_ids
from interlock.cli.server import options
from interlock.cli.server.api import ServerApi, home_folder, listed
from interlock.cli.tables import Line, Tone
from interlock.cli.wire.routes import SEARCH
from interlock.vocabulary.errors import UsageError

if TYPE_CHECKING:
    from interlock.cli.wire.json_shapes import FoundMessageJson, FoundMessagesJson
    from interlock.vocabulary.wire.json_types import SearchHitJson, SearchPageJson

_MOST = 100
_ROLES = ("user", "answer", "commentary", "tool", "end")


def search(
    *words: str,
    session: str = "",
    agent: str = "",
    role: str = "",
    since: str = "",
    until: str = "",
    limit: int = 20,
    after: str = "",
    home: options.HomeOption = None,
    json: options.JsonFlag = False,
) -> int:
    """Find messages by their words: prompts, answers, tools and their output, and how turns failed.

    All words have to occur, in any order. Sessions that ended or were archived are searched too. The newest come first.

    Parameters
    ----------
    words
        Words; "several words" in this order, word* for a beginning, -word (after --) for what must not occur.
    session
        Only this session: its ID (any unique prefix or suffix) or a word of its title.
    agent
        Only sessions of this agent.
    role
        Only user, answer, commentary, tool or end.
    since
        Only from this day (UTC) or time on.
    until
        Only before this day (UTC) or time.
    limit
        Show at most N messages, 100 or less.
    after
        The next page: what the page before says.
    """
    if not 1 <= limit <= _MOST:
        raise UsageError(f"--limit {limit} is out of range", remedy=f"give a number from 1 to {_MOST}")
    if role and role not in _ROLES:
        raise UsageError(f"unknown role {role!r}", remedy=f"give one of {', '.join(_ROLES)}")
    times = {name: parse_day(text).isoformat() for name, text in (("since", since), ("until", until)) if text}
    api = ServerApi.of_home(home_folder(home))
    page = api.get(
        SEARCH,
        q=" ".join(words),
        task=find_task(api, session)["task_id"] if session else None,
        agent=agent or None,
        role=role or None,
        after=after or None,
        limit=limit,
        **times,
    )
    if json:
        output.print_json(_json(page))
    else:
        output.print_painted(_lines(listed(page)))
        output.flush()
        _tell_rest(page)
    return _tell_doubt(page)


def _json(page: SearchPageJson) -> FoundMessagesJson:
    return {
        "messages": [_message(one) for one in listed(page)],
        "next": page["next"],
        "is_complete": page["is_complete"],
        "is_cut": page["is_cut"],
        "progress": page["progress"],
    }


def _message(hit: SearchHitJson) -> FoundMessageJson:
    return {
        "session_id": hit["task_id"],
        "agent": hit["agent"],
        "title": hit["title"],
        "seq": hit["seq"],
        "turn_id": hit["turn_id"],
        "role": hit["role"],
        "at": hit["at"],
        "excerpt": hit["excerpt"],
        "matches": hit["matches"],
        "is_lost": hit["is_lost"],
    }


def _lines(hits: list[SearchHitJson]) -> list[Line]:
    shorts = short_ids(list(dict.fromkeys(hit["task_id"] for hit in hits)))
    lines: list[Line] = []
    for hit in hits:
        when = hit["at"][:16].replace("T", " ")
        head = "  ".join(part for part in (when, hit["agent"], hit["role"], hit["title"]) if part)
        lines.append([(shorts[hit["task_id"]], Tone.HEAD.value), (f"  {head}", Tone.FAINT.value)])
        lines.append([("  ", ""), *_excerpt(hit)])
    return lines


def _excerpt(hit: SearchHitJson) -> Line:
    if hit["is_lost"]:
        return [("the log cannot give this message any more: see `interlock log verify`", Tone.DOUBTFUL.value)]
    text, parts, last = hit["excerpt"], [], 0
    for begin, end in hit["matches"]:
        parts += [(text[last:begin], ""), (text[begin:end], Tone.URGENT.value)]
        last = end
    return [*(one for one in parts if one[0]), (text[last:], "")]


def _tell_rest(page: SearchPageJson) -> None:
    if not page["items"]:
        output.note("no message matches")
    elif page["next"] is not None:
        output.note(f"there are more: add --after {page['next']}")


def _tell_doubt(page: SearchPageJson) -> int:
    if page["is_cut"]:
        output.note("the search took too long and was cut off: there may be more; give more words, or a session")
    elif not page["is_complete"]:
        output.note(f"the index is still being made ({page['progress']:.0%}): there may be more, ask again")
    return 0 if page["is_complete"] else 3
