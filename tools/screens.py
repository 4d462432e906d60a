"""Pictures of `interlock top` and `interlock ps`, from a real run: a server, and scripted agents in every state.

`python -m tools.screens` makes docs/pictures anew. With a folder, it puts there what both show at three sizes, light
and dark, in every state of the board, as SVG and as text, to be looked at.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

from textual.pilot import Pilot

from interlock.agents.tmux.server import TmuxServer
from interlock.cli.server.api import ServerApi
from interlock.cli.top.app import TopApp
from interlock.cli.wire.routes import HEALTH, task_detail
from interlock.client.client import Client, connect_async
from interlock.testing.scripted_agent import command, write_program
from interlock.vocabulary.errors import Unreachable
from tools.screen_changes import TITLE, open_changed
from tools.screen_scenes import APPROVAL, AT_TERMINAL, CRASH, CRASHED, LONG, QUESTION, SCENES, TERMINAL, Scene

PICTURES: Final = Path(__file__).parent.parent / "docs" / "pictures"
SIZES: Final = ((80, 24), (120, 36), (200, 50))
OF_PICTURE: Final = (120, 36)
WAIT_SECONDS: Final = 40.0
Size: TypeAlias = tuple[int, int]
_FONT: Final = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)


class Shot(NamedTuple):
    """One picture: its name, the session that is selected, the keys to press, what must stand on it, and how to leave
    it again."""

    name: str
    title: str
    keys: Sequence[str] = ()
    words: Sequence[str] = ()
    leave: Sequence[str] = ()


BOARD: Final = Shot("board", APPROVAL, words=("Allow Bash?", "a approve"))
SHOTS: Final = (
    BOARD,
    Shot("question", QUESTION, words=("Which version will this be?", "1.8.4")),
    Shot("transcript", LONG, ("tab",), ("Part 8",), ("tab",)),
    Shot("terminal", AT_TERMINAL, (), ("terminal, live", "esc to interrupt")),
    Shot("zoomed", AT_TERMINAL, ("z",), (f"{AT_TERMINAL}: terminal, live",), ("z",)),
    Shot("why", APPROVAL, ("w",), ("evidence:",), ("escape",)),
    Shot("lives", APPROVAL, ("P",), ("STATE", "running"), ("escape",)),
    Shot("keys", APPROVAL, ("?",), ("esc closes",), ("escape",)),
    Shot("filter", APPROVAL, ("slash", *"claude"), ("4 of 9 match",), ("escape",)),
    Shot("search", APPROVAL, ("slash", *"provider is"), ("arrows choose", "overloaded"), ("escape",)),
    Shot("rules", APPROVAL, ("A",), ("rules for this session", "For the open question"), ("escape",)),
    Shot("new", APPROVAL, ("N",), ("new session", "‹claude›", "‹in this folder›"), ("escape",)),
    Shot("rename", APPROVAL, ("r",), ("its new title",), ("escape",)),
    Shot("archive", APPROVAL, ("X",), ("archive it?",), ("n",)),
    Shot("tree", APPROVAL, ("t",), ("SESSIONS AND THEIR COPIES",), ("t",)),
    Shot("send", APPROVAL, ("s", *"Then"), ("your prompt",), ("escape",)),
    Shot("reply", QUESTION, ("i", *"Wait"), ("your answer",), ("escape",)),
    Shot("sure", APPROVAL, ("x",), ("stop the agent",), ("n",)),
)
# The animated picture of the docs: a person answers two agents, and asks why.
STORY: Final = (
    BOARD,
    Shot("approved", APPROVAL, ("a",), ("approved",)),
    Shot("question", QUESTION, words=("Which version will this be?", "1.8.4")),
    Shot("answered", QUESTION, ("1",), ("answered",)),
    Shot("why", LONG, ("w",), ("evidence:",), ("escape",)),
)
FRAME_SECONDS: Final = 2.5
ADOPTED: Final = "adopted by hand"
MORE: Final = (
    Shot("crashed", CRASHED, (), ("crash",)),
    Shot("adopted", ADOPTED, (), (ADOPTED, "terminal, live")),
)
REVIEW: Final = Shot("review", TITLE, ("D",), ("turn 1 of 1", "x discard", "Run as root"), ("escape",))
GONE: Final = Shot("gone", APPROVAL, words=("disconnected for", "last known"))
EMPTY: Final = Shot("empty", "", words=("There is no session yet.",))


class Picture(NamedTuple):
    svg: str
    text: str


def main(arguments: Sequence[str]) -> int:
    """Make the pictures of the docs, or with a folder all the screens."""
    if not arguments:
        return _picture_docs()
    folder = Path(arguments[0])
    folder.mkdir(parents=True, exist_ok=True)
    with place() as inner:
        config = inner / "config.toml"
        known = "".join(f"[agents.{name}]\nargv = ['{sys.executable}']\n" for name in ("claude", "codex", "gemini"))
        config.write_text(known, encoding="utf-8")
        os.environ["INTERLOCK_CONFIG"] = str(config)
        _take_screens(folder, inner)
    return 0


def _take_screens(folder: Path, inner: Path) -> None:
    with serving(inner) as server, person_tmux(inner) as socket:
        _put(folder, _take_all(server.home, [EMPTY]))
        asyncio.run(open_all(server.home, inner, SCENES))
        _put(folder, {f"ps-{size[0]}x{size[1]}": run_ps(server.home, *size) for size in SIZES})
        _put(folder, _take_all(server.home, SHOTS))
        asyncio.run(open_all(server.home, inner, [CRASH]))
        body = {"socket": str(socket), "pane": "%0", "title": ADOPTED}
        ServerApi.of_home(server.home).ask("POST", "/api/adoptions", body)
        _put(folder, _take_all(server.home, MORE))
        asyncio.run(open_changed(server.home, inner))
        _put(folder, {f"ps-changes-{size[0]}x{size[1]}": run_ps(server.home, *size) for size in SIZES})
        _put(folder, _take_all(server.home, [REVIEW]))
        _put(folder, asyncio.run(take_last(server.home, GONE, SIZES, server.end)))


@contextmanager
def person_tmux(inner: Path) -> Iterator[Path]:
    """A tmux of a person, with an agent in it that they started."""
    socket = inner / "person"
    tmux = ("tmux", "-f", os.devnull, "-S", str(socket))
    size = ("-x", "91", "-y", "27")
    subprocess.run((*tmux, "new-session", "-d", *size, *command("tui")), check=True, timeout=WAIT_SECONDS)
    try:
        yield socket
    finally:
        subprocess.run((*tmux, "kill-server"), check=False, capture_output=True, timeout=WAIT_SECONDS)


def _put(folder: Path, taken: Mapping[str, Picture]) -> None:
    for name, picture in taken.items():
        (folder / f"{name}.svg").write_text(picture.svg, encoding="utf-8")
        (folder / f"{name}.txt").write_text(picture.text, encoding="utf-8")
        print(folder / name)


def _picture_docs() -> int:
    PICTURES.mkdir(exist_ok=True)
    for name, is_light in (("top", False), ("top-light", True)):
        with place() as inner, serving(inner) as server:  # anew: what was answered is not asked again
            asyncio.run(open_all(server.home, inner, SCENES))
            taken = asyncio.run(take(server.home, STORY, OF_PICTURE, is_light=is_light))
        (PICTURES / f"{name}.svg").write_text(animated([picture.svg for picture in taken.values()]), encoding="utf-8")
        print(f"docs/pictures/{name}.svg")
    return 0


def animated(frames: Sequence[str]) -> str:
    """One picture that shows these in turn, each for as long. A viewer without animation shows the first."""
    size = re.search(r'viewBox="([^"]*)"', frames[0])
    assert size is not None
    share = 100 / len(frames)
    style = (
        "@keyframes turn { 0% { visibility: visible } "
        f"{share:.2f}% {{ visibility: hidden }} 100% {{ visibility: hidden }} }} "
        f".frame {{ animation: turn {FRAME_SECONDS * len(frames):g}s step-end infinite; visibility: hidden }} "
        ".frame:first-of-type { visibility: visible }"
    )
    shown = "\n".join(
        f'<g class="frame" style="animation-delay: {FRAME_SECONDS * place:g}s">\n{frame.strip()}\n</g>'
        for place, frame in enumerate(frames)
    )
    return f'<svg viewBox="{size[1]}" xmlns="http://www.w3.org/2000/svg">\n<style>{style}</style>\n{shown}\n</svg>\n'


def _take_all(home: Path, shots: Sequence[Shot]) -> dict[str, Picture]:
    taken: dict[str, Picture] = {}
    for size in SIZES:
        for is_light in (False, True):
            taken |= asyncio.run(take(home, shots, size, is_light=is_light))
    return taken


def _name(shot: str, size: Size, *, is_light: bool) -> str:
    return f"top-{shot}-{size[0]}x{size[1]}-{'light' if is_light else 'dark'}"


# A server, and what runs on it


@contextmanager
def place() -> Iterator[Path]:
    """A folder for everything, with a short path: those of sockets may not be long."""
    with tempfile.TemporaryDirectory(prefix="il-") as folder:
        yield Path(folder)


class Server:
    """A server in a home of its own, which can be ended and begun again."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self._process: subprocess.Popen[bytes] | None = None

    def begin(self) -> None:
        """Start it, and wait until it is ready."""
        argv = (sys.executable, "-m", "interlock.server", "--home", str(self.home))
        self._process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, start_new_session=True)
        assert self._process.stdout is not None
        self._process.stdout.readline()
        _await(lambda: bool(ServerApi.of_home(self.home).get(HEALTH)["ready"]), "the server")

    def end(self) -> None:
        """Stop it; agents in tmux go on."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait(WAIT_SECONDS)
            assert self._process.stdout is not None
            self._process.stdout.close()
            self._process = None


@contextmanager
def serving(inner: Path) -> Iterator[Server]:
    """A server for the block. Whatever its tmux holds ends with it."""
    home = inner / "home"
    home.mkdir(mode=0o700)
    server = Server(home)
    server.begin()
    try:
        yield server
    finally:
        server.end()
        kill = TmuxServer.of_home(home).argv("kill-server")
        subprocess.run(kill, check=False, capture_output=True, timeout=WAIT_SECONDS)


def _await(look: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < deadline:
        try:
            if look():
                return
        except Unreachable:
            pass
        time.sleep(0.05)
    raise TimeoutError(f"{what} did not come to be")


async def open_all(home: Path, inner: Path, scenes: Sequence[Scene]) -> None:
    """Begin a session for each scene, and wait until it stands as it shall."""
    async with connect_async(home) as client:
        for number, scene in enumerate(scenes):
            await _open(client, home, inner / f"agent-{scene.title.split()[0]}-{number}", scene)


async def _open(client: Client, home: Path, program: Path, scene: Scene) -> None:
    script = program.with_suffix(".script")
    script.write_text("\n".join(scene.script), encoding="utf-8")
    is_terminal = scene.driver == TERMINAL
    argv = command("tui" if is_terminal else "stream-json", script=script)
    first, *later = scene.prompts
    folder = program.parent / "web"
    folder.mkdir(exist_ok=True)
    task = await client.open_task(
        agent=scene.agent,
        driver=scene.driver,
        argv=argv if is_terminal else (write_program(program, argv),),
        cwd=folder,
        title=scene.title,
        options={"cli": "scripted"} if is_terminal else {},
        policy=dict(scene.policy) or None,
        prompt=first,
    )
    for prompt in later:
        await task.send(prompt)
    if scene.is_interrupted:
        await task.wait(lambda state: state.stream is not None and bool(state.stream.text), WAIT_SECONDS)
        await task.cancel()
    look = lambda: scene.is_there(ServerApi.of_home(home).get(task_detail(task.task_id))["summary"])  # noqa: E731
    await asyncio.to_thread(_await, look, f"{scene.title!r}")
    task.close()


# The pictures


def _board(home: Path, *, is_light: bool) -> TopApp:
    return TopApp(connect_async(home), lambda: ServerApi.of_home(home), is_light=is_light, grace_seconds=0.0)


async def take(home: Path, shots: Sequence[Shot], size: Size, *, is_light: bool) -> dict[str, Picture]:
    """The board in each of these states."""
    app = _board(home, is_light=is_light)
    async with app.run_test(size=size) as pilot:
        return {_name(shot.name, size, is_light=is_light): await _shoot(app, pilot, shot) for shot in shots}


async def take_last(home: Path, shot: Shot, sizes: Sequence[Size], end: Callable[[], None]) -> dict[str, Picture]:
    """The board after `end`, which ends agents, too: so it is one board, made larger and light as it goes."""
    app = _board(home, is_light=False)
    taken: dict[str, Picture] = {}
    async with app.run_test(size=sizes[0]) as pilot:
        await _choose(app, pilot, shot)
        await _see(app, pilot, lambda: bool(app.questions), "a question")
        await asyncio.to_thread(end)
        for size in sizes:
            await pilot.resize_terminal(*size)
            for is_light in (False, True):
                taken[_name(shot.name, size, is_light=is_light)] = await _shoot(app, pilot, shot)
                await pilot.press("T")
    return taken


async def _shoot(app: TopApp, pilot: Pilot[int], shot: Shot) -> Picture:
    await _choose(app, pilot, shot)
    await pilot.press(*shot.keys)
    await _see(app, pilot, lambda: all(word in screen_text(app) for word in shot.words), f"{shot.name}: {shot.words}")
    await pilot.pause(0.2)
    picture = Picture(own_fonts(app.export_screenshot(title="interlock top")), screen_text(app))
    await pilot.press(*shot.leave)
    return picture


async def _choose(app: TopApp, pilot: Pilot[int], shot: Shot) -> None:
    if shot.title:
        await _see(app, pilot, lambda: any(one.get("title") == shot.title for one in app.arranged.tasks), shot.title)
        app.select(next(str(one["task_id"]) for one in app.arranged.tasks if one.get("title") == shot.title))
        is_joined: Callable[[], bool] = lambda: app.selected is not None and app.selected.state is not None  # noqa: E731
        await _see(app, pilot, is_joined, shot.title)

        def is_asked() -> bool:
            return app.line is None or not app.line["open_approvals"] or bool(app.questions)

        await _see(app, pilot, is_asked, f"what {shot.title!r} asks")
        redraws = app.redraws
        await _see(app, pilot, lambda: app.redraws > redraws, shot.title)  # keys act on what is drawn


async def _see(app: TopApp, pilot: Pilot[int], look: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not look():
        if time.monotonic() > deadline:
            raise TimeoutError(f"the board does not show {what}:\n{screen_text(app)}")
        await pilot.pause(0.05)


def screen_text(app: TopApp) -> str:
    """What a person reads."""
    strips = app.screen._compositor.render_strips()  # noqa: SLF001  # there is no other way to ask
    return "\n".join(strip.text.rstrip() for strip in strips) + "\n"


def own_fonts(svg: str) -> str:
    """Without fonts from elsewhere: a picture loads nothing."""
    return _FONT.sub("", svg).replace("Fira Code", "ui-monospace, Menlo, Consolas, DejaVu Sans Mono")


def run_ps(home: Path, width: int, height: int) -> Picture:
    """What `interlock ps` prints on a terminal of that size."""
    from rich.console import Console
    from rich.text import Text

    primary, secondary = pty.openpty()
    fcntl.ioctl(secondary, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))
    environment = {**os.environ, "INTERLOCK_HOME": str(home), "TERM": "xterm-256color", "COLUMNS": str(width)}
    argv = (sys.executable, "-m", "interlock.cli", "ps", "--all")
    child = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=secondary, stderr=secondary, env=environment)
    os.close(secondary)
    raw = b""
    try:
        while piece := os.read(primary, 65_536):
            raw += piece
    except OSError:
        pass  # the other side was closed: that is the end of it
    finally:
        os.close(primary)
        child.wait(WAIT_SECONDS)
    shown = Text.from_ansi(raw.decode("utf-8", "replace").replace("\r\n", "\n"))
    with Path(os.devnull).open("w") as nothing:
        console = Console(width=width, file=nothing, record=True, force_terminal=True)
        console.print(shown)
        return Picture(own_fonts(console.export_svg(title="interlock ps")), shown.plain)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
