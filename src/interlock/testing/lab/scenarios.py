"""What a CLI is driven through: for each scenario what the model says, and what is done meanwhile.

Every scenario that ends a turn by force or by an error sends one more prompt: an agent that takes none afterwards, or
keeps a rest of the last one in its composer, is found by that.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Final

from interlock.testing.lab.recipes import Recipe
from interlock.testing.lab.results import COMPLETED, FAILED, INTERRUPTED, REFUSED, SentPrompt
from interlock.testing.lab.scene import HELD_COMMAND, Scene
from interlock.testing.scripted_model import Cut, Error, Gate, Hang, Script, Shell, Text, Think
from interlock.testing.scripted_model.script import Step
from interlock.vocabulary.states import Activity

_SHORT: Final[Script] = (Text("Short."),)
_LINES: Final = tuple(f"Line {number} of a long answer, with some words in it.\n\n" for number in range(1, 61))
_ENDS_AFTER_STALL_SECONDS: Final = 60.0
# How long the work may take to stop, where what follows tells as well whether the interrupt was one.
_LINGERS_SECONDS: Final = 8.0
# How long a CLI may try again a request that is refused each time: Continue does so for two minutes.
_GIVES_UP_SECONDS: Final = 180.0
# What the model says after the gate in the middle of an answer.
_REST: Final = "the rest of the answer"
_DRAFT: Final = "half a thought"
# Longer than a prompt is tried again by itself.
_DRAFT_SECONDS: Final = 15.0


@dataclass(frozen=True, slots=True)
class Scenario:
    """`scripts` are the model's, by name; `short` is always there. `unprompted`: what it says where the CLI asks it by
    itself. `needs` says of which CLIs the scenario can be asked."""

    name: str
    title: str
    scripts: Mapping[str, tuple[Step, ...]]
    play: Callable[[Scene], Awaitable[None]]
    needs: Callable[[Recipe], bool] = lambda _recipe: True
    asks_at_start: bool = False
    unprompted: Script = ()

    def scripts_for(self, recipe: Recipe) -> dict[str, Script]:
        made: dict[str, Script] = {"short": _SHORT, **self.scripts}
        if self.name == "background" and recipe.background is not None:
            made["background"] = (recipe.background.call(HELD_COMMAND), Text("It runs on."))
        if self.name == "question" and recipe.question is not None:
            made["question"] = (recipe.question, Text("So be it."))
        return made


async def _short(scene: Scene) -> None:
    """One more turn, as a check that the agent goes on."""
    await scene.finish(await scene.send("short"))


async def _allow(scene: Scene, prompt: SentPrompt) -> None:
    """The tool that the model called may run; a CLI that asks nobody runs it at once."""
    if scene.recipe.asks_leave:
        await scene.decide(await scene.asked(prompt), is_allowed=True)


async def _think(scene: Scene) -> None:
    prompt = await scene.send("think")
    await scene.at_gate(prompt, "thinking", "thinking")
    scene.model.release("thinking")
    await scene.finish(prompt)
    await _short(scene)


async def _stream(scene: Scene) -> None:
    prompt = await scene.send("stream")
    await scene.at_gate(prompt, "streaming", "streaming")
    scene.model.release("streaming")
    await scene.finish(prompt)
    await _short(scene)


async def _long(scene: Scene) -> None:
    prompt = await scene.send("long")
    await scene.arrived(prompt)
    scene.truth("working", "streaming")
    await scene.finish(prompt)


async def _several(scene: Scene) -> None:
    for _ in range(5):
        await scene.finish(await scene.send("short"))


async def _tools(scene: Scene) -> None:
    prompt = await scene.send("tools")
    await _allow(scene, prompt)
    await scene.tool_runs()
    scene.let_tool_end()
    await scene.at_gate(prompt, "after", "thinking")
    scene.model.release("after")
    await scene.finish(prompt, part=1)
    scene.check("the tool ran to its end", holds=(scene.project / "over.txt").exists())


async def _approve(scene: Scene) -> None:
    prompt = await scene.send("approve")
    approval = await scene.asked(prompt)
    scene.check("nothing ran before the answer", holds=not (scene.project / "made.txt").exists())
    await scene.decide(approval, is_allowed=True)
    await scene.finish(prompt, part=1)
    scene.tally.answers += (scene.project / "made.txt").exists()
    await _short(scene)


async def _deny(scene: Scene) -> None:
    prompt = await scene.send("deny", ends=REFUSED)
    await scene.decide(await scene.asked(prompt), is_allowed=False)
    decided = scene.now()
    await scene.over(prompt, decided, "denied", is_sure=False)
    scene.tally.answers += not (scene.project / "made.txt").exists()
    await _short(scene)


async def _question(scene: Scene) -> None:
    prompt = await scene.send("question")
    asked = await scene.asked(prompt, detail="question")
    await scene.decide(asked, is_allowed=True, option="Blue")
    await scene.finish(prompt, part=1)
    told = [one.body for one in scene.requests_of(prompt) if one.part == 1]
    scene.tally.answers += any(b"Blue" in body[body.rfind(b"a cold one") :] for body in told)


async def _interrupt_thinking(scene: Scene) -> None:
    await _interrupt_answer(scene, await scene.send("think", ends=INTERRUPTED), "thinking")


async def _interrupt_streaming(scene: Scene) -> None:
    await _interrupt_answer(scene, await scene.send("stream", ends=INTERRUPTED), "streaming")


async def _interrupt_answer(scene: Scene, prompt: SentPrompt, gate: str) -> None:
    """The CLI hangs up on the model. Codex before 0.154 ends the turn and listens on: then what the model says after
    the interrupt may not be a part of the conversation."""
    await scene.at_gate(prompt, gate, gate)
    has_stopped = await scene.interrupt(prompt, has_stopped=lambda: scene.is_dropped(prompt), seconds=_LINGERS_SECONDS)
    scene.model.release(gate)
    after = await scene.send("short")
    await scene.finish(after)
    if not has_stopped and not any(_REST.encode() in one.body for one in scene.requests_of(after)):
        _credit_interrupt(scene, "the CLI keeps the connection to the model open after an interrupt")


async def _interrupt_tool(scene: Scene) -> None:
    """The tool stops. Codex ends the turn and leaves the command running: then the model may not be told of its end."""
    prompt = await scene.send("tools", ends=INTERRUPTED)
    await _allow(scene, prompt)
    await scene.tool_runs()
    has_stopped = await scene.interrupt(prompt, has_stopped=scene.tool_has_stopped(), seconds=_LINGERS_SECONDS)
    scene.let_tool_end()
    await _short(scene)
    if len(scene.requests_of(prompt)) > 1:
        scene.check("the turn is over after the interrupt", holds=False)
        scene.tally.interrupted = 0
    elif not has_stopped:
        _credit_interrupt(scene, "the CLI leaves the tool running")


def _credit_interrupt(scene: Scene, note: str) -> None:
    """What followed shows that the interrupt was one, if the agent lives."""
    scene.tally.interrupted += not scene.tally.killed
    scene.tally.notes.append(note)


async def _error(scene: Scene) -> None:
    """The model refuses each request: some CLIs, such as opencode, try again all the same before the turn ends."""
    prompt = await scene.send("error", ends=FAILED)
    await scene.answered(prompt)
    await scene.turn_end(prompt, _GIVES_UP_SECONDS)
    await scene.finish(prompt, detail="error")
    tries = len(scene.requests_of(prompt))
    await _short(scene)
    scene.check("the CLI tries no more after the end", holds=len(scene.requests_of(prompt)) == tries)


async def _imitated(scene: Scene) -> None:
    """What a model says looks like the words by which CLIs tell of an end or a question. The turn goes on at work, and
    ends as completed. An answer that is such words and nothing else may look the very same."""
    prompt = await scene.send("imitated")
    await scene.at_gate(prompt, "streaming", "streaming")
    scene.model.release("streaming")
    await scene.finish(prompt)
    for number, words in enumerate(_IMITATED_ENDS):
        whole = await scene.send(f"imitated{number}", ends=COMPLETED | INTERRUPTED | FAILED)
        await scene.finish(whole)
        if await scene.turn_end(whole) not in COMPLETED:
            scene.tally.notes.append(f"the screen does not tell the answer {words!r} from an end")
    scene.check("nothing was asked", holds=not scene.product.handle.approvals)


async def _retry(scene: Scene) -> None:
    prompt = await scene.send("retry", ends=COMPLETED)
    await scene.arrived(prompt)
    await scene.until(
        lambda: any(one.outcome.value == "answered" for one in scene.requests_of(prompt)), "the CLI tried again"
    )
    await scene.finish(prompt)


async def _cut(scene: Scene) -> None:
    """The stream is cut once. Some CLIs try again, and some end the turn with an error: the model's record decides."""
    prompt = await scene.send("cut", ends=None)
    await scene.arrived(prompt)
    await scene.answered(prompt)
    await scene.turn_end(prompt)
    await scene.finish(prompt, detail="cut")
    await _short(scene)


