"""The style sheet of the board: a rule for a widget that is not there would style nothing, in silence."""

from __future__ import annotations

import re
from pathlib import Path

from textual import widgets
from textual.screen import Screen
from textual.widgets._footer import FooterKey

from interlock.cli.top import board, panes, terminal
from interlock.cli.top.dialogs import new_session, panels, review, rules, search

STYLES = Path(board.__file__).parent / "styles.tcss"
TEXTUAL = {*vars(widgets)["__all__"], Screen.__name__, FooterKey.__name__}


def test_every_widget_that_the_style_sheet_names_is_there() -> None:
    text = re.sub(r"/\*.*?\*/", "", STYLES.read_text(encoding="utf-8"), flags=re.DOTALL)
    selectors = [one for rule in re.findall(r"([^{};]+)\{", text) for one in rule.split(",")]
    named = {word for one in selectors for word in re.findall(r"(?<![\w.#&$-])[A-Z]\w*", one)}
    ours = {
        name for module in (board, new_session, panels, panes, review, rules, search, terminal) for name in vars(module)
    }
    assert len(named) > 5
    assert sorted(named - ours - TEXTUAL) == []
