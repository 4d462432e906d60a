"""A session of the log is run again with what it was opened with, or not at all."""

from __future__ import annotations

from interlock.agents.pool.masking import masked_argv
from interlock.agents.port import AgentSpec
from interlock.runtime.config.loading import parse
from interlock.runtime.config.spec_lookup import specs_by
from interlock.vocabulary.events.audit import SessionOpened
from interlock.vocabulary.ids import SessionId
from interlock.vocabulary.states import DriverKind

KEY = "sk-ant-0123456789abcdefghij"
OURS = {"TAKEN": "by us", "HOME": "/home/us"}
SETTINGS = f"""
[agents.mine]
driver = "acp"
argv = ["mine", "--api-key", "{KEY}"]
model = "another by now"
environment.take = ["TAKEN"]
environment.set.SECRET = "known"
"""


def again(opened: SessionOpened) -> AgentSpec:
    spec = specs_by(parse(SETTINGS, {}).config, OURS)(SessionId("ses_1"), opened)
    assert spec is not None
    return spec


def opened(agent: str = "mine", *variables: str, argv: tuple[str, ...] = ("mine",)) -> SessionOpened:
    return SessionOpened(
        agent=agent, driver="acp", kind=DriverKind.ACP, argv=argv, cwd="/there", model="opus", environment=variables
    )


def test_variables_come_from_where_they_came_before() -> None:
    spec = again(opened("mine", "SECRET", "TAKEN"))
    assert (dict(spec.environment), spec.forgotten) == ({"SECRET": "known", "TAKEN": "by us"}, ())


def test_a_variable_that_was_not_set_then_is_not_set_now() -> None:
    assert dict(again(opened("mine", "TAKEN")).environment) == {"TAKEN": "by us"}


def test_a_variable_that_is_ours_by_chance_is_not_the_one_that_was_set() -> None:
    spec = again(opened("mine", "HOME", "SECRET"))
    assert (dict(spec.environment), spec.forgotten) == ({"SECRET": "known"}, ("HOME",))


def test_all_else_is_as_the_log_has_it() -> None:
    spec = again(opened(argv=("mine", "--fast")))
    assert (spec.argv, spec.cwd, spec.model, spec.driver) == (("mine", "--fast"), "/there", "opus", "acp")


def test_a_secret_of_the_command_is_known_again_if_the_command_is_the_same() -> None:
    whole = ("mine", "--api-key", KEY)
    masked = masked_argv(whole)
    assert KEY not in "".join(masked)
    assert again(opened(argv=masked)).argv == whole
    other = ("theirs", *masked[1:])
    assert again(opened(argv=other)).argv == other


def test_of_an_agent_that_is_not_configured_nothing_is_known() -> None:
    spec = again(opened("gone", "SECRET", "TAKEN"))
    assert (dict(spec.environment), spec.forgotten) == ({}, ("SECRET", "TAKEN"))
