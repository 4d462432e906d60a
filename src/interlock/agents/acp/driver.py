"""Any agent that speaks ACP on its standard input and output, such as `gemini --acp` or `opencode acp`.

`argv` is the agent in its ACP mode, whole. Options: `mode`, the id of one of the session modes that the agent offers.
Files and terminals of the client are declared as unsupported, so that the agent uses its own. Text that an agent
repeats after a dead attempt without saying so (Qwen Code and opencode do) cannot be told from an answer.
"""

from __future__ import annotations

import asyncio
import importlib
from pathlib import Path
from typing import Final

from interlock.agents.port import AgentHandle, AgentSpec, Capabilities, NotDelivered
from interlock.agents.processes.child import ChildProcess, inherited_environment
from interlock.vocabulary.errors import PeerFault, UsageError
from interlock.vocabulary.ids import SpawnId
from interlock.vocabulary.states import DriverKind

START_SECONDS: Final = 120.0
_CAPABILITIES: Final = Capabilities(
    reports_approvals=True, streams_text=True, reports_usage=True, reports_thoughts=True, can_resume=True
)
_OPTIONS: Final = frozenset({"mode"})
_MAX_SHOWN: Final = 500


class AcpDriver:
    """See `Driver`. `start_seconds` is how long an agent may take from its start to an open session."""

    def __init__(self, *, start_seconds: float = START_SECONDS) -> None:
        self._start_seconds = start_seconds

    @property
    def name(self) -> str:
        return "acp"

    @property
    def kind(self) -> DriverKind:
        return DriverKind.ACP

    @property
    def capabilities(self) -> Capabilities:
        return _CAPABILITIES

    async def spawn(self, spec: AgentSpec, spawn_id: SpawnId) -> AgentHandle:
        """Start the agent and open its session. `StaleResume` if it does not know the one to resume."""
        _check(spec)
        await asyncio.to_thread(_load_library)
        # These need the library, which is an extra.
        from interlock.agents.acp.handle import AcpHandle
        from interlock.agents.acp.link import LinkGone

        cwd = _absolute(spec.cwd)
        child = await ChildProcess.start(
            spec.argv, cwd=cwd, environment=inherited_environment(spec.environment), spawn_id=spawn_id
        )
        handle = AcpHandle(child, spec.argv, spawn_id, _CAPABILITIES)
        try:
            async with asyncio.timeout(self._start_seconds):
                await handle.open(spec, cwd)
        except TimeoutError as error:
            await handle.stop()
            said = f"opened no session within {self._start_seconds:g} s"
            raise PeerFault(f"{spec.argv[0]!r} {said}{_last_words(child)}") from error
        except (LinkGone, NotDelivered) as error:
            await handle.stop()
            raise PeerFault(f"{spec.argv[0]!r} ended before it opened a session{_last_words(child)}") from error
        except BaseException:
            await handle.stop()
            raise
        return handle


def _check(spec: AgentSpec) -> None:
    unknown = sorted(set(spec.options) - _OPTIONS)
    if unknown:
        raise UsageError(f"the acp driver has no option {unknown[0]!r}", remedy=f"it has: {', '.join(_OPTIONS)}")


def _load_library() -> None:
    """The first time that takes seconds on a busy machine: in a thread, so that nobody else waits for it."""
    try:
        importlib.import_module("acp")
    except ImportError as error:
        raise UsageError(
            "the acp driver needs the agent-client-protocol library", remedy="pip install interlock[acp]"
        ) from error
    importlib.import_module("interlock.agents.acp.handle")


def _absolute(folder: str) -> str:
    """The protocol wants a whole path. It is not asked whether the folder is there: the start of the child tells."""
    return str(Path(folder).absolute())


def _last_words(child: ChildProcess) -> str:
    tail = child.stderr_tail.strip()[-_MAX_SHOWN:]
    return f"; it said: {tail}" if tail else ""
