"""The rules that answer for one session, with keys that pause, resume and add. Every change needs a key of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.screen import ModalScreen
from textual.widgets import Static

from interlock.cli.output import escape
from interlock.cli.rules.session_rules import SessionRules
from interlock.cli.top.dialogs.panels import Link, OverlayPage
from interlock.cli.top.layout.rules_page import rules_page


class RulesPanel(ModalScreen[None]):
    """`on_pause` is told whether to pause, `on_add` the text of the rule that is on the screen."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,A,enter", "close", show=False),
        Binding("p", "pause", show=False),
        Binding("y", "add", show=False),
        Binding("ctrl+c", "app.quit_board", show=False, priority=True),
    ]

    def __init__(
        self, title: str, rules: SessionRules, on_pause: Callable[[bool], None], on_add: Callable[[str], None]
    ) -> None:
        super().__init__()
        self._title = title
        self._rules = rules
        self._on_pause = on_pause
        self._on_add = on_add
        self._page = OverlayPage(rules_page(rules))

    def compose(self) -> ComposeResult:
        with Vertical(id="panel"):
            yield Static(escape(self._title), id="panel-title", markup=False)
            yield self._page
            with Horizontal(id="ask-buttons"):
                if not self._rules.is_all_paused:
                    yield Link("p resume" if self._rules.is_paused else "p pause", "screen.pause")
                if self._rules.offer:
                    yield Link("y add the rule", "screen.add")
                yield Link("esc close", "screen.close")

    def on_mount(self) -> None:
        self._page.focus()

    def action_close(self) -> None:
        _ = self.dismiss(None)

    def action_pause(self) -> None:
        if not self._rules.is_all_paused:
            self._on_pause(not self._rules.is_paused)
            _ = self.dismiss(None)

    def action_add(self) -> None:
        if self._rules.offer:
            self._on_add(self._rules.offer)
            _ = self.dismiss(None)
