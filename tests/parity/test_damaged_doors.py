"""A damaged log, by the real doors: rows of a real SQLite file are destroyed, then commands, HTTP, WebSocket and SSE
are asked. A turn that is read across the loss is `unknown` on each of them, and a turn that ended before it is not."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import apsw
import pytest

from interlock.cli.server.api import read_private
from interlock.cli.wire.routes import task_path
from interlock.client.transport.sockets import open_socket
from interlock.log.paths import DATABASE_NAME
from interlock.testing.scribe import Scribe
from interlock.vocabulary.events.audit import ProviderUsage
from tests.any_route import any_route, first_snapshot
from tests.bodies import Body
from tests.cli.homes import Done, make_home, run_many, whole_turns
from tests.cli.serving import Served, serving

TURN: Final = 7  # events of one turn: prompt, start, run, call, result, answer, end


@dataclass(frozen=True, slots=True)
class Harm:
    """Which events are lost, how each turn must be read, and whether the newest turn is known."""

    lost: tuple[int, ...]
    states: dict[str, str]
    is_known: bool


HARMS: Final = {
    "ses_middle": Harm((TURN + 4,), {"t1": "completed", "t2": "unknown"}, False),
    "ses_end": Harm((2 * TURN,), {"t1": "completed", "t2": "unknown"}, False),
    "ses_start": Harm((TURN + 1, TURN + 2), {"t1": "completed", "t2": "unknown"}, False),
    "ses_after": Harm((2 * TURN + 1,), {"t1": "completed", "t2": "completed"}, False),
    "ses_before": Harm((4,), {"t1": "unknown", "t2": "completed"}, True),
    "ses_sound": Harm((), {"t1": "completed", "t2": "completed"}, True),
}
COMMANDS: Final = ("turns", "why", "show", "diagnose", "logs")


def _scribe(name: str) -> Scribe:
    scribe = whole_turns(name, 2)
    assert len(scribe.events) == 2 * TURN
    if name == "ses_after":
        scribe.write(ProviderUsage(model="m"), ProviderUsage(model="m"))
    return scribe


def _destroy(home: Path) -> None:
    """Overwrite lines with bytes that are no event."""
    with closing(apsw.Connection(str(home / DATABASE_NAME))) as connection:
        for name, harm in HARMS.items():
            for seq in harm.lost:
                connection.execute("UPDATE events SET line = x'00' WHERE session_id = ? AND seq = ?", (name, seq))
                assert connection.changes() == 1


@dataclass(frozen=True, slots=True)
class Damaged:
    """A server over a damaged log, and what each command printed."""

    served: Served
    printed: dict[str, Done]

    def json(self, command: str, name: str) -> Body:
        said: Body = json.loads(self.printed[f"{command} {name} --json"].out)
        return said

    def get(self, name: str, path: str = "") -> Body:
        return self.served.api.get(any_route(f"{task_path(name)}{path}"))


@pytest.fixture(scope="module")
def damaged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Damaged]:
    written = make_home(tmp_path_factory.mktemp("home"), *map(_scribe, HARMS))
    with serving(tmp_path_factory.mktemp("damaged")) as served:
        exported = served.folder / "sessions.ndjson"
        (done,) = run_many((f"log export --all --output {exported}",), written)
        assert done.code == 0, done.err
        served.stop()
        assert served.cli("log", "import", str(exported)).returncode == 0
        _destroy(served.home)
        served.start()
        asked = [f"{what} {name}{how}" for what in COMMANDS for name in HARMS for how in ("", " --json")]
        asked += ["ps --all", "ps --all --json", *(f"wait {name} --until done --timeout 60" for name in HARMS)]
        printed: dict[str, Done] = {}
        for at in range(0, len(asked), 12):
            printed |= {done.command: done for done in run_many(asked[at : at + 12], served.home)}
        yield Damaged(served, printed)


@pytest.mark.parametrize(("name", "harm"), HARMS.items(), ids=HARMS)
def test_commands_over_the_log_say_it_of_each_turn(damaged: Damaged, name: str, harm: Harm) -> None:
    turns = damaged.printed[f"turns {name} --json"]
    assert {one["turn_id"]: one["state"] for one in json.loads(turns.out)["turns"]} == harm.states
    assert turns.code == (9 if harm.lost else 0)
    explained = damaged.json("why", name)["record"]
    assert (explained["turn_id"], explained["state"]) == ("t2", harm.states["t2"])
    is_met = "unknown" in harm.states["t2"] or name == "ses_after"
    assert damaged.printed[f"why {name}"].code == (9 if is_met else 0)
    first = damaged.printed[f"why {name}"].out.splitlines()[0]
    assert first.startswith(f"t2: {harm.states['t2']}")
    assert {one["turn_id"]: one["state"] for one in damaged.json("diagnose", name)["turns"]} == harm.states
    for state in set(harm.states.values()):
        assert state in damaged.printed[f"turns {name}"].out


@pytest.mark.parametrize(("name", "harm"), HARMS.items(), ids=HARMS)
def test_http_says_it_of_each_turn(damaged: Damaged, name: str, harm: Harm) -> None:
    page = damaged.get(name, "/turns")
    assert {one["turn_id"]: one["state"] for one in page["items"]} == harm.states
    assert page["is_damaged"] is bool(harm.lost)
    for turn_id, state in harm.states.items():
        assert damaged.get(name, f"/turns/{turn_id}")["state"] == state
        record = damaged.served.api.get(any_route(f"{task_path(name)}/why"), turn=turn_id)["record"]
        assert record["state"] == state
        if state == "unknown":
            lost = [one["first_seq"] for one in record["lost"]]
            assert lost == [harm.lost[0]]
            commands = [one.get("command", "") for one in record["next_actions"]]
            assert f"interlock log verify {name}" in commands
    assert {one["turn_id"]: one["state"] for one in damaged.get(name, "/diagnostics")["turns"]} == harm.states


@pytest.mark.parametrize(("name", "harm"), HARMS.items(), ids=HARMS)
def test_the_status_and_the_badge_claim_nothing_where_the_newest_turn_is_not_known(
    damaged: Damaged, name: str, harm: Harm
) -> None:
    socket = asyncio.run(_joined(damaged.served.home, name))
    stream = first_snapshot(damaged.served.api, name)
    listed = json.loads(damaged.printed["ps --all --json"].out)["sessions"]
    line = next(one for one in listed if one["session_id"] == name)
    summary, check = damaged.get(name)["summary"], damaged.get(name, "/runtime-check")
    shown = damaged.json("show", name)["session"]
    status = "COMPLETED" if harm.is_known else "UNKNOWN"
    assert [one["task_status"] for one in (socket, stream, summary, check)] == [status] * 4
    for badge in (one["badge"] for one in (socket, stream, line, summary, shown)):
        assert badge["outcome"] == ("done" if harm.is_known else "unknown")
        assert badge["needs_person"] is not harm.is_known
        assert (badge["attention"] == "error") is not harm.is_known
    words = next(row for row in damaged.printed["ps --all"].out.splitlines() if row.startswith(name[:8]))
    assert ("unknown" in words) is not harm.is_known
    told = damaged.printed[f"show {name}"].out
    assert ("unknown" in told) is not harm.is_known


@pytest.mark.parametrize(("name", "harm"), HARMS.items(), ids=HARMS)
def test_waiting_for_the_end_of_what_is_not_known_ends_with_7(damaged: Damaged, name: str, harm: Harm) -> None:
    done = damaged.printed[f"wait {name} --until done --timeout 60"]
    assert done.code == (0 if harm.is_known else 7), done.err


@pytest.mark.parametrize(("name", "harm"), HARMS.items(), ids=HARMS)
def test_no_text_of_an_unknown_turn_is_an_answer_at_any_door(damaged: Damaged, name: str, harm: Harm) -> None:
    whole = [turn for turn, state in harm.states.items() if state == "completed"]
    messages = [
        damaged.get(name, "/messages")["items"],
        asyncio.run(_joined(damaged.served.home, name))["messages"],
        first_snapshot(damaged.served.api, name)["messages"],
        [json.loads(line) for line in damaged.printed[f"logs {name} --json"].out.splitlines()],
    ]
    for said in messages:
        answers = [one["turn_id"] for one in said if one["role"] == "answer" and one["status"] == "completed"]
        assert answers == whole
        ends = {one["turn_id"]: one["error_kind"] for one in said if one["role"] == "end"}
        assert ends == {turn: "log_damaged" for turn, state in harm.states.items() if state == "unknown"}
        for one in said:
            if one["role"] == "answer" and one["turn_id"] not in whole:
                assert one["label"].startswith("partial: ")


async def _joined(home: Path, task_id: str) -> Body:
    server, tokens = read_private(home / "server.json"), read_private(home / "tokens.json")
    async with asyncio.timeout(60):
        socket = await open_socket(str(server["url"]), str(tokens["observer"]), closing_seconds=2.0)
        try:
            await socket.send(json.dumps({"type": "task:join", "id": task_id, "task_id": task_id}))
            while (frame := json.loads(await socket.recv())).get("id") != task_id:
                pass
        finally:
            await socket.close()
    snapshot: Body = frame["snapshot"]
    return snapshot