async def _hang(scene: Scene) -> None:
    prompt = await scene.send("hang", ends=INTERRUPTED)
    await scene.arrived(prompt)
    scene.check("a hung stream is called stalled", holds=await scene.says(Activity.STALLED, _ENDS_AFTER_STALL_SECONDS))
    await scene.interrupt(prompt, has_stopped=lambda: scene.is_dropped(prompt))
    await _short(scene)


async def _draft(scene: Scene) -> None:
    """A person's draft stands in the composer: the prompt waits, and goes by itself once the composer is free."""
    await _short(scene)
    await scene.type_by_hand(text=_DRAFT)
    await scene.until(lambda: scene.film.shows(_DRAFT), "the draft stands on the screen")
    scene.truth("idle", "draft")
    prompt = await scene.send("short")
    scene.truth("idle", "draft")
    await asyncio.sleep(_DRAFT_SECONDS)
    scene.check("nothing is typed over a draft", holds=not scene.requests_of(prompt))
    scene.truth("unscored", "draft")
    for _ in _DRAFT:  # one key at a time, as a person does: Continue drops fourteen that come in one read
        await scene.type_by_hand("BSpace")
    await scene.finish(prompt)


async def _kill(scene: Scene) -> None:
    """The agent's process is killed in mid-turn. What is sent next reaches an agent that was started anew."""
    prompt = await scene.send("stream", ends=FAILED)
    await scene.at_gate(prompt, "streaming", "streaming")
    where = await scene.product.where()
    assert where is not None
    scene.truth("unscored", "killed")
    os.kill(where.pid or where.pane_pid, signal.SIGKILL)
    prompt.over_at = scene.now()
    await scene.turn_end(prompt)
    after = await scene.send("short")
    await scene.answered(after)
    await scene.turn_end(after)


