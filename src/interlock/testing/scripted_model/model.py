"""The server that clients talk to, in a thread of its own: scripts in, answers out, everything received on record.

    with ScriptedModel({"hello": (Think("Hm."), Gate("thinking"), Text("Hello."))}) as model:
        start_a_client(base_url=model.url)          # ... and let it say "SCN:hello"
        model.wait_reached("thinking")              # or: await model.reached("thinking")
        model.release("thinking")

A prompt that holds `SCN:name` plays that script; any other prompt takes the next one of `queue`, and after that a short
closing text. The queue serves one conversation at a time. Leaving the block closes every connection.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import Final, Self

from interlock.testing.scripted_model.record import Received, Record
from interlock.testing.scripted_model.script import Gate, Script, Step
from interlock.testing.scripted_model.server import ModelServer, Scripts
from interlock.vocabulary.errors import ContractError, UsageError

WAIT_SECONDS: Final = 100.0
_START_SECONDS: Final = 60.0


class ScriptedModel:
    """A model on a loopback port. Its methods may be called from any thread while it is open."""

    def __init__(
        self, scripts: Mapping[str, Iterable[Step]] | None = None, *, queue: Iterable[Script] = (), port: int = 0
    ) -> None:
        """`port` 0 takes a free one."""
        self._record = Record()
        self._scripts = Scripts({name: tuple(steps) for name, steps in (scripts or {}).items()}, queue)
        self._server = ModelServer(self._scripts, self._record, port)
        self._thread = threading.Thread(target=self._run, name="scripted-model", daemon=True)
        self._has_started = threading.Event()
        self._open_at: tuple[asyncio.AbstractEventLoop, int] | None = None
        self._refusal: OSError | None = None

    @property
    def port(self) -> int:
        return self._opened()[1]

    @property
    def url(self) -> str:
        """The base without a path. OpenAI clients want `/v1` behind it."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def requests(self) -> tuple[Received, ...]:
        """Everything received so far, in the order of arrival."""
        return self._record.requests()

    @property
    def faults(self) -> tuple[str, ...]:
        """What should not have happened: expired gates, unknown scripts, damaged requests. A good test finds none."""
        return self._record.faults()

    def set_script(self, name: str, steps: Iterable[Step]) -> None:
        """Add a script, or give one another text: from the next request on. For what is known only while it runs, such
        as an id that the client made."""
        self._scripts.set(name, tuple(steps))

    def release(self, gate: str) -> None:
        """Open a gate for good: who waits there goes on, who comes later does not stop."""
        if gate not in {step.name for script in self._scripts.all() for step in script if isinstance(step, Gate)}:
            raise UsageError(f"no script has a gate {gate!r}", remedy="check its name")
        self._opened()[0].call_soon_threadsafe(self._server.open_gate, gate)

    def wait_reached(self, gate: str, *, times: int = 1, within_seconds: float = WAIT_SECONDS) -> None:
        """Block until a request stands at the gate. Unreachable after the deadline."""
        self._record.wait_reached(gate, times, within_seconds)

    async def reached(self, gate: str, *, times: int = 1, within_seconds: float = WAIT_SECONDS) -> None:
        """The same for asyncio code."""
        await asyncio.to_thread(self._record.wait_reached, gate, times, within_seconds)

    def wait_requests(
        self, holds: Callable[[tuple[Received, ...]], bool], *, within_seconds: float = WAIT_SECONDS
    ) -> None:
        """Block until the requests so far satisfy `holds`. Unreachable after the deadline."""
        self._record.wait_requests(holds, within_seconds)

    def __enter__(self) -> Self:
        self._thread.start()
        self._has_started.wait(_START_SECONDS)
        if self._refusal is not None:
            raise UsageError(str(self._refusal), remedy="choose another port, or 0 for a free one") from self._refusal
        self._opened()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the port and every connection, those that wait at a gate too. What was received stays on record."""
        if self._open_at is not None:
            self._open_at[0].call_soon_threadsafe(self._server.stop)
            self._thread.join(_START_SECONDS)
            self._open_at = None

    def _opened(self) -> tuple[asyncio.AbstractEventLoop, int]:
        if self._open_at is None:
            raise ContractError("the scripted model is not open")
        return self._open_at

    def _run(self) -> None:
        try:
            asyncio.run(self._server.serve(self._started))
        except OSError as wrong:
            self._refusal = wrong
            self._has_started.set()

    def _started(self, port: int) -> None:
        self._open_at = asyncio.get_running_loop(), port
        self._has_started.set()
