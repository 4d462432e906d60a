"""The sessions that a shell offers for SESSION. Whatever is wrong, it offers none: a completion must not disturb."""

from __future__ import annotations

from typing import Final

from interlock.cli import output
from interlock.vocabulary.errors import InterlockError

_SECONDS: Final = 2.0
_LIMIT: Final = 200


def offer_sessions(_context: object) -> list[tuple[str, str]]:
    """The id of each session that the server knows, and how it is known to a person; who needs one comes first."""
    from interlock.cli.look.session_lines import by_attention, shown_of
    from interlock.cli.server.api import ServerApi, home_folder, listed

    try:
        page = ServerApi.of_home(home_folder(None)).ask("GET", f"/api/tasks?limit={_LIMIT}", seconds=_SECONDS)
        tasks = by_attention(listed(page))
    except (InterlockError, OSError):
        return []
    words = [(str(task.get("agent", "")), str(task.get("title", "")), shown_of(task).words) for task in tasks]
    said = [output.escape(", ".join(word for word in one if word)) for one in words]
    return list(zip((str(task["task_id"]) for task in tasks), said, strict=True))
