"""Pictures of `interlock top` and `interlock ps`, from a real run: a server, and scripted agents in every state.

`python tools/screens.py` makes docs/pictures/top.svg anew. With a folder, it puts there what both show at three sizes,
as SVG and as text, to be looked at.
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
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from interlock.cli.server_api import Body, ServerApi
from interlock.cli.top.app import TopApp
from interlock.client.client import Client
from interlock.testing.scripted_agent import command, write_program
from interlock.vocabulary.errors import Unreachable

PICTURE: Final = Path(__file__).parent.parent / "docs" / "pictures" / "top.svg"
SIZES: Final = ((80, 24), (120, 36), (200, 60))
OF_PICTURE: Final = (120, 36)
WAIT_SECONDS: Final = 40.0
_FONT: Final = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)


@dataclass(frozen=True)
class Scene:
    """One session of the picture: what its agent does, what a person asks of it, and how it shall stand in the end."""

    title: str
    agent: str
    prompts: Sequence[str]
    script: Sequence[str]
    is_there: Callable[[Body], bool]
    policy: Mapping[str, float] = field(default_factory=dict)
    is_interrupted: bool = False


def _attention(word: str) -> Callable[[Body], bool]:
    return lambda task: (task.get("live") or {}).get("attention", "none") == word


def _status(word: str) -> Callable[[Body], bool]:
    return lambda task: task.get("task_status") == word


def _activity(word: str) -> Callable[[Body], bool]:
    return lambda task: (task.get("live") or {}).get("activity") == word


SCENES: Final = (
    Scene(
        "old client",
        "claude",
        ["Which of our examples still use the old client?"],
        [
            "say Two of them: `examples/fleet.py` and `examples/embed.py`. Both import it for its types only.;"
            " usage 5120 96"
        ],
        _status("COMPLETED"),
        {"idle_ttl_seconds": 900.0},
    ),
    Scene(
        "upgrade the parser",
        "gemini",
        ["Upgrade the parser to the new grammar"],
        ["say The grammar of the tests is done, the one of the docs; fail the provider is overloaded"],
        _status("FAILED"),
    ),
    Scene(
        "spike: async writer",
        "codex",
        ["Try the writer with asyncio, and measure it"],
        ["say It is 12 % faster with 64 writers, but; hang"],
        _status("CANCELLED"),
        is_interrupted=True,
    ),
    Scene(
        "port to 3.13",
        "codex",
        ["Run the suite on Python 3.13 and mend what breaks"],
        ["say Waiting for the container; hang"],
        _activity("stalled"),
        {"stall_after_seconds": 1.0},
    ),
    Scene(
        "flaky test",
        "qwen",
        ["Find out why test_reconnect fails one time in fifty", "Then write down what you found"],
        [
            'call Bash {"command": "pytest -q --count 50 tests/test_reconnect.py"} -> 1 failed; '
            'call Read {"path": "src/reconnect.py"} -> 212 lines; '
            "say It fails when the socket closes between the check and the join: the answer to the check is then older"
            " than the; hang"
        ],
        lambda task: _activity("working")(task) and bool(task.get("queued")),
    ),
    Scene(
        "release notes",
        "claude",
        ["Write the release notes since the last tag"],
        ["say 41 commits, three of them break something.; ask Which version will this be? | 2.0.0 | 1.9.0 | 1.8.4"],
        _attention("question"),
    ),
    Scene(
        "clean the build",
        "claude",
        ["The build folder is stale. Clean it, and build again."],
        [
            'call Bash {"command": "git status --short"} -> nothing to commit; '
            "say The build folder holds objects of two compilers. I will remove it and build from scratch.; "
            'request Bash {"command": "rm -rf build && cmake -B build -G Ninja && ninja -C build"} -> ok'
        ],
        _attention("approval"),
    ),
)


def main(arguments: Sequence[str]) -> int:
    """Make the picture, or with a folder all the screens."""
    folder = Path(arguments[0]) if arguments else None
    with tempfile.TemporaryDirectory() as place, serving(Path(place)) as home:
        asyncio.run(_open_all(home, Path(place)))
        if folder is None:
            PICTURE.parent.mkdir(exist_ok=True)
            PICTURE.write_text(asyncio.run(_capture(home, *OF_PICTURE))[0], encoding="utf-8")
            print(PICTURE.relative_to(PICTURE.parent.parent.parent))
            return 0
        folder.mkdir(parents=True, exist_ok=True)
        for width, height in SIZES:
            _write(folder / f"top-{width}x{height}", *asyncio.run(_capture(home, width, height)))
            _write(folder / f"ps-{width}x{height}", *_run_ps(home, width, height))
    return 0


def _write(path: Path, svg: str, text: str) -> None:
    path.with_suffix(".svg").write_text(svg, encoding="utf-8")
    path.with_suffix(".txt").write_text(text, encoding="utf-8")
    print(path)


@contextmanager
def serving(place: Path) -> Iterator[Path]:
    """A server in a home of its own, for the block."""
    home = place / "home"
    home.mkdir(mode=0o700)
    argv = (sys.executable, "-m", "interlock.server", "--home", str(home))
    server = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, start_new_session=True)
    try:
        assert server.stdout is not None
        server.stdout.readline()
        _await(lambda: bool(ServerApi.of_home(home).get("/health")["ready"]), "the server")
        yield home
    finally:
        server.terminate()
        server.wait(WAIT_SECONDS)


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


async def _open_all(home: Path, place: Path) -> None:
    async with Client.of_home(home) as client:
        for number, scene in enumerate(SCENES):
            await _open(client, home, place / f"agent-{number}", scene)


async def _open(client: Client, home: Path, program: Path, scene: Scene) -> None:
    script = program.with_suffix(".script")
    script.write_text("\n".join(scene.script), encoding="utf-8")
    argv = (write_program(program, command("stream-json", script=script)),)
    first, *later = scene.prompts
    task = await client.open_task(
        agent=scene.agent, driver="claude-stream", argv=argv, cwd=program.parent, title=scene.title,
        policy=dict(scene.policy) or None, prompt=first,
    )  # fmt: skip
    for prompt in later:
        await task.send(prompt)
    if scene.is_interrupted:
        await task.wait(lambda state: state.stream is not None and bool(state.stream.text), WAIT_SECONDS)
        await task.cancel()
    path = f"/api/tasks/{task.task_id}"
    look = lambda: scene.is_there(ServerApi.of_home(home).get(path)["summary"])  # noqa: E731
    await asyncio.to_thread(_await, look, f"{scene.title!r}")
    task.close()


async def _capture(home: Path, width: int, height: int) -> tuple[str, str]:
    """The board as it stands, as SVG and as text."""
    app = TopApp(Client.of_home(home), lambda: ServerApi.of_home(home))
    async with app.run_test(size=(width, height)) as pilot:
        deadline = time.monotonic() + WAIT_SECONDS
        while not (app.questions and app.screen.query_one("#questions").display):
            if time.monotonic() > deadline:
                raise TimeoutError("the board shows no question")
            await pilot.pause(0.1)
        await pilot.pause(0.3)
        return _own_fonts(app.export_screenshot(title="interlock top")), screen_text(app)


def screen_text(app: TopApp) -> str:
    """What a person reads."""
    strips = app.screen._compositor.render_strips()  # noqa: SLF001  # there is no other way to ask
    return "\n".join(strip.text.rstrip() for strip in strips) + "\n"


def _own_fonts(svg: str) -> str:
    """Without fonts from elsewhere: a picture loads nothing."""
    return _FONT.sub("", svg).replace("Fira Code", "ui-monospace, Menlo, Consolas, DejaVu Sans Mono")


def _run_ps(home: Path, width: int, height: int) -> tuple[str, str]:
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
        return _own_fonts(console.export_svg(title="interlock ps")), shown.plain


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
