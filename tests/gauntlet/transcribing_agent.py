"""The scripted agent in a terminal, which also writes a transcript, in the way of Codex: run as a program.

Only what is whole is transcribed, as the real one does: an answer that breaks off is on the screen and nowhere else.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import IO
from uuid import uuid4

from interlock.testing.scripted_agent import tui
from interlock.testing.scripted_agent.language import Step


@dataclass(slots=True)
class Transcribing(tui.Agent):
    """Writes each turn down as it ends. The open file is how its transcript is known to be its own."""

    rollout: IO[str] | None = None
    said: str = ""

    def submit(self, now: float) -> None:
        prompt = self.draft.strip()
        tui.Agent.submit(self, now)
        if prompt:
            self.said = ""
            self._write("event_msg", type="task_started", turn_id=uuid4().hex)
            self._write("event_msg", type="user_message", message=prompt)

    def tick(self, now: float) -> None:
        before = self.steps[:1]
        if before and before[0].verb == "say":
            self.said += before[0].rest
        tui.Agent.tick(self, now)
        if before and not self.steps:
            self._end(before[0])

    def interrupt(self) -> None:
        was_open = bool(self.steps)
        tui.Agent.interrupt(self)
        if was_open:
            self._write("event_msg", type="turn_aborted", reason="interrupted")

    def _end(self, last: Step) -> None:
        if last.verb == "fail":
            self._write("event_msg", type="error", message=last.rest)
            self._write("event_msg", type="task_complete", last_agent_message=None)
            return
        parts = [{"type": "output_text", "text": self.said}]
        self._write("response_item", type="message", role="assistant", content=parts)
        self._write("event_msg", type="task_complete", last_agent_message=self.said)

    def _write(self, kind: str, **payload: object) -> None:
        if self.rollout is not None:
            self.rollout.write(json.dumps({"type": kind, "payload": payload}) + "\n")
            self.rollout.flush()


def main(folder: str) -> int:
    """`folder` is where the transcript is written."""
    path = Path(folder, f"rollout-{uuid4()}.jsonl")
    with path.open("a", encoding="utf-8") as rollout:
        return tui.run(Transcribing(rollout=rollout))


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1]))
