"""The mark of a pane on a real tmux: set with its making, and obeyed before typing, adopting and stopping."""

from __future__ import annotations

from dataclasses import replace

import pytest

from interlock.agents.observations import BecameReady, Exited
from interlock.agents.port import NotDelivered
from interlock.agents.processes.identity import is_alive
from interlock.agents.terminal.driver import TerminalDriver
from interlock.agents.terminal.launch import read_where
from interlock.agents.tmux.ownership import OWNER_OPTION, claim_pane, owner_here, read_mark
from interlock.agents.tmux.panes import find_pane, start_pane
from interlock.agents.tmux.server import Absent, TmuxServer
from interlock.log.home_identity import NotOurs, look_at_home
from interlock.vocabulary.events.registry import Json
from tests.agents.terminal.harness import QUICK, agent, driving, new_spawn, prompt, reading, scripted
from tests.contract.harness import run
from tests.each_row import each_row

OTHER = "hom_other/1.1"


async def mark_of(server: TmuxServer, pane_id: str) -> str:
    return (await find_pane(server, pane_id)).owner


async def mark(server: TmuxServer, pane_id: str, text: str) -> None:
    await server.run(["set-option", "-p", "-t", pane_id, OWNER_OPTION, text])


def other_home(driver: TerminalDriver) -> TerminalDriver:
    """A driver of another home that knows the same tmux server."""
    folder = driver.run_folder.with_name("other") / "run"
    return TerminalDriver(folder, driver.server, QUICK, driver.profiles)


def test_a_pane_bears_the_mark_of_its_home_and_another_home_does_not_adopt_it() -> None:
    async def main() -> None:
        async with driving() as driver, agent(driver) as seen:
            where = read_where(seen.handle.where)
            found = await mark_of(driver.server, where.pane_id)
            assert found == owner_here(look_at_home(driver.run_folder.parent).home_id).mark
            with pytest.raises(NotOurs, match="belongs to another home"):
                await other_home(driver).adopt(scripted(), new_spawn(), seen.handle.where)
            assert await mark_of(driver.server, where.pane_id) == found

    run(main())


def test_a_pane_that_was_taken_is_not_typed_into_and_its_agent_is_not_stopped() -> None:
    async def main() -> None:
        async with driving() as driver, agent(driver) as seen:
            await seen.until(BecameReady)
            where = read_where(seen.handle.where)
            ours = await mark_of(driver.server, where.pane_id)
            await mark(driver.server, where.pane_id, OTHER)
            with pytest.raises(NotDelivered, match="hom_other"):
                await seen.handle.submit(prompt("say TYPED"))
            with pytest.raises(NotOurs):
                await seen.handle.stop()
            assert seen.handle.process is not None
            assert is_alive(seen.handle.process)
            assert "TYPED" not in await driver.server.run(["capture-pane", "-p", "-t", where.pane_id])
            await mark(driver.server, where.pane_id, ours)  # so that it ends with this test

    run(main())


def test_an_agent_whose_pane_is_gone_is_stopped_and_called_nobody_elses() -> None:
    """Its tmux server lives on, with another pane of the same session: of a pane that is gone tmux tells that one's."""

    async def main() -> None:
        async with driving() as driver, agent(driver) as seen:
            await seen.until(BecameReady)
            where = read_where(seen.handle.where)
            await driver.server.run(["split-window", "-d", "-t", where.pane_id, "sleep 100"])
            await driver.server.run(["kill-pane", "-t", where.pane_id])
            await seen.until(Exited)
            await seen.handle.stop()
            assert seen.handle.process is not None
            assert not is_alive(seen.handle.process)

    run(main())


def test_a_pane_that_another_living_process_of_this_home_holds_is_left_to_it() -> None:
    async def main() -> None:
        async with driving() as driver, agent(driver) as seen:
            await seen.until(BecameReady)
            where, process = seen.handle.where, seen.handle.process
            await seen.handle.release()
            pane_id = read_where(where).pane_id
            assert process is not None
            home_id = look_at_home(driver.run_folder.parent).home_id
            await mark(
                driver.server, pane_id, replace(owner_here(home_id), pid=process.pid, started=process.start_time).mark
            )
            with pytest.raises(NotOurs, match=f"held by process {process.pid} of this home"):
                await driver.adopt(scripted(), seen.handle.spawn_id, where)
            await mark(driver.server, pane_id, f"{home_id}/{process.pid}.0")  # a process of that number, long gone
            again = await driver.adopt(scripted(), seen.handle.spawn_id, where)
            assert read_mark(await mark_of(driver.server, pane_id)) == owner_here(home_id)
            await again.stop()

    run(main())


def test_a_persons_own_pane_is_marked_while_it_is_driven_and_free_afterwards() -> None:
    async def main() -> None:
        async with driving() as driver:
            info = await start_pane(driver.server, ["sh", "-c", "exec sleep 600"])
            where: Json = {"socket": driver.server.socket, "pane_id": info.pane_id, "control": True}
            handle = await driver.adopt(scripted(), new_spawn(), where)
            assert await mark_of(driver.server, info.pane_id)
            with pytest.raises(NotOurs):
                await other_home(driver).adopt(scripted(), new_spawn(), where)
            async with reading(handle):
                await handle.stop()
            assert await mark_of(driver.server, info.pane_id) == ""

    run(main())


def test_a_mark_is_changed_only_from_the_one_that_was_looked_at() -> None:
    async def main() -> None:
        async with driving() as driver:
            info = await start_pane(driver.server, ["sh", "-c", "exec sleep 600"], owner=OTHER)
            with pytest.raises(NotOurs, match="taken by another owner"):
                await claim_pane(driver.server, info.pane_id, "", owner_here("hom_1"))
            assert await mark_of(driver.server, info.pane_id) == OTHER
            await claim_pane(driver.server, info.pane_id, OTHER, owner_here("hom_1"))
            assert await mark_of(driver.server, info.pane_id) == owner_here("hom_1").mark

    run(main())


def test_a_pane_that_is_gone_is_said_to_be_gone_and_not_to_be_somebody_elses() -> None:
    async def main() -> None:
        async with driving() as driver:
            kept = await start_pane(driver.server, ["sh", "-c", "exec sleep 600"])
            info = await start_pane(driver.server, ["sh", "-c", "exec sleep 600"], owner=OTHER)
            await driver.server.run(["kill-pane", "-t", info.pane_id])
            for found in ("", OTHER):
                with pytest.raises(Absent, match=r"is gone|no such pane"):
                    await claim_pane(driver.server, info.pane_id, found, owner_here("hom_1"))
            await claim_pane(driver.server, kept.pane_id, "", owner_here("hom_1"))

    run(main())


@each_row("text", ["", "x", "hom_1", "hom_1/", "hom_1/x.y", "/1.2", "#{pid}"])
def test_a_mark_that_we_did_not_write_names_nobody_of_us(text: str) -> None:
    assert read_mark(text) != owner_here("hom_1")
    assert not read_mark(text).lives_elsewhere
