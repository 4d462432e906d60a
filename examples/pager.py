"""Say it once when a session begins to need a person, or stops working without an end: for a bell, a chat, a phone.

    interlock up
    python examples/pager.py                     a line each
    python examples/pager.py notify-send         or a program, with the line as its argument

It is told by edges: a session that still needs the same thing is not news.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys

from interlock import InterlockError, connect_async
from interlock.vocabulary.ids import SessionId
from interlock.vocabulary.states import Activity, Attention
from interlock.vocabulary.wire.frames import TaskSummary

WORRIES = (Activity.STALLED, Activity.UNKNOWN)


def news(line: TaskSummary) -> str:
    """What somebody should know of a session now; blank for nothing."""
    if line.live is None:
        return ""
    if line.live.attention is not Attention.NONE:
        return f"{line.live.attention.value}: {line.question}"
    return line.live.activity.value if line.live.activity in WORRIES else ""


async def main(*program: str) -> None:
    told: dict[SessionId, str] = {}
    async with connect_async() as client:
        async for line in client.board():
            said = news(line)
            if said == told.get(line.task_id, ""):
                continue
            told[line.task_id] = said
            if said:
                text = f"{line.title or line.task_id} needs you: {said}"
                print(text, flush=True)
                if program:
                    await asyncio.to_thread(subprocess.run, (*program, text), check=False)


if __name__ == "__main__":
    try:
        asyncio.run(main(*sys.argv[1:]))
    except KeyboardInterrupt:
        pass
    except InterlockError as error:
        sys.exit(str(error))
