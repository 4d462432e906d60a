"""A durable agent inside a program of yours, without a server: a queue, a bound, and an end that is proven.

    python examples/embedded.py STATE_FOLDER "say Hello; call Bash -> ok; say Done."

Run it again with the same folder: what was in the log is still there, and what was cut off is settled.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from interlock import AgentSpec, RunPolicy, Runtime
from interlock.agents.drivers import driver
from interlock.log.sqlite.store import SqliteLog
from interlock.testing.scripted_agent import command
from interlock.vocabulary.errors import InterlockError
from interlock.vocabulary.events.conversation import AssistantMessage

# For a real one: argv=("claude",). The driver adds what its mode needs.
SPEC = AgentSpec(agent="scripted", driver="claude-stream", argv=command("stream-json"), cwd=str(Path.cwd()))
POLICY = RunPolicy(turn_budget_seconds=600, stall_after_seconds=120)


async def main(folder: str, prompt: str) -> int:
    async with await SqliteLog.open(Path(folder)) as log:
        async with Runtime(log, [driver(SPEC.driver)], policy=POLICY) as runtime:
            for found in runtime.recovered:
                print(f"{found.session_id} was cut off: its turn is {found.settled_as}, {found.queued_prompts} wait")
            session = runtime.sessions[0] if runtime.sessions else await runtime.open_session(SPEC)
            turn = await runtime.wait_turn(session, await runtime.send(session, prompt))
        events = (await log.read(session)).events
    for event in events:
        if event.turn_id == turn.turn_id and isinstance(event.data, AssistantMessage):
            print(f"agent: {event.data.text}")
    print(f"turn {sum(event.type == 'turn_started' for event in events)}: {turn.state}", *turn.error_message.split())
    return 0 if turn.state == "completed" else 1


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    try:
        sys.exit(asyncio.run(main(*sys.argv[1:])))
    except InterlockError as error:
        sys.exit(str(error))
