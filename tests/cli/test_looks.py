"""Colours as `[ui]` says: read without the loader, never a reason to fail, and never louder than NO_COLOR."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

import pytest

from interlock.cli import colours as looks
from interlock.cli import output
from interlock.cli.top.command import _board
from interlock.cli.top.themes import DARK, LIGHT
from interlock.runtime.config.place import MAX_BYTES
from interlock.runtime.config.sections import Colour, Theme
from tests.cli.harness import interlock, on_a_terminal
from tests.cli.serving import Served, serving
from tests.cli.test_cold_start import HEAVY, modules_after

RED = "\x1b[1;31m"


class Stream(io.StringIO):
    """A stream that is a terminal, or is not."""

    def __init__(self, *, is_terminal: bool) -> None:
        super().__init__()
        self.is_terminal = is_terminal

    def isatty(self) -> bool:
        return self.is_terminal


def says(tmp_path: Path, text: str, **more: str) -> dict[str, str]:
    """An environment with a file that says so."""
    file = tmp_path / "config.toml"
    file.write_text(text)
    return {"INTERLOCK_CONFIG": str(file), "TERM": "xterm-256color", **more}


@pytest.mark.parametrize(
    ("said", "more", "on_terminal", "in_pipe"),
    [
        ("", {}, True, False),
        ('[ui]\ncolour = "auto"', {}, True, False),
        ('[ui]\ncolour = "auto"', {"TERM": "dumb"}, False, False),
        ('[ui]\ncolour = "always"', {}, True, True),
        ('[ui]\ncolour = "never"', {}, False, False),
        ('[ui]\ncolour = "always"', {"NO_COLOR": "1"}, False, False),
        ('[ui]\ncolour = "never"', {"INTERLOCK_UI_COLOUR": "always"}, True, True),
        ("", {"INTERLOCK_UI_COLOUR": "never"}, False, False),
        ("", {"INTERLOCK_UI_COLOUR": "always", "NO_COLOR": "1"}, False, False),
        ("", {"NO_COLOR": ""}, True, False),
        ('[ui]\ntheme = "light"', {}, True, False),
        ('[agents.x]\nargv = ["colour"]', {}, True, False),
    ],
)
def test_when_there_are_colours(
    said: str, more: dict[str, str], on_terminal: bool, in_pipe: bool, tmp_path: Path
) -> None:
    environ = says(tmp_path, said, **more)
    assert looks.wants_colour(Stream(is_terminal=True), environ) is on_terminal
    assert looks.wants_colour(Stream(is_terminal=False), environ) is in_pipe


@pytest.mark.parametrize(
    ("said", "more", "is_light"),
    [
        ("", {}, False),
        ("", {"COLORFGBG": "0;15"}, True),
        ('[ui]\ntheme = "auto"', {"COLORFGBG": "0;15"}, True),
        ('[ui]\ntheme = "dark"', {"COLORFGBG": "0;15"}, False),
        ('[ui]\ntheme = "light"', {}, True),
        ('[ui]\ntheme = "light"', {"INTERLOCK_UI_THEME": "dark"}, False),
    ],
)
def test_for_which_background(said: str, more: dict[str, str], is_light: bool, tmp_path: Path) -> None:
    assert looks.is_light(says(tmp_path, said, **more)) is is_light


@pytest.mark.parametrize(
    ("said", "more", "named"),
    [
        ('[ui]\ncolour = "sometimes"', {}, "ui.colour"),
        ("[ui]\ncolour = [1]", {}, "ui.colour"),
        ("[ui]\ncolour =", {}, "config.toml"),
        ("", {"INTERLOCK_UI_COLOUR": "yes"}, "INTERLOCK_UI_COLOUR"),
    ],
)
def test_what_is_not_understood_is_said_once_and_is_as_by_default(
    said: str, more: dict[str, str], named: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    looks._complain.cache_clear()
    environ = says(tmp_path, said, **more)
    for _ in range(3):
        assert looks.wants_colour(Stream(is_terminal=True), environ)
        assert not looks.wants_colour(Stream(is_terminal=False), environ)
    told = capsys.readouterr().err
    assert told.count("config check") == 1
    assert named in told


@pytest.mark.parametrize("text", ["ui = 3 # colour", "colour = 3"])
def test_a_table_that_is_none_is_left_to_the_loader(text: str, tmp_path: Path) -> None:
    assert looks.wants_colour(Stream(is_terminal=True), says(tmp_path, text))


def test_a_file_that_cannot_be_read_is_left_to_the_loader(tmp_path: Path) -> None:
    missing = {"INTERLOCK_CONFIG": str(tmp_path / "none")}
    assert looks.wants_colour(Stream(is_terminal=True), missing)
    (tmp_path / "large").write_bytes(b'[ui]\ncolour = "never"\n' + b"#" * MAX_BYTES)
    assert looks.wants_colour(Stream(is_terminal=True), {"INTERLOCK_CONFIG": str(tmp_path / "large")})


def test_the_words_are_those_of_the_configuration() -> None:
    assert {"colour": tuple(Colour), "theme": tuple(Theme)} == looks._WORDS


def test_painted_output_is_for_its_background(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("INTERLOCK_UI_COLOUR", "always")
    monkeypatch.setenv("TERM", "xterm-256color")
    shown = {}
    for theme in ("dark", "light"):
        monkeypatch.setenv("INTERLOCK_UI_THEME", theme)
        output.print_painted([[("slow", "33"), ("bad", "1;31"), ("plain", "")]])
        shown[theme] = capsys.readouterr().out
    assert shown["dark"] == f"\x1b[33mslow\x1b[0m{RED}bad\x1b[0mplain\n"
    assert shown["light"] == f"\x1b[38;5;94mslow\x1b[0m{RED}bad\x1b[0mplain\n"
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("COLORTERM", raising=False)
    output.print_painted([[("slow", "33")]])
    assert capsys.readouterr().out == "\x1b[33mslow\x1b[0m\n"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("looks")) as one:
        one.shows(one.open("ask Which port? | 80 | 8080", title="asks"), attention="question")
        yield one


@pytest.mark.parametrize("args", [("ps",), ("show", "asks"), ("status",)])
def test_commands_obey(served: Served, tmp_path: Path, args: tuple[str, ...]) -> None:
    home = {"INTERLOCK_HOME": str(served.home)}
    never = {**says(tmp_path, '[ui]\ncolour = "never"'), **home}
    assert "\x1b" not in on_a_terminal(*args, env=never)
    always = {**says(tmp_path, '[ui]\ncolour = "always"'), **home}
    assert "\x1b[" in interlock(*args, env=always).stdout
    assert "\x1b" not in interlock(*args, env={**always, "NO_COLOR": "1"}).stdout
    assert "\x1b" not in interlock(*args, "--json", env=always).stdout


def test_the_configuration_costs_no_heavy_module(served: Served, tmp_path: Path) -> None:
    environ = {**says(tmp_path, '[ui]\ncolour = "always"'), "INTERLOCK_HOME": str(served.home)}
    code = f"import os\nos.environ.update({environ!r})\nfrom interlock.cli import main\nassert main(['ps']) == 0"
    loaded = modules_after(code)
    assert not loaded & (HEAVY | {"cyclopts", "msgspec", "rich", "asyncio", "subprocess", "logging"})
    assert "tomllib" in loaded
    (tmp_path / "config.toml").write_text("[run]\nmax_tokens = 3\n")
    assert "tomllib" not in modules_after(code)


@pytest.mark.parametrize(
    ("environ", "theme", "is_light", "has_colours"),
    [
        ({}, None, False, True),
        ({"INTERLOCK_UI_THEME": "light"}, None, True, True),
        ({"INTERLOCK_UI_THEME": "light"}, "dark", False, True),
        ({"INTERLOCK_UI_THEME": "light"}, "auto", False, True),
        ({"COLORFGBG": "0;15"}, None, True, True),
        ({"COLORFGBG": "0;15", "INTERLOCK_UI_THEME": "dark"}, None, False, True),
        ({"NO_COLOR": ""}, None, False, True),
        ({"INTERLOCK_UI_COLOUR": "never"}, None, False, False),
        ({"INTERLOCK_UI_COLOUR": "always", "NO_COLOR": "1"}, None, False, False),
    ],
)
def test_the_board_is_as_configured_and_the_command_line_wins(
    served: Served,
    monkeypatch: pytest.MonkeyPatch,
    environ: dict[str, str],
    theme: str | None,
    is_light: bool,
    has_colours: bool,
) -> None:
    monkeypatch.setenv("NO_COLOR", "")  # whatever the command does to it is undone
    monkeypatch.delenv("NO_COLOR")
    for name, value in {"COLORFGBG": "", **environ}.items():
        monkeypatch.setenv(name, value)
    board = _board(served.home, theme)
    assert board.theme == (LIGHT if is_light else DARK).name
    assert board.no_color is not has_colours


def test_the_board_rings_as_configured(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INTERLOCK_NOTIFY_QUIET_SECONDS", "7")
    ringing = _board(served.home, None).ringing
    assert ringing is not None
    assert (ringing.home, ringing.settings.quiet_seconds) == (served.home, 7.0)
