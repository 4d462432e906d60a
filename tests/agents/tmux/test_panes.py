"""Panes on a real tmux: started without a shell, found again, adopted, reached into."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from interlock.agents.tmux.client import TmuxClient
from interlock.agents.tmux.panes import OWN_SESSION, Pane, adopt, find_again, find_pane, list_panes, start_pane
from interlock.agents.tmux.server import Absent, NoServer, TmuxServer
from interlock.vocabulary.errors import UsageError
from tests.agents.tmux.harness import FOREVER, PYTHON, ends, private_server, shows, stage, text_of
from tests.contract.harness import run

TELL = (
    "import os,sys,time; print(sys.argv[1:], os.getcwd(), os.environ['KEY'], os.get_terminal_size()); time.sleep(600)"
)


def test_a_program_gets_its_words_folder_environment_and_size_and_no_shell(tmp_path: Path) -> None:
    async def main() -> None:
        words = ["a b", "$HOME", ";", "x;", "", "'\"", "#{pid}", "~", "-n"]
        async with private_server() as server:
            info = await start_pane(
                server,
                [*PYTHON, TELL, *words],
                name="my agent",
                cwd=str(tmp_path),
                env={"KEY": "s e;c$ret"},
                columns=300,
            )
            async with await TmuxClient.attach(server, OWN_SESSION) as client:
                text = text_of(await shows(Pane(client, info.pane_id), "columns=300, lines=40"))
            assert f"{words!r} {tmp_path} s e;c$ret" in text
            assert (await find_pane(server)).window_name == "my agent"

    run(main())


def test_a_single_word_is_a_program_too_and_one_that_is_not_there_ends_with_a_status(tmp_path: Path) -> None:
    program = tmp_path / "my agent; echo $HOME"
    program.write_text("#!/bin/sh\necho HI; exec sleep 600\n")
    program.chmod(0o700)

    async def main() -> None:
        async with stage(str(program)) as on:
            await shows(on.pane, "HI")
            lost = await on.start("no-such-program-here")
            capture = await ends(lost)
            assert capture.exit_status == 127

    run(main())


def test_a_program_that_ends_at_once_still_leaves_its_status() -> None:
    """Not always what it wrote: tmux 3.3 drops what it has not read when it hears that the process is gone."""

    async def main() -> None:
        async with stage() as on:
            for status in (0, 3):
                capture = await ends(await on.start("sh", "-c", f"exit {status}"))
                assert (capture.snapshot.is_dead, capture.exit_status) == (True, status)

    run(main())


def test_what_a_program_showed_stays_after_its_end() -> None:
    async def main() -> None:
        async with stage() as on:
            for status in (0, 3):
                pane = await on.start("sh", "-c", f"echo BYE; read line; exit {status}")
                await shows(pane, "BYE")
                await pane.send_keys("Enter")
                capture = await ends(pane)
                assert (capture.snapshot.is_dead, capture.exit_status) == (True, status)
                assert text_of(capture).startswith("BYE")

    run(main())


def test_agents_that_are_started_at_the_same_time_share_one_session() -> None:
    async def main() -> None:
        async with private_server() as server:
            infos = await asyncio.gather(*(start_pane(server, FOREVER, name=f"a{n}") for n in range(6)))
            assert len({info.pane_id for info in infos}) == 6
            assert len({info.session_id for info in infos}) == 1
            assert sorted(info.window_name for info in await list_panes(server)) == [f"a{n}" for n in range(6)]

    run(main())


def test_a_new_window_does_not_take_the_place_of_the_one_that_is_looked_at() -> None:
    async def main() -> None:
        async with stage() as on:
            ask = ["display-message", "-p", "-t", OWN_SESSION, "#{window_id}"]
            before = await on.server.run(ask)
            await on.start(*FOREVER)
            assert await on.server.run(ask) == before

    run(main())


def test_a_pane_is_found_by_every_name_it_has_and_refused_when_several_are_meant() -> None:
    async def main() -> None:
        async with private_server() as server:
            await start_pane(server, FOREVER, name="one.5")
            second = await start_pane(server, FOREVER, name="two")
            for target in (second.pane_id, "agents:1.0", "agents:1", "agents:two", "agents:two.0", second.window_id):
                assert (await find_pane(server, target)).pane_id == second.pane_id, target
            assert (await find_pane(server, "agents:one.5")).window_name == "one.5"
            for target in ("", "agents", second.session_id):
                with pytest.raises(UsageError, match="names 2 panes: %0"):
                    await find_pane(server, target)
            for target in ("%9", "agen", "agents:tw", "agents:1.7", "other:1.0", "%"):
                with pytest.raises(Absent, match="there are %0"):
                    await find_pane(server, target)
        with pytest.raises(NoServer):
            await find_pane(TmuxServer("/nonexistent/socket"), "%0")

    run(main())


def test_names_and_titles_cannot_break_the_list_of_panes() -> None:
    async def main() -> None:
        async with stage() as on:
            for title in ("a\u2028b\u0085c", "#{pane_id}", "x" * 2000, "%0"):
                await on.client.command("select-pane", "-t", on.pane.pane_id, "-T", title.replace("#", "##"))
                await on.client.command("rename-window", "-t", on.pane.pane_id, title)
                (info,) = await list_panes(on.server)
                assert info.pane_id == on.pane.pane_id
                assert info.title == title or not title.isprintable()  # tmux itself refuses what is not printable

    run(main())


def test_a_pane_is_adopted_from_any_socket_and_known_again_only_while_its_process_lives() -> None:
    async def main() -> None:
        async with private_server() as server:
            await server.run(["new-session", "-d", "-s", "mine", "cat"], may_start=True)
            foreign = TmuxServer(server.socket)
            adopted = await adopt(foreign, "mine:0.0")
            identity = adopted.info.identity
            assert adopted.capture.pid == identity.pid
            assert identity.started is not None
            assert (await find_again(foreign, identity)).pane_id == identity.pane_id
            again = await adopt(foreign, identity.pane_id, adopted.pane.client)
            assert again.pane.client is adopted.pane.client
            await adopted.pane.client.command("respawn-pane", "-k", "-t", identity.pane_id, "cat")
            with pytest.raises(Absent, match="is there, but"):
                await find_again(foreign, identity)
            await adopted.pane.client.close()
            os.kill((await find_pane(foreign)).identity.pid, 0)

    run(main())


def test_pasted_text_leaves_no_buffer_behind_even_if_the_pane_is_gone() -> None:
    async def main() -> None:
        async with stage("cat") as on:
            await on.pane.send_text("secret words")
            await shows(on.pane, "secret")
            with pytest.raises(Absent):
                await Pane(on.client, "%99").send_text("more secrets")
            assert await on.client.command("list-buffers") == ""

    run(main())


def test_keys_are_pressed_by_name_and_a_name_that_is_none_is_not_typed_out() -> None:
    async def main() -> None:
        # cat closes its terminal before it exits, and tmux may hang it up in between: the shell holds it open.
        async with stage("sh", "-c", "cat; exit 0") as on:
            await on.pane.send_keys("a", "Space", "%", "-", "Enter")
            await shows(on.pane, "a %-\na %-")
            for key in ("Entr", "", "hello", "\n", "C-"):
                with pytest.raises(UsageError, match="is no key"):
                    await on.pane.send_keys(key)
            await on.pane.send_keys("C-d")
            assert (await ends(on.pane)).exit_status == 0

    run(main())
