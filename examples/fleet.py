"""Give many folders the same prompt, a few at a time, and say of each how it ended.

    interlock up
    python examples/fleet.py claude "Update the licence header" services/*

Ends with 0 only if every turn completed. What needs a person is named, and left for that person: `interlock top`.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from interlock import Client, TurnRecord
from interlock.runtime.config.agent_choice import choose_agent
from interlock.runtime.config.loading import load
from interlock.vocabulary.errors import InterlockError

FREE = asyncio.Semaphore(4)  # so many at once
PATIENCE_SECONDS = 1800


async def work_on(client: Client, agent: str, prompt: str, folder: Path) -> TurnRecord:
    spec = choose_agent(load(os.environ).config, agent, os.environ, cwd=str(folder))
    async with FREE:
        task = await client.open_task(
            agent=agent,
            driver=spec.driver,
            argv=spec.argv,
            cwd=spec.cwd,
            model=spec.model,
            options=spec.options,
            environment=spec.environment,
            title=folder.name,
        )
        turn = await task.wait_turn(await task.send(prompt), PATIENCE_SECONDS, until_blocked=True)
        if turn.state.is_terminal:
            await task.stop()
        return turn


async def main(agent: str, prompt: str, folders: list[Path]) -> int:
    async with Client.of_home() as client:
        works = [work_on(client, agent, prompt, folder) for folder in folders]
        turns = await asyncio.gather(*works, return_exceptions=True)
    for folder, turn in zip(folders, turns, strict=True):
        state, known = (turn.state, turn.session_id) if isinstance(turn, TurnRecord) else ("unknown", turn)
        print(f"{folder.name:<20} {state:<15} {known}")
    return 0 if all(isinstance(turn, TurnRecord) and turn.state == "completed" for turn in turns) else 1


if __name__ == "__main__":
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    try:
        sys.exit(asyncio.run(main(sys.argv[1], sys.argv[2], [Path(name).absolute() for name in sys.argv[3:]])))
    except InterlockError as error:
        sys.exit(str(error))
