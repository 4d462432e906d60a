"""How a terminal's reader is chosen: by the version of the CLI, where that matters."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from interlock.agents.identify import Identified
from interlock.agents.profiles import builtin_profiles
from interlock.agents.terminal import launch
from interlock.screen.profile import Profile
from tests.contract.harness import run


@pytest.mark.parametrize(
    ("cli", "argv", "is_asked"),
    [("codex", ("codex",), True), ("codex", None, False), ("scripted", ("scripted",), False)],
)
def test_a_cli_is_asked_for_its_version_only_where_its_profiles_differ_by_it(
    cli: str, argv: tuple[str, ...] | None, is_asked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Identified] = []

    async def answer(identified: Identified, _: Sequence[Profile]) -> str:
        asked.append(identified)
        return "0.166.0"

    monkeypatch.setattr(launch, "ask_version", answer)
    _, version = run(launch.choose_reader(builtin_profiles(), cli, argv))
    assert version == ("0.166.0" if is_asked else "")
    assert asked == ([Identified(cli, argv)] if is_asked else [])
