"""Give many folders the same prompt, a few at a time, and say of each how it ended.

    interlock up
    python examples/fleet.py claude "Update the licence header" services/*

Ends with 0 only if every turn completed. What needs a person is named, and left for that person: `interlock top`.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from interlock import Client, InterlockError, TurnOutcome, connect_async

FREE = asyncio.Semaphore(4)  # so many at once


async def work_on(client: Client, agent: str, prompt: str, folder: Path) -> TurnOutcome:
    async with FREE:
        turn = await client.run(agent, prompt, cwd=folder, title=folder.name)
        outcome = await turn.outcome(timeout=1800)
        if outcome.turn is not None and outcome.turn.state.is_terminal:
            await turn.task.stop()
        return outcome


async def main(agent: str, prompt: str, folders: list[Path]) -> int:
    async with connect_async() as client:
        works = [work_on(client, agent, prompt, folder) for folder in folders]
        outcomes = await asyncio.gather(*works, return_exceptions=True)
    for folder, outcome in zip(folders, outcomes, strict=True):
        known = outcome if isinstance(outcome, BaseException) else f"{outcome.session_id}  {outcome.why}"
        result = "unknown" if isinstance(outcome, BaseException) else outcome.result
        print(f"{folder.name:<20} {result:<15} {known}")
    return 0 if all(isinstance(one, TurnOutcome) and one.is_completed for one in outcomes) else 1


if __name__ == "__main__":
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    try:
        sys.exit(asyncio.run(main(sys.argv[1], sys.argv[2], [Path(name).absolute() for name in sys.argv[3:]])))
    except InterlockError as error:
        sys.exit(str(error))
