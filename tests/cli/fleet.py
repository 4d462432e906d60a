"""A server whose configuration has agents that a model starts, and the model that plays them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from interlock.testing.scripted_model import ScriptedModel, Step
from tests.bodies import Body
from tests.cli.serving import Served


@dataclass
class Fleet:
    """The server, the model, the folder in which agents work, and the configuration."""

    served: Served
    model: ScriptedModel
    work: Path
    config: Path

    def lead(self, script: str, *steps: Step, agent: str = "lead") -> str:
        """A session of the lead that plays these steps."""
        self.model.set_script(script, steps)
        done = self.cli("run", agent, f"SCN:{script}", "--cwd", str(self.work), "--json")
        assert done.returncode == 0, done.stderr
        return str(json.loads(done.stdout)["session_id"])

    def cli(self, *args: str) -> Body:
        return self.served.cli(*args, INTERLOCK_CONFIG=str(self.config))

    def again(self, session: str, script: str, *steps: Step) -> None:
        """One more turn of it, to its end."""
        self.model.set_script(script, steps)
        done = self.cli("send", session, f"SCN:{script}", "--wait", "--timeout", "100")
        assert done.returncode == 0, (done.stdout, done.stderr, self.log(session))

    def log(self, session: str) -> list[Body]:
        lines = self.served.api.ask_raw("GET", f"/api/tasks/{session}/log").splitlines()
        return [json.loads(line) for line in lines]

    def results(self, session: str, tool: str) -> list[Body]:
        """What the calls of a tool gave, in the order of the calls: those that have a result."""
        events = self.log(session)
        told = {(one["turn_id"], one["data"]["call_id"]): one["data"] for one in events if one["type"] == "tool_result"}
        calls = [(one["turn_id"], one["data"]) for one in events if one["type"] == "tool_call"]
        asked = [(turn, call["call_id"]) for turn, call in calls if call["name"] == tool]
        return [told[one] for one in asked if one in told]

    def ended(self, session: str, status: str = "COMPLETED") -> None:
        self.served.shows(session, status=status)

    def children(self, session: str) -> list[Body]:
        return list(json.loads(self.served.api.ask_raw("GET", f"/api/tasks/{session}/children"))["items"])


def agent_section(name: str, url: str, options: Mapping[str, str]) -> str:
    lines = [f"{key} = {value}" for key, value in options.items()]
    return "\n".join(
        (
            f"[agents.{name}]",
            'driver = "model"',
            'model = "anthropic:claude-haiku-4-5"',
            f"[agents.{name}.environment]",
            'set = { ANTHROPIC_API_KEY = "none" }',
            f"[agents.{name}.options]",
            f'base_url = "{url}"',
            *lines,
            "",
        )
    )
