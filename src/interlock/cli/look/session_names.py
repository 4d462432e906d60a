"""The sessions and agents that a shell offers to complete. Whatever is wrong, it offers none: a completion must not
disturb."""

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
    from interlock.cli.wire.routes import TASKS

    try:
        page = ServerApi.of_home(home_folder(None)).get_once(TASKS, seconds=_SECONDS, limit=_LIMIT)
        tasks = by_attention(listed(page))
    except (InterlockError, OSError):
        return []
    words = [(task["agent"], task["title"], shown_of(task).words) for task in tasks]
    said = [output.escape(", ".join(word for word in one if word)) for one in words]
    return list(zip((task["task_id"] for task in tasks), said, strict=True))


def offer_agents(_context: object) -> list[tuple[str, str]]:
    """Each agent of the configuration, and how it is driven."""
    import os

    from interlock.runtime.config.loading import load

    try:
        agents = load(os.environ).config.agents
    except (InterlockError, OSError):
        return []
    return [(name, output.escape(agent.driver)) for name, agent in agents.items()]
