"""Ask an agent one thing, print its answer, and end with an exit code that tells the truth.

    interlock up
    python examples/ask.py claude "Which tests are slow?"

0 completed, 1 failed, 3 partial, 4 interrupted, 5 timed out, 6 it waits for a person.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from interlock import SyncClient
from interlock.cli.exit_codes import exit_code_for_turn
from interlock.runtime.config.agent_choice import choose_agent
from interlock.runtime.config.loading import load
from interlock.vocabulary.errors import InterlockError
from interlock.vocabulary.wire.frames import Role

PATIENCE_SECONDS = 600


def main(agent: str, prompt: str) -> int:
    spec = choose_agent(load(os.environ).config, agent, os.environ, cwd=str(Path.cwd()))
    with SyncClient.of_home() as client:
        task = client.open_task(
            agent=agent,
            driver=spec.driver,
            argv=spec.argv,
            cwd=spec.cwd,
            model=spec.model,
            options=spec.options,
            environment=spec.environment,
            title=prompt[:40],
        )
        turn = task.wait_turn(task.send(prompt), PATIENCE_SECONDS, until_blocked=True)
        if not turn.state.is_terminal:
            print(f"it asks something: interlock show {task.task_id}", file=sys.stderr)
            return exit_code_for_turn(turn.state)
        task.settled(PATIENCE_SECONDS)  # the record is the proof; now the words that go with it
        for message in task.messages:
            if message.role is Role.ANSWER and message.turn_id == turn.turn_id:
                print(message.text)
        if turn.error_kind:
            print(f"{turn.state}: {turn.error_kind}: {turn.error_message}", file=sys.stderr)
        task.stop()
        return exit_code_for_turn(turn.state)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    try:
        sys.exit(main(*sys.argv[1:]))
    except (InterlockError, TimeoutError) as error:
        sys.exit(str(error))