async def _start(scene: Scene) -> None:
    """The CLI asks whether to trust the folder. The answer goes by the server, and a prompt after it is delivered."""
    asked = await scene.asked_at_start()
    if asked is not None:
        await scene.decide(asked, is_allowed=True)
    elif not scene.tally.questions:
        scene.tally.notes.append("the CLI asked nothing at its start")
    prompt = await scene.send("short")
    await scene.arrived(prompt)
    scene.tally.answers += asked is not None
    await scene.finish(prompt)


async def _background(scene: Scene) -> None:
    """The turn is over while a command that it began runs on, and the agent is settling where its screen says so.
    Claude Code tells the model when the command ends, without a prompt: such a turn is its own, and not made up."""
    background = scene.recipe.background
    assert background is not None
    prompt = await scene.send("background")
    if background.is_asked:
        await scene.decide(await scene.asked(prompt), is_allowed=True)
        scene.tally.answers += 1
    await scene.until((scene.project / "made.txt").exists, "the command ran")
    await scene.finish(prompt, part=1, detail="background")
    scene.check("the command runs on after the turn", holds=await scene.tool_runs_on())
    scene.check("the screen tells of the command", holds=scene.film.shows(background.shown))
    scene.check("the agent is settling while the command runs", holds=await scene.says(Activity.SETTLING))
    await _short(scene)
    scene.truth("unscored", "background ends")
    asked = len(scene.model.requests)
    scene.let_tool_end()
    await scene.until((scene.project / "over.txt").exists, "the command ended")
    scene.tally.own_turns += await scene.begins_by_itself(asked)
    await _short(scene)
    scene.check("the agent is quiet after the command", holds=await scene.says(Activity.QUIET))


async def _compact(scene: Scene) -> None:
    """A person has the conversation summed up. That is work of the agent and no turn; then a prompt is delivered."""
    await _short(scene)
    await _short(scene)
    scene.truth("unscored", "compacting")
    await scene.type_by_hand(text=scene.recipe.compact)
    await scene.until(lambda: scene.film.shows(scene.recipe.compact), "the command stands in the composer")
    await scene.type_by_hand("Enter")
    await scene.until(lambda: scene.has_reached("compacting"), "the model was asked for a summary")
    scene.truth("working", "compacting")
    await scene.hold()
    scene.model.release("compacting")
    scene.truth("unscored", "compacted")
    await _short(scene)


