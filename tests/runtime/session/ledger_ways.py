"""Every driver whose agent asks: how its agent is started, how it is made to ask, and what it says it heard."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec

from interlock.agents.acp.driver import AcpDriver
from interlock.agents.port import AgentSpec, Driver
from interlock.agents.streams.claude.driver import ClaudeStreamDriver
from interlock.agents.streams.codex.app_server import CodexAppServerDriver
from interlock.agents.streams.opencode.driver import OpencodeDriver
from interlock.agents.streams.pi.driver import PiDriver
from interlock.testing.scripted_agent import command, write_program
from interlock.vocabulary.events.registry import Json
from tests.agents.terminal.harness import driving

FAKES: Final = Path(__file__).parents[2] / "agents" / "streams"
VALVE: Final = (sys.executable, "-S", "-E", str(Path(__file__).with_name("valve.py")))


@dataclass(frozen=True)
class Heard:
    """One answer, in the same words for the log and for every ledger. `text` where the agent can be given words."""

    is_allowed: bool
    option: str = ""
    text: str = ""


@dataclass(frozen=True)
class Way:
    """A driver, how its agent is started and made to ask, and how an entry of the ledger is read.

    `request` is a prompt that asks for a permission, `ask` one that asks which of red and green.
    """

    driving: Callable[[], AbstractAsyncContextManager[Driver]]
    spec: Callable[[Path, tuple[str, ...]], AgentSpec]
    read: Callable[[Json], Heard]
    request: str
    ask: str
    has_words: bool = False
    environment: dict[str, str] = field(default_factory=dict)


def _plain(make: Callable[[], Driver]) -> Callable[[], AbstractAsyncContextManager[Driver]]:
    @asynccontextmanager
    async def drive() -> AsyncIterator[Driver]:
        yield make()

    return drive


def _claude(folder: Path, before: tuple[str, ...]) -> AgentSpec:
    program = write_program(folder / "agent", (*before, *command("stream-json", ledger=folder / "ledger")))
    return AgentSpec(agent="scripted", driver="claude-stream", argv=(program,), cwd=str(folder))


def _acp(folder: Path, before: tuple[str, ...]) -> AgentSpec:
    argv = (*before, *command("acp", ledger=folder / "ledger"))
    return AgentSpec(agent="scripted", driver="acp", argv=argv, cwd=str(folder))


def _terminal(folder: Path, before: tuple[str, ...]) -> AgentSpec:
    argv = (*before, *command("tui", ledger=folder / "ledger"))
    return AgentSpec(agent="scripted", driver="terminal", argv=argv, cwd=str(folder))


def _fake(driver: str, program: str) -> Callable[[Path, tuple[str, ...]], AgentSpec]:
    def spec(folder: Path, before: tuple[str, ...]) -> AgentSpec:
        argv = (*before, sys.executable, "-S", "-E", str(FAKES / program))
        environment = {"FAKE_LEDGER": str(folder / "ledger")}
        return AgentSpec(agent="fake", driver=driver, argv=argv, cwd=str(folder), environment=environment)

    return spec


def _of_claude(answer: Json) -> Heard:
    assert isinstance(answer, dict)
    updated = answer.get("updatedInput")
    answers = updated.get("answers") if isinstance(updated, dict) else None
    (said,) = answers.values() if isinstance(answers, dict) and answers else ("",)
    is_allowed = answer["behavior"] == "allow"
    return Heard(is_allowed, str(said) or ("Yes" if is_allowed else "No"), str(answer.get("message", "")))


def _of_acp(answer: Json) -> Heard:
    assert isinstance(answer, dict)
    outcome = answer["outcome"]
    assert isinstance(outcome, dict)
    chosen = str(outcome["optionId"])
    return Heard(chosen != "no", {"yes": "Allow", "no": "Reject"}.get(chosen, chosen))


def _of_codex(answer: Json) -> Heard:
    assert isinstance(answer, dict)
    if "answers" in answer:
        answers = answer["answers"]
        assert isinstance(answers, dict)
        said = [word for one in answers.values() if isinstance(one, dict) for word in one["answers"]]  # type: ignore[union-attr]
        return Heard(bool(said), str(said[0]) if said else "")
    labels = {"accept": "Yes", "decline": "No, and go on without it"}
    return Heard(answer["decision"] == "accept", labels[str(answer["decision"])])


def _of_opencode(answer: Json) -> Heard:
    if not isinstance(answer, dict):
        return Heard(False)
    if "answers" in answer:
        return Heard(True, msgspec.convert(answer["answers"], list[list[str]])[0][0])
    labels = {"once": "Allow once", "reject": "Reject"}
    reply = str(answer["reply"])
    return Heard(reply == "once", labels[reply], str(answer.get("message", "")))


def _of_pi(answer: Json) -> Heard:
    assert isinstance(answer, dict)
    if "confirmed" in answer:
        return Heard(answer["confirmed"] is True, "Yes" if answer["confirmed"] else "No")
    return Heard("value" in answer, str(answer.get("value", "")))


def _of_terminal(answer: Json) -> Heard:
    return Heard(answer != "No, and stop", str(answer))


_REQUEST: Final = 'request Edit {"path": "a.txt"} -> ok; say done'
_ASK: Final = "ask Which? | red | green; say done"
WAYS: Final = {
    "claude-stream": Way(_plain(ClaudeStreamDriver), _claude, _of_claude, _REQUEST, _ASK, has_words=True),
    "acp": Way(_plain(AcpDriver), _acp, _of_acp, _REQUEST, _ASK),
    "codex-app-server": Way(
        _plain(CodexAppServerDriver), _fake("codex-app-server", "fake_codex.py"), _of_codex, "approve", "choose"
    ),
    "opencode-serve": Way(
        _plain(OpencodeDriver),
        _fake("opencode-serve", "opencode_fake.py"),
        _of_opencode,
        "ask",
        "choose",
        has_words=True,
    ),
    "pi-rpc": Way(_plain(PiDriver), _fake("pi-rpc", "pi_fake.py"), _of_pi, "ask", "choose"),
    "terminal": Way(driving, _terminal, _of_terminal, _REQUEST, _ASK),
}
BY_PIPE: Final = (
    "claude-stream",
    "acp",
    "codex-app-server",
    "pi-rpc",
)  # what they are told goes through standard input
