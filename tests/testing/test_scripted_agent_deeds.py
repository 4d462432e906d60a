"""What the scripted agent does beside speaking: the processes that it starts, and the ledger that it keeps."""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from interlock.testing.scripted_agent import Gates, prompts_in, read_ledger
from interlock.testing.scripted_agent.ledger import Ledger
from tests.testing.scripted_agent_client import Client, agent


def prompt(client: Client, text: str) -> None:
    client.send({"type": "user", "message": {"role": "user", "content": text}})


class Found(NamedTuple):
    """A process as the kernel knows it."""

    parent: int
    group: int
    session: int

    @classmethod
    def of(cls, pid: int) -> Found:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        return cls(*(int(field) for field in fields[1:4]))


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def comes_true(holds: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + 100
    while not holds() and time.monotonic() < deadline:
        time.sleep(0.005)
    return holds()


@contextmanager
def with_child(kind: str, folder: Path) -> Iterator[tuple[Client, int]]:
    """An agent in mid-turn that has started a process, which is gone afterwards."""
    ledger = folder / "ledger"
    with agent("--stream-json", "--ledger", str(ledger), environment={"INTERLOCK_SPAWN_ID": "spn_1"}) as client:
        prompt(client, f"spawn {kind}; say started; hang")
        client.until(lambda message: "started" in str(message))
        (entry,) = read_ledger(ledger, "spawned")
        child: Any = entry.data["child"]
        try:
            yield client, child
        finally:
            os.kill(child, signal.SIGKILL)


def test_a_child_a_group_an_orphan_and_a_daemon_differ_in_who_they_belong_to(tmp_path: Path) -> None:
    for kind in ("child", "group", "orphan", "daemon"):
        folder = tmp_path / kind
        folder.mkdir()
        with with_child(f"{kind} 30", folder) as (client, child):
            pid, found = client.process.pid, Found.of(child)
            assert (found.parent == pid) == (kind in ("child", "group"))
            assert (found.group == pid) == (kind in ("child", "orphan"))
            assert (found.session == pid) == (kind != "daemon")
            environment = Path(f"/proc/{child}/environ").read_bytes().split(b"\0")
            assert b"INTERLOCK_SPAWN_ID=spn_1" in environment


def test_a_stubborn_process_outlives_a_term(tmp_path: Path) -> None:
    with with_child("daemon stubborn 30", tmp_path) as (_client, child):
        ignored = next(
            line for line in Path(f"/proc/{child}/status").read_text(encoding="ascii").splitlines() if "SigIgn" in line
        )
        mask = int(ignored.split()[1], 16)
        assert all(mask >> (number - 1) & 1 for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP))
        os.kill(child, signal.SIGTERM)
        assert is_alive(child)


def test_an_untagged_process_has_lost_its_spawn_id(tmp_path: Path) -> None:
    with with_child("orphan untagged 30", tmp_path) as (_client, child):
        assert b"INTERLOCK_SPAWN_ID" not in Path(f"/proc/{child}/environ").read_bytes()


@pytest.mark.parametrize("holding", [True, False])
def test_a_holding_process_keeps_our_pipe_open(holding: bool, tmp_path: Path) -> None:
    with with_child(f"daemon {'holding' if holding else ''} 30", tmp_path) as (client, child):
        pipe = Path(f"/proc/{client.process.pid}/fd/1").readlink()
        assert (Path(f"/proc/{child}/fd/1").readlink() == pipe) == holding


def test_a_daemon_outlives_its_agent_and_ends_by_itself(tmp_path: Path) -> None:
    ledger = tmp_path / "ledger"
    with agent("--stream-json", "--ledger", str(ledger)) as client:
        prompt(client, "spawn daemon 2; crash")
        assert client.exit_code() == -signal.SIGKILL
        child: Any = read_ledger(ledger, "spawned")[0].data["child"]
        assert is_alive(child)
        assert comes_true(lambda: not is_alive(child))


def test_the_ledger_knows_who_started_and_what_came(tmp_path: Path) -> None:
    ledger = tmp_path / "ledger"
    with agent("--stream-json", "--ledger", str(ledger), "--resume", "ses-1") as client:
        prompt(client, "say one")
        client.next(type="result")
    start, came = read_ledger(ledger)
    assert (start.what, start.pid, start.data["resume"]) == ("start", client.process.pid, "ses-1")
    assert (came.what, came.pid, came.data["text"]) == ("prompt", client.process.pid, "say one")
    assert read_ledger(tmp_path / "none") == []


def test_a_ledger_without_a_path_is_none() -> None:
    Ledger().record("prompt", text="unheard")


def test_a_prompt_is_in_the_ledger_before_any_sign_of_it_whenever_the_agent_is_killed(tmp_path: Path) -> None:
    ledger, dice = tmp_path / "ledger", random.Random(5)
    shown: list[str] = []
    for round_number in range(8):
        with agent("--stream-json", "--ledger", str(ledger)) as client:
            for number in range(20):
                prompt(client, f"# {round_number}.{number}; words 3")
            for number in range(1 + dice.randrange(19)):
                client.next(type="system", subtype="init")
                shown.append(f"# {round_number}.{number}; words 3")
            client.process.kill()
            client.process.wait()
    written = Counter(prompts_in(ledger))
    assert set(written.values()) == {1}
    assert set(shown) <= written.keys()
    assert len({entry.pid for entry in read_ledger(ledger, "start")}) == 8


def test_many_agents_may_share_a_ledger_and_a_gate(tmp_path: Path) -> None:
    gates, ledger = Gates(tmp_path), tmp_path / "ledger"
    arguments = ("--stream-json", "--gates", str(tmp_path), "--ledger", str(ledger))
    with agent(*arguments) as one, agent(*arguments) as two:
        for number, client in enumerate((one, two)):
            prompt(client, f"# {number}; gate together; say go")
        assert set(gates.await_reached("together", by=2)) == {one.process.pid, two.process.pid}
        gates.open("together")
        assert [client.next(type="result")["result"] for client in (one, two)] == ["go", "go"]
    assert {entry.pid for entry in read_ledger(ledger, "prompt")} == {one.process.pid, two.process.pid}
