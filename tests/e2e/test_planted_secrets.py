"""Ten secrets in every word that an agent can say: none is in the files of the log, published, logged or answered."""

from __future__ import annotations

import asyncio
import logging
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from interlock.agents import observations as seen
from interlock.agents.port import AgentSpec
from interlock.log.sqlite.store import SqliteLog
from interlock.monitor.arbitration.agent_status import Standing
from interlock.runtime.redaction.redactor import Redactor
from interlock.runtime.runtime import Runtime
from interlock.server.http.access import Tokens
from interlock.server.redacted_logging import log_without_secrets
from interlock.server.serving import bind, running
from interlock.server.settings import ServerSettings
from interlock.testing.puppet import PuppetDriver
from interlock.vocabulary.events.codec import encode_event
from interlock.vocabulary.events.conversation import ToolError
from interlock.vocabulary.ids import SessionId
from interlock.vocabulary.states import Activity, Attention

BY_VALUE: Final = {
    "SERVICE_PASSWORD": "hunter-2-of-many",
    "WHATEVER": "plain-looking-9",
    "QUOTED": 'with "quotes" 1',
    "BLANKS": "several words, 7 of them",
    "UMLAUT": "gr\u00fc\u00dfe-42-\u20ac",
}
BY_SHAPE: Final = (
    "ghp_abcdefghij0123456789",
    "sk-ant-api03-abcdefgh12345678",
    "AKIAIOSFODNN7EXAMPLE",
)
OPERATOR, OBSERVER = "operator-token-of-this-test-1", "observer-token-of-this-test-2"
ALL: Final = " | ".join((*BY_VALUE.values(), *BY_SHAPE, OPERATOR, OBSERVER))
# What must not be found: a shape keeps what tells its kind.
HIDDEN: Final = (*BY_VALUE.values(), *(one[8:] for one in BY_SHAPE), OPERATOR, OBSERVER)
WAIT_SECONDS: Final = 100.0


def found_in(data: bytes) -> list[str]:
    """The secrets that stand in bytes, as they are or as JSON spells them."""
    spelled = {one: (one, one.replace('"', '\\"'), ascii(one)[1:-1]) for one in HIDDEN}
    return [one for one, ways in spelled.items() if any(way.encode() in data for way in ways)]


def said_in_every_channel() -> list[seen.Observation]:
    """Every kind of observation, with all secrets in each of its texts. The answer comes in small pieces."""
    pieces = [seen.TextArrived(text=ALL[at : at + 3]) for at in range(0, len(ALL), 3)]
    standing = Standing(activity=Activity.WORKING, attention=Attention.NONE)
    return [
        seen.SessionNamed(native_session_id=ALL, model=ALL, version=ALL, transcript_path=f"/t/{ALL}"),
        *pieces,
        *(seen.ThoughtArrived(text=ALL[at : at + 3]) for at in range(0, len(ALL), 3)),
        seen.ToolCalled(call_id=f"c {ALL}", name="Bash", args={"command": ALL, ALL: [ALL]}),
        seen.ToolReturned(call_id=f"c {ALL}", output={"stdout": ALL}),
        seen.ToolCalled(call_id="c2", name="Bash", args=ALL),
        seen.ToolReturned(call_id="c2", error=ToolError(kind="failed", message=ALL, details={"x": ALL})),
        seen.Warned(kind="odd", message=ALL, details={"line": ALL}),
        seen.RetryBegun(message=ALL),
        seen.Traced(raw=ALL),
        seen.StandingSeen(standing=standing, rows=ALL, profile="p"),
        seen.ApprovalAsked(
            request_id="r1",
            name="Bash",
            args={"command": ALL},
            question=ALL,
            options=(seen.ApprovalOption(label=f"Yes, {ALL}", id="y"), seen.ApprovalOption(label="No", id="n")),
        ),
    ]


async def until(look: Callable[[], object]) -> None:
    async with asyncio.timeout(WAIT_SECONDS):
        while not look():  # noqa: ASYNC110
            await asyncio.sleep(0.005)


def files_in(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir() if file.is_file()}


def answer(url: str) -> bytes:
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {OPERATOR}"})
    try:
        with urllib.request.urlopen(request, timeout=WAIT_SECONDS) as reply:
            return bytes(reply.read())
    except urllib.error.HTTPError as refused:
        return bytes(refused.read())


def test_no_secret_is_kept_published_or_answered(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    settings = ServerSettings(host="127.0.0.1", port=0)
    published: list[bytes] = []
    bodies: dict[str, bytes] = {}
    lines: list[bytes] = []

    async def story() -> str:
        puppets, redactor = PuppetDriver(), Redactor((OPERATOR, OBSERVER))
        with bind(settings) as listening, log_without_secrets(redactor):
            async with (
                await SqliteLog.open(tmp_path) as log,
                Runtime(log, [puppets], redactor=redactor) as runtime,
                runtime.watch() as watcher,
                running(runtime, log, Tokens(OPERATOR, OBSERVER), settings, listening) as server,
            ):

                async def listen() -> None:
                    async for event in watcher:
                        published.append(encode_event(event))  # noqa: PERF401  # it is looked at meanwhile

                listening_task = asyncio.create_task(listen())
                spec = AgentSpec(
                    agent="puppet",
                    driver="puppet",
                    argv=("run", ALL, f"--x={ALL}"),
                    environment=BY_VALUE,
                    cwd=f"/{ALL}",
                )
                session = await runtime.open_session(spec, title=ALL)
                await runtime.send(session, f"use {ALL}")
                await until(lambda: puppets.puppets and puppets.puppets[0].prompts)
                puppet = puppets.puppets[0]
                told = puppet.prompts[0].text
                puppet.say(*said_in_every_channel())
                await until(lambda: any(b"dialog_opened" in one or b"tool_call_suspended" in one for one in published))
                logging.getLogger("interlock.server").error("it failed: %s", ALL)
                paths = ("", "/messages", "/turns", "/queue", "/approvals", "/state", "/runtime-check", "/spawns")
                for path in paths:
                    bodies[path] = await asyncio.to_thread(answer, f"{server.url}/api/tasks/{session}{path}")
                bodies["tasks"] = await asyncio.to_thread(answer, f"{server.url}/api/tasks")
                puppet.say(
                    seen.TurnEnded(ending=seen.TurnEnding.ERROR, error_kind="x", error_message=ALL, details={"e": ALL}),
                    seen.Exited(code=1, stderr_tail=f"{ALL}\n{ALL[5:]}"),
                )
                await until(lambda: any(b'"exited"' in one for one in published))
                read = await log.read(SessionId(session))
                lines.extend(encode_event(event) for event in read.events)
                listening_task.cancel()
                bodies.update(await asyncio.to_thread(files_in, tmp_path))
                return told

    told = asyncio.run(story())
    assert told == f"use {ALL}", "the agent gets what was written"
    assert "it failed" in caplog.text
    assert found_in(caplog.text.encode()) == []
    assert any(b"assistant_message" in line for line in lines)
    assert any(b"text_delta" in line for line in published)
    assert {name: found_in(body) for name, body in bodies.items() if found_in(body)} == {}
    assert [line for line in (*lines, *published) if found_in(line)] == []
    shown = "".join(
        line.decode().partition('"text":"')[2].partition('"')[0] for line in published if b'"text_delta"' in line
    )
    assert found_in(shown.encode()) == [], "nobody puts a secret together from pieces"
    assert sum(len(body) for name, body in bodies.items() if name.endswith((".db", "-wal", ".sqlite", ".sqlite3"))) > 0
