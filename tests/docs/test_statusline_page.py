"""docs/how-to/show-a-status-line.md: its lines are those that the command prints, and its settings can be read."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

from interlock.cli.plain import FORMS
from interlock.cli.server.statusline import _line
from interlock.vocabulary.states import BoardGroup

PAGE = (Path(__file__).parents[2] / "docs/how-to/show-a-status-line.md").read_text()
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", PAGE, re.DOTALL)


def test_the_line_and_the_json_are_those_of_the_command() -> None:
    said = json.loads(BLOCKS[-1][1])
    assert set(said["groups"]) == {group.value for group in BoardGroup}
    assert BLOCKS[0] == ("text", f"{_line('up', said['groups'], is_tmux=False)}\n")


def test_the_settings_name_commands_that_there_are() -> None:
    (settings,) = (tomllib.loads(text) for language, text in BLOCKS if language == "toml")
    assert settings["custom"]["interlock"]["command"].split()[1] in FORMS
    (tmux,) = re.findall(r"#\(interlock (\w+) --format (\w+)\)", PAGE)
    assert tmux[0] in FORMS
    assert tmux[1] in dict(FORMS[tmux[0]].choices)["format"]
