"""What every CLI is driven through alike: scripts of the model, prompts, and turns told once for both harnesses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from interlock.agents.tmux.typing import TypingRefusal
from interlock.monitor.tracker import TrackerEvent
from interlock.testing.scripted_model import Gate, ScriptedCall, ScriptedModel, Shell, Text, Think
from tests.real.harness import HELD_COMMAND, HOLD_SECONDS, Harness
from tests.real.live import LiveAgent, blocked, event, working
from tests.real.recording import Frame

LIMIT_SECONDS: Final = 150.0
LONG: Final = "SCN:short " + " ".join(f"word{number}" for number in range(2300))
# An emoji with a skin tone would leave rows of an older screen behind: tmux 3.3 and Claude count its width differently.
LINES: Final = "SCN:short Grüße 你好 👋\n\n  zweite Zeile: naïve café\nund Schluss ✓"
TURN: Final = (Think("Let me see."), Gate("thinking"), Text("One.\n\n", "Two"), Gate("streaming"), Text(" three."))
TOOL: Final = (Shell(HELD_COMMAND), Gate("after"), Text("The tool ran."))
FOLLOWED: Final = {"turn": TURN, "tool": TOOL}
QUESTION: Final = ScriptedCall(
    "AskUserQuestion",
    {
        "questions": [
            {
                "question": "Which colour shall it be?",
                "header": "Colour",
                "multiSelect": False,
                "options": [
                    {"label": "Red", "description": "a warm one"},
                    {"label": "Blue", "description": "a cold one"},
                ],
            }
        ]
    },
)


async def follow_turns(agent: LiveAgent, model: ScriptedModel, *, yes: str) -> None:
    """A turn that thinks and streams, then one whose tool is allowed by the option `yes`, each verdict in order."""
    await agent.ready()
    await agent.submit("SCN:turn go on")
    await model.reached("thinking")
    await agent.until(working, "working")
    await agent.stays(working, "working while it thinks")
    assert (await agent.type("too early")).refusal is TypingRefusal.WORKING
    model.release("thinking")
    await model.reached("streaming")
    # While Codex streams its screen looks idle, and only the title tells.
    await agent.stays(working, "working while it streams")
    assert (await agent.type("too early")).refusal is TypingRefusal.WORKING
    assert agent.ends == []
    model.release("streaming")
    await agent.until(event(TrackerEvent.COMPLETED), "completed")
    await agent.ready()

    await agent.submit("SCN:tool")
    asked = await agent.until(blocked, "blocked")
    assert (asked.attention, asked.events) == ("approval", (TrackerEvent.BLOCKED,))
    assert (await agent.type("not into a dialog")).refusal is TypingRefusal.DIALOG
    assert not (agent.place.project / "made.txt").exists()
    await agent.choose(yes)
    await agent.until(working, "working after the answer")
    await agent.stays(working, "working while the tool runs")
    (agent.place.project / "go").touch()
    await model.reached("after")
    await agent.stays(working, "working after the tool")
    model.release("after")
    await agent.until(event(TrackerEvent.COMPLETED), "completed")
    assert agent.ends == ["completed", "completed"]


@dataclass(frozen=True, slots=True)
class Look:
    """How one CLI is driven and read by its bare text: the truth that verdicts are held against."""

    start_up: Callable[[Harness], None]
    approve: Callable[[Harness], None]
    see_complete: Callable[[Harness], None]
    is_working: Callable[[Frame], bool]

    def stays_at_work(self, agent: Harness) -> None:
        assert all(self.is_working(frame) for frame in agent.watch(HOLD_SECONDS))


def think_stream_and_end(agent: Harness, look: Look, *, work: Callable[[Harness], object], words: str) -> None:
    """The turn of `TURN`. `work` waits for the first sign of it, `words` are how the answer begins on the screen."""
    look.start_up(agent)
    agent.submit("SCN:turn go on")
    agent.model.wait_reached("thinking")
    agent.truth("working", "thinking")
    work(agent)
    look.stays_at_work(agent)
    agent.model.release("thinking")
    agent.model.wait_reached("streaming")
    agent.truth("working", "streaming")
    agent.wait_for_text(words)
    look.stays_at_work(agent)
    agent.model.release("streaming")
    look.see_complete(agent)


def allow_and_run_a_tool(agent: Harness, look: Look) -> None:
    """The turn of `TOOL`: its dialog answered with yes, the tool held while it runs, then the end."""
    look.start_up(agent)
    agent.submit("SCN:tool")
    look.approve(agent)
    agent.wait_for(look.is_working, "the tool at work")
    agent.truth("working", "tool_running")
    look.stays_at_work(agent)
    assert (agent.place.project / "made.txt").exists()
    agent.let_tool_end()
    agent.model.wait_reached("after")
    agent.truth("working", "thinking")
    agent.watch(HOLD_SECONDS)
    agent.model.release("after")
    look.see_complete(agent)