# As CLIs say that a turn was interrupted, refused or went wrong; each of them once as a whole answer.
_IMITATED_ENDS: Final = (
    "Operation cancelled by user",
    "Interrupted by user",
    "Request cancelled.",
    "Error: 400 a scripted refusal",
    "✗ The model refused the request",
    "■ Conversation interrupted - tell the model what to do differently.",
)
_IMITATED_QUESTION: Final = "Do you want to proceed?\n\n❯ 1. Yes\n\n  2. No, and say what to do differently (esc)\n\n"
_IMITATED: Final = (
    Text(*(f"{line}\n\n" for line in _IMITATED_ENDS), _IMITATED_QUESTION),
    Gate("streaming"),
    Text(_IMITATED_QUESTION, *(f"{line}\n\n" for line in reversed(_IMITATED_ENDS))),
)
_THINK: Final = (Think("Let me see."), Gate("thinking"), Text(f"I have seen {_REST}."))
_STREAM: Final = (Text("One.\n\n", "Two"), Gate("streaming"), Text(f" and {_REST}."))
_TOOLS: Final = (Shell(HELD_COMMAND), Gate("after"), Text("The tool ran."))

SCENARIOS: Final = {
    one.name: one
    for one in (
        Scenario("think", "a turn that thinks, then answers", {"think": _THINK}, _think),
        Scenario("stream", "an answer that is held in the middle", {"stream": _STREAM}, _stream),
        Scenario("tools", "a tool that is allowed, and runs for a while", {"tools": _TOOLS}, _tools),
        Scenario(
            "approve",
            "a question that is answered with yes",
            {"approve": (Shell("touch made.txt; echo made"), Text("It ran."))},
            _approve,
            needs=lambda recipe: recipe.asks_leave,
        ),
        Scenario(
            "deny",
            "a question that is answered with no",
            {"deny": (Shell("touch made.txt; echo made"), Text("As you wish."))},
            _deny,
            needs=lambda recipe: recipe.asks_leave,
        ),
        Scenario(
            "interrupt-streaming", "an interrupt while the answer streams", {"stream": _STREAM}, _interrupt_streaming
        ),
        Scenario("error", "the model refuses the request", {"error": (Error(400, "a scripted refusal"),)}, _error),
        Scenario(
            "imitated",
            "an answer that looks like ends and questions",
            {
                "imitated": _IMITATED,
                **{f"imitated{number}": (Text(line),) for number, line in enumerate(_IMITATED_ENDS)},
            },
            _imitated,
        ),
        Scenario("several", "five prompts in a row", {}, _several),
        Scenario("long", "an answer longer than the screen", {"long": (Text(*_LINES, pace_seconds=0.08),)}, _long),
        Scenario("interrupt-thinking", "an interrupt while the model thinks", {"think": _THINK}, _interrupt_thinking),
        Scenario("interrupt-tool", "an interrupt while a tool runs", {"tools": _TOOLS}, _interrupt_tool),
        Scenario(
            "retry",
            "the model is overloaded twice, then answers",
            {"retry": (Error(529, "overloaded", times=2), Text("The third try went through."))},
            _retry,
        ),
        Scenario("cut", "the stream is cut once", {"cut": (Text("The first half"), Cut(times=1), Text("."))}, _cut),
        Scenario("hang", "the stream hangs", {"hang": (Text("And now"), Hang())}, _hang),
        Scenario("draft", "a person's draft stands in the composer", {}, _draft),
        Scenario("kill", "the agent's process is killed in a turn", {"stream": _STREAM}, _kill),
        Scenario(
            "question",
            "the model asks the person to choose",
            {},
            _question,
            needs=lambda recipe: recipe.question is not None,
        ),
        Scenario(
            "background",
            "a command runs on after its turn",
            {},
            _background,
            needs=lambda recipe: recipe.background is not None,
        ),
        Scenario(
            "compact",
            "a person has the conversation summed up",
            {},
            _compact,
            needs=lambda recipe: bool(recipe.compact),
            unprompted=(Gate("compacting"), Text("<summary>Two short turns.</summary>")),
        ),
        Scenario(
            "start",
            "the CLI asks whether it may trust the folder",
            {},
            _start,
            needs=lambda recipe: recipe.unseed is not None,
            asks_at_start=True,
        ),
    )
}
