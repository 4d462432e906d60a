"""Agents that only variables describe: made by their program, and never by a misspelt name."""

from __future__ import annotations

import pytest

from interlock.runtime.config.loading import ConfigError, parse
from interlock.runtime.config.sections import BUILTIN_AGENTS


def wrong(environ: dict[str, str], text: str = "") -> str:
    with pytest.raises(ConfigError) as caught:
        parse(text, environ)
    return str(caught.value)


def test_a_program_makes_an_agent_and_the_rest_describes_it() -> None:
    environ = {
        "INTERLOCK_AGENTS_MY_GOOSE_ARGV": "goose acp",
        "INTERLOCK_AGENTS_MY_GOOSE_DRIVER": "acp",
        "INTERLOCK_AGENTS_MY_GOOSE_RUN_SETTLE_SECONDS": "3",
    }
    loaded = parse("", environ)
    assert loaded.config.agents.keys() - BUILTIN_AGENTS.keys() == {"my-goose"}
    made = loaded.config.agents["my-goose"]
    assert (made.argv, made.driver, made.run.settle_seconds) == (("goose", "acp"), "acp", 3)
    assert {one.where for one in loaded.settings if one.key == "agents.my-goose.argv"} == {
        "INTERLOCK_AGENTS_MY_GOOSE_ARGV"
    }


def test_a_program_for_acp_alone_makes_one_too() -> None:
    environ = {"INTERLOCK_AGENTS_X_ACP_ARGV": "x acp", "INTERLOCK_AGENTS_X_DRIVER": "acp"}
    assert parse("", environ).config.agents["x"].acp_argv == ("x", "acp")


def test_what_is_known_is_not_made_again() -> None:
    text = '[agents.x-acp]\nargv = ["x"]\n'
    environ = {"INTERLOCK_AGENTS_X_ACP_ARGV": "y", "INTERLOCK_AGENTS_CLAUDE_ACP_ARGV": "z"}
    agents = parse(text, environ).config.agents
    assert agents.keys() - BUILTIN_AGENTS.keys() == {"x-acp"}
    assert (agents["x-acp"].argv, agents["claude"].acp_argv) == (("y",), ("z",))


@pytest.mark.parametrize("variable", ["INTERLOCK_AGENTS_CLAUD_MODEL", "INTERLOCK_AGENTS_CLAUD_DRIVER"])
def test_any_other_variable_of_an_unknown_agent_is_a_mistake_that_says_how_one_is_made(variable: str) -> None:
    said = wrong({variable: "acp"})
    assert said.startswith(f"{variable}: expected the variable of a key")
    assert "a new agent is made by INTERLOCK_AGENTS_NAME_ARGV, or in the file by [agents.NAME]" in said
    assert f"did you mean {variable.replace('CLAUD', 'CLAUDE')}?" in said


@pytest.mark.parametrize(
    "variable", ["INTERLOCK_AGENTS__ARGV", "INTERLOCK_AGENTS_\u00c4_ARGV", "INTERLOCK_AGENTS_ARGV"]
)
def test_what_is_no_name_makes_no_agent(variable: str) -> None:
    assert wrong({variable: "x"}).startswith(f"{variable}: expected the variable of a key")


def test_no_program_is_no_agent() -> None:
    assert wrong({"INTERLOCK_AGENTS_X_ARGV": ""}).startswith(
        "INTERLOCK_AGENTS_X_ARGV: agents.x.argv: expected a program and its arguments, found none"
    )
