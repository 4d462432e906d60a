"""CLIs of which only the sign-in is read: it asks a person, and whatever else they show is unknown, never idle."""

from __future__ import annotations

from typing import Final

from interlock.agents.profiles import builtin_profiles
from interlock.screen.assessment import BlockKind, BusinessState
from interlock.screen.selection import detect_cli
from tests.each_row import each_row
from tests.screen.profiles.frames import options_of, read, screen

# As they were drawn, without a network and without an account.
DROID: Final = [
    "                                                    v0.215.0",
    "",
    "              TIP: Select Factory Router to automatically pick the best model for each task at lower cost",
    "                                   shift+tab to cycle modes · ctrl+N to cycle models",
    "                                          Skills (…)  MCPs (0) ✗  AGENTS.md ✗",
    "╭───────────────────────────────────────────────────────────────────────────────╮",
    "│ Welcome to Factory CLI                                                        │",
    "╰───────────────────────────────────────────────────────────────────────────────╯",
    "",
    "Please login with your Factory account to continue.",
    "",
    "> Login",
    "  Exit",
]
AUGGIE: Final = [
    " ╚═╝  ╚═╝ ╚═════╝  ╚═════╝  ╚═════╝ ╚═╝╚══════╝",
    "",
    "   New to Augment? You can create an account from the login page.",
    "",
    " → Login to continue",
    "",
    "   Press return to open your browser",
]


@each_row(("cli", "rows", "options"), [("droid", DROID, ["Login", "Exit"]), ("auggie", AUGGIE, [])])
def test_a_sign_in_asks_a_person(cli: str, rows: list[str], options: list[str]) -> None:
    surface = read(cli, screen(rows, columns=120)).assessment
    assert surface.business_state is BusinessState.AWAITING_OPERATOR
    assert surface.block is not None
    assert (surface.block.kind, options_of(surface)) == (BlockKind.AUTH, options)


@each_row(("cli", "rows"), [("droid", DROID), ("auggie", AUGGIE)])
def test_what_else_they_show_is_unknown(cli: str, rows: list[str]) -> None:
    for others in (rows[:-4], ["> ", "", "? for shortcuts"], ["Authentication failed."], [""]):
        surface = read(cli, screen(others, columns=120)).assessment
        assert (surface.business_state, surface.submit_ready) == (BusinessState.UNKNOWN, False)


def test_each_gives_itself_away() -> None:
    assert detect_cli(builtin_profiles(), screen(DROID, title="⛬ Droid")) == "droid"
    assert detect_cli(builtin_profiles(), screen(AUGGIE, title="auggie")) == "auggie"
