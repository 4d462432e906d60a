"""The scripted agent as a CLI with a model behind it: `python -m interlock.testing.lab.scripted_cli`.

It has the screens of `interlock.testing.scripted_agent`, and asks the model at $SCRIPTED_MODEL_URL what to say, so that
the lab can be run, and tested, without a CLI of somebody else. The prompt goes out as a chat completion, a shell call
is asked for in a dialog and then run, and Escape hangs up.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
import time
from dataclasses import dataclass, field
from typing import Any, Final

import httpx

from interlock.testing.scripted_agent import tui
from interlock.testing.scripted_agent.language import ScriptBook, Step

MODEL_URL: Final = "SCRIPTED_MODEL_URL"
_LOOK_EVERY_SECONDS: Final = 0.05
_BUSY: Final = Step("hang", "")
_TOOLS: Final = [{"type": "function", "function": {"name": name}} for name in ("bash", "read", "write", "list")]


class _Interrupted(Exception):
    """The person pressed Escape, or said no."""


class _ModelBook(ScriptBook):
    """A prompt is not a script here: it is work without an end, until the model has answered."""

    def __init__(self, prompts: list[str]) -> None:
        super().__init__()
        self._prompts = prompts

    def steps_for(self, prompt: str) -> list[Step]:
        self._prompts.append(prompt)
        return [_BUSY]


@dataclass(slots=True)
class ModelTurns:
    """Answers the prompts of an agent, one after the other, on a thread of its own."""

    url: str
    prompts: list[str] = field(default_factory=list)
    said: list[dict[str, Any]] = field(default_factory=list)

    def serve(self, agent: tui.Agent) -> None:
        while agent.exit_code is None:
            if self.prompts:
                asyncio.run(self._turn(agent, self.prompts.pop(0)))
            time.sleep(_LOOK_EVERY_SECONDS)

    async def _turn(self, agent: tui.Agent, prompt: str) -> None:
        self.said.append({"role": "user", "content": prompt})
        turn = asyncio.create_task(self._answer(agent))
        while not turn.done():
            await asyncio.wait({turn}, timeout=_LOOK_EVERY_SECONDS)
            if agent.state == "idle" and not turn.done():
                turn.cancel()
        try:
            await turn
            agent.steps = [Step("end", "")]
        except (asyncio.CancelledError, _Interrupted):
            self.said.append({"role": "assistant", "content": "[interrupted]"})
        except httpx.HTTPError as wrong:
            self.said.append({"role": "assistant", "content": "[error]"})
            agent.steps = [Step("fail", str(wrong).splitlines()[0] or type(wrong).__name__)]

    async def _answer(self, agent: tui.Agent) -> None:
        async with httpx.AsyncClient(timeout=None, trust_env=False) as http:
            while calls := await self._ask(http, agent):
                for call in calls:
                    output = await self._use(agent, json.loads(call["function"]["arguments"])["command"])
                    self.said.append({"role": "tool", "tool_call_id": call["id"], "content": output})

    async def _ask(self, http: httpx.AsyncClient, agent: tui.Agent) -> list[dict[str, Any]]:
        """One request. What is said is shown as it comes; the calls that it ends with are the answer."""
        body = {"model": "scripted", "stream": True, "messages": self.said, "tools": _TOOLS}
        text, calls = "", dict[int, dict[str, Any]]()
        agent.transcript += ["", ""]
        async with http.stream("POST", f"{self.url}/v1/chat/completions", json=body) as answer:
            answer.raise_for_status()
            async for line in answer.aiter_lines():
                if not line.startswith("data: {"):
                    continue
                delta = json.loads(line[6:])["choices"][0]["delta"] if '"delta"' in line else {}
                text += delta.get("content") or ""
                agent.transcript[-2] = f"• {' '.join(text.split())}" if text else ""
                for part in delta.get("tool_calls") or ():
                    _grow(calls.setdefault(part["index"], {"id": "", "function": {"arguments": ""}}), part)
        made = list(calls.values())
        self.said.append({"role": "assistant", "content": text or None, **({"tool_calls": made} if made else {})})
        return made

    async def _use(self, agent: tui.Agent, command: str) -> str:
        agent.steps = [Step("request", "Bash"), _BUSY]
        while agent.steps and agent.steps[0] is not _BUSY:  # noqa: ASYNC110  the screen's thread has no event
            await asyncio.sleep(_LOOK_EVERY_SECONDS)
        if not agent.steps:
            raise _Interrupted
        agent.transcript += ["• Running Bash", ""]
        tool = await asyncio.create_subprocess_shell(command, stdout=asyncio.subprocess.PIPE, stdin=None)
        try:
            printed, _ = await tool.communicate()
        finally:
            if tool.returncode is None:
                tool.kill()
                await tool.wait()
        return printed.decode(errors="replace")


def _grow(call: dict[str, Any], part: dict[str, Any]) -> None:
    call["id"] = part.get("id") or call["id"]
    call["type"] = "function"
    told = part.get("function") or {}
    call["function"]["name"] = told.get("name") or call["function"].get("name", "")
    call["function"]["arguments"] += told.get("arguments") or ""


def main() -> int:
    if "--version" in sys.argv[1:]:
        sys.stdout.write("scripted 1.0\n")
        return 0
    turns = ModelTurns(os.environ[MODEL_URL])
    agent = tui.Agent(book=_ModelBook(turns.prompts))
    threading.Thread(target=turns.serve, args=(agent,), daemon=True).start()
    return tui.run(agent)


if __name__ == "__main__":
    os._exit(main())
