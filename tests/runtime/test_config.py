"""The configuration: what is understood, what is refused and in which words, and which value wins."""

from __future__ import annotations

import os
import re
import threading
from dataclasses import fields
from pathlib import Path

import msgspec
import pytest

from interlock.agents.drivers import DRIVERS
from interlock.agents.pool.pool import PoolLimits
from interlock.monitor.policy import MonitorPolicies, MonitorPolicy
from interlock.runtime.children.tree_limits import TreeLimits
from interlock.runtime.config.agent_choice import Mode, choose_agent, drivers_of
from interlock.runtime.config.keys import ConfigKey, dotted, expected, nearest, variables
from interlock.runtime.config.loading import ConfigError, Loaded, agent_section, config_path, describe, load, parse
from interlock.runtime.config.place import MAX_BYTES
from interlock.runtime.config.reading import Source, line_of
from interlock.runtime.config.sections import (
    BUILTIN_AGENTS,
    PER_AGENT,
    AgentName,
    AgentSection,
    Config,
    RunSection,
    ServerSection,
    SurfaceSection,
)
from interlock.runtime.policy import RunPolicy
from interlock.server.settings import ServerSettings
from interlock.vocabulary.errors import UsageError
from tests.each_row import each_row

FILE = Path("config.toml")


def wrong(text: str, **environ: str) -> list[str]:
    """Every mistake, as a person reads it."""
    with pytest.raises(ConfigError) as found:
        parse(text, environ, path=FILE)
    return [describe(found.value.source, one) for one in found.value.mistakes]


def setting(loaded: Loaded, key: str) -> tuple[object, Source, str]:
    (found,) = (one for one in loaded.settings if one.key == key)
    return found.value, found.source, found.where


def test_without_a_file_every_default_holds() -> None:
    loaded = parse("", {})
    assert loaded.config == Config()
    assert {one.source for one in loaded.settings} == {Source.DEFAULT}


def test_the_run_section_is_the_policy_field_by_field() -> None:
    assert RunSection().policy() == RunPolicy()
    assert set(RunSection.__struct_fields__) == {field.name for field in fields(RunPolicy)}


def test_the_surface_section_is_the_waits_of_the_monitor() -> None:
    assert SurfaceSection().policy() == MonitorPolicy()
    assert Config().monitor_policies() == MonitorPolicies()
    # What an agent reports of itself ages by fixed rules, and what a stall leads to is decided by `run`.
    elsewhere = {"native_status_seconds", "native_doubt_seconds", "stalled_is_terminal"}
    assert {*SurfaceSection.__struct_fields__, *elsewhere} == {field.name for field in fields(MonitorPolicy)}


def test_the_pool_section_is_the_limits_field_by_field() -> None:
    assert Config().pool.limits() == PoolLimits()
    limits = parse("[pool]\ntotal = 4\n[pool.per_agent]\nclaude = 2\npi = 'off'", {}).config.pool
    assert limits.limits() == PoolLimits(total=4, per_agent={"claude": 2, "pi": None})


def test_the_tree_section_is_the_limits_of_trees_field_by_field() -> None:
    assert Config().tree.limits() == TreeLimits()
    limits = parse("[tree]\nmax_depth = 0\nmax_running = 2", {"INTERLOCK_TREE_MAX_OPEN": "3"}).config.tree.limits()
    assert limits == TreeLimits(max_depth=0, max_running=2, max_open=3)


def test_the_server_section_fits_the_settings_of_the_server() -> None:
    assert ServerSettings(**msgspec.structs.asdict(ServerSection())) == ServerSettings()


def test_every_key_has_words_for_what_it_is_and_what_may_stand_there() -> None:
    keys = list(variables(BUILTIN_AGENTS).values())
    assert len(keys) > 80
    assert all(key.description for key in keys)
    assert all("a value" not in expected(key.kind) for key in keys if isinstance(key, ConfigKey))


def test_a_value_of_the_file_wins_over_a_default_and_a_variable_over_both() -> None:
    text = "[run]\nstall_after_seconds = 60\nstart_seconds = 5\n"
    loaded = parse(text, {"INTERLOCK_RUN_STALL_AFTER_SECONDS": "30"})
    variable = "INTERLOCK_RUN_STALL_AFTER_SECONDS"
    assert setting(loaded, "run.stall_after_seconds") == (30.0, Source.ENVIRONMENT, variable)
    assert setting(loaded, "run.start_seconds") == (5.0, Source.FILE, "")
    assert setting(loaded, "run.settle_seconds") == (60.0, Source.DEFAULT, "")
    assert loaded.config.run.policy() == RunPolicy(stall_after_seconds=30.0, start_seconds=5.0)


def test_a_limit_is_switched_off_by_a_word() -> None:
    assert parse('[run]\nstall_after_seconds = "off"', {}).config.run.stall_after_seconds is None
    assert parse("", {"INTERLOCK_RUN_STALL_AFTER_SECONDS": "off"}).config.run.stall_after_seconds is None
    assert wrong('[run]\nstart_seconds = "off"') == [
        "config.toml, line 2: run.start_seconds: expected a number above 0 to 31536000, found a string"
    ]


@each_row(
    ("variable", "text", "key", "value"),
    [
        ("INTERLOCK_SERVER_HOST", "::1", "server.host", "::1"),
        ("INTERLOCK_SERVER_PORT", " 8080 ", "server.port", 8080),
        ("INTERLOCK_SERVER_ALLOWED_HOSTS", "a.example b.example", "server.allowed_hosts", ("a.example", "b.example")),
        ("INTERLOCK_SERVER_ALLOWED_HOSTS", '["a.example"]', "server.allowed_hosts", ("a.example",)),
        ("INTERLOCK_SERVER_ALLOWED_HOSTS", "", "server.allowed_hosts", ()),
        ("INTERLOCK_NOTIFY_COMMAND", "say 'a b' c", "notify.command", ("say", "a b", "c")),
        ("INTERLOCK_NOTIFY_BELL", "false", "notify.bell", False),
        ("INTERLOCK_NOTIFY_DESKTOP", "1", "notify.desktop", True),
        ("INTERLOCK_NOTIFY_BELL", "0", "notify.bell", False),
        ("INTERLOCK_NOTIFY_KINDS", "completed", "notify.kinds", ("completed",)),
        ("INTERLOCK_RUN_MAX_COST_USD", "1.5", "run.max_cost_usd", 1.5),
        ("INTERLOCK_POOL_PER_AGENT", "{claude = 3}", "pool.per_agent.claude", 3),
        ("INTERLOCK_AGENTS_CLAUDE_MODEL", "opus", "agents.claude.model", "opus"),
        ("INTERLOCK_AGENTS_CLAUDE_ENVIRONMENT_SET", "{A = 'b'}", "agents.claude.environment.set.A", "b"),
        ("INTERLOCK_AGENTS_CLAUDE_OPTIONS", "{deep = {a = [1]}}", "agents.claude.options.deep", {"a": [1]}),
        ("INTERLOCK_UI_THEME", "dark", "ui.theme", "dark"),
    ],
)
def test_a_variable_is_read_by_the_type_of_its_key(variable: str, text: str, key: str, value: object) -> None:
    assert setting(parse("", {variable: text}), key) == (value, Source.ENVIRONMENT, variable)


def test_every_key_has_a_variable_of_its_own() -> None:
    agents = [*BUILTIN_AGENTS, "a", "a-run", "a-environment", "a-options"]
    found = variables(agents)
    assert len({key.path for key in found.values()}) == len(found)
    per_agent = len(variables(["x"])) - len(variables([]))
    assert len(found) == len(variables([])) + per_agent * len(agents)


def test_a_variable_replaces_a_whole_table_of_free_keys() -> None:
    text = "[pool.per_agent]\nclaude = 1\npi = 1\n"
    assert parse(text, {"INTERLOCK_POOL_PER_AGENT": "{codex = 2}"}).config.pool.per_agent == {"codex": 2}


def test_other_variables_of_ours_are_none_of_its_business() -> None:
    environ = {"INTERLOCK_HOME": "/x", "INTERLOCK_SPAWN_ID": "s", "INTERLOCK_HOOK_SOCKET": "h", "RUN_X": "1"}
    assert parse("", environ).config == Config()


def test_mistakes_are_told_with_file_line_key_what_was_expected_and_what_is_near() -> None:
    text = """\
[server]
prot = 80
port = 99999
[run]
max_tokens = 0
stalled_is_terminal = 1
[agents.claude]
env = 1
[agents.Mine]
argv = ["x"]
[pool.per_agent]
x = 0
[notfy]
bell = true
[notify]
kinds = ["approvl"]
webhook = "ftp://x"
[ui]
theme = "drak"
stall_after_seconds = 3
"""
    assert wrong(text) == [
        "config.toml, line 2: server.prot: expected one of host, port, allowed_hosts, allowed_origins, "
        "found an unknown key; did you mean server.port?",
        "config.toml, line 3: server.port: expected a whole number from 0 to 65535, found a whole number out of range",
        "config.toml, line 5: run.max_tokens: expected a whole number from 1 to 9007199254740992, "
        'or "off", found a whole number out of range',
        "config.toml, line 6: run.stalled_is_terminal: expected true or false, found a whole number",
        "config.toml, line 8: agents.claude.env: expected one of driver, argv, stream_driver, acp_argv, model, cwd, "
        "options, environment, run, surface, found an unknown key; did you mean agents.claude.environment?",
        "config.toml, line 9: agents.Mine: expected a name: small letters, digits and dashes",
        'config.toml, line 12: pool.per_agent.x: expected a whole number from 1 to 100000, or "off", '
        "found a whole number out of range",
        "config.toml, line 13: notfy: expected one of server, run, surface, pool, tree, agents, workspace, worktree, "
        "notify, ui, found an unknown key; did you mean notify?",
        "config.toml, line 16: notify.kinds: expected a list, each one of approval, question, plan, decision, auth, "
        "quota, error, held, failed, interrupted, completed, stalled, crashed, all_quiet, "
        "found a list that does not fit",
        "config.toml, line 17: notify.webhook: expected an http or https URL, found a string",
        "config.toml, line 19: ui.theme: expected one of auto, dark, light, found a string",
        "config.toml, line 20: ui.stall_after_seconds: expected one of colour, theme, found an unknown key; "
        "did you mean run.stall_after_seconds?",
    ]


@each_row(
    ("text", "words"),
    [
        ("[server]\nhost = 'a b'", "the name or address of a host"),
        ("[server]\nallowed_origins = ['board']", "an origin, such as https://board.example"),
        ("[notify]\nwebhook = 'board'", "an http or https URL"),
        ("[agents.Mine]\nargv = ['x']", "small letters, digits and dashes"),
        ("[agents.claude.environment]\ntake = ['A-B']", "the name of a variable"),
    ],
)
def test_a_text_of_the_wrong_form_is_answered_with_the_form(text: str, words: str) -> None:
    (mistake,) = wrong(text)
    assert re.search(f"expected (a list, each |a name: )?{re.escape(words)}(, found|$)", mistake)


def test_the_error_itself_tells_the_first_mistake_and_counts_the_rest() -> None:
    with pytest.raises(UsageError) as found:
        parse("[server]\nport = true\nhots = 1\n", {}, path=FILE)
    assert str(found.value) == (
        "config.toml, line 2: server.port: expected a whole number from 0 to 65535, found true or false"
        " (and 1 more: `interlock config check`); fix the file, or leave the key out"
    )


@pytest.mark.parametrize(
    ("variable", "text", "said"),
    [
        (
            "INTERLOCK_SERVER_PORT",
            "abc",
            "server.port: expected a whole number from 0 to 65535, found a text that does not fit",
        ),
        ("INTERLOCK_SERVER_PORT", "1\nx = 2", "server.port: expected a whole number from 0 to 65535"),
        ("INTERLOCK_NOTIFY_BELL", "yes", "notify.bell: expected true or false"),
        ("INTERLOCK_NOTIFY_COMMAND", "'unended", "notify.command: expected a list, each a string"),
        ("INTERLOCK_POOL_PER_AGENT", "3", "pool.per_agent: expected a table"),
        ("INTERLOCK_POOL_PER_AGENT", "{Mine = 3}", "pool.per_agent: expected a table"),
        ("INTERLOCK_SERVER_PORTT", "1", "did you mean INTERLOCK_SERVER_PORT?"),
        ("INTERLOCK_AGENTS_NOBODY_MODEL", "x", "expected the variable of a key"),
        ("INTERLOCK_AGENTS_CLAUDE_DRIVER", "acpp", "agents.claude.driver: expected one of claude-stream"),
        ("INTERLOCK_AGENTS_CLAUDE_ARGV", "", "agents.claude.argv: expected a program"),
        ("INTERLOCK_NOTIFY_COMMAND", "'' x", "notify.command: expected a program"),
    ],
)
def test_a_wrong_variable_is_named(variable: str, text: str, said: str) -> None:
    (mistake,) = wrong("", **{variable: text})
    assert mistake.startswith(f"{variable}:")
    assert said in mistake


@pytest.mark.parametrize("value", ["nan", "inf", "-inf", "-1", "1e300", "2026-01-31", '"5"', "[]", "{}", "true"])
def test_no_number_that_is_none_is_taken_for_one(value: str) -> None:
    numbers = [
        key
        for key in variables([]).values()
        if isinstance(key, ConfigKey) and isinstance(key.default, int | float) and not isinstance(key.default, bool)
    ]
    assert len(numbers) > 6
    for key in numbers:
        section, name = key.path
        assert len(wrong(f"[{section}]\n{name} = {value}\n")) == 1, key


@pytest.mark.parametrize("value", ["2026-01-31", "[2026-01-31T00:00:00Z]", "{a = nan}", "12:00:00"])
def test_an_option_is_json(value: str) -> None:
    assert len(wrong(f"[agents.pi.options]\nx = {value}\n")) == 1


@each_row(
    ("text", "said"),
    [
        ("[server\n", "config.toml, line 1: expected TOML (Expected ']' at the end of a table declaration)"),
        ("a = 1\na = 2\n", "config.toml, line 2: expected TOML (Cannot overwrite a value)"),
        ("server = 3\n", "config.toml, line 1: server: expected a table, found a whole number"),
        ("[[agents]]\n", "config.toml, line 1: agents: expected a table, found a list that does not fit"),
        ("[agents]\nclaude = 'x'\n", "config.toml, line 2: agents.claude: expected a table, found a string"),
    ],
)
def test_a_file_of_another_shape_is_refused(text: str, said: str) -> None:
    assert wrong(text) == [said]


def test_no_message_repeats_a_value() -> None:
    secret = "sk-0123456789abcdef"
    text = (
        f"[notify]\nwebhook = '{secret}'\n[agents.pi.environment.set]\nKEY = ['{secret}']\n[ui]\ntheme = '{secret}'\n"
    )
    said = wrong(text, INTERLOCK_SERVER_PORT=secret, INTERLOCK_AGENTS_PI_DRIVER=secret)
    assert len(said) == 5
    assert not any(secret in one for one in said)


def test_a_line_is_named_only_where_it_can_be_shown() -> None:
    text = 'x = """\n[server]\nprot = 1\n"""\n[server]\n# prot\nprot = [\n  1,\n]\nhost = 1\n'
    assert line_of(text, ("server", "host")) == 10
    assert line_of(text, ("server", "prot")) is None  # it ends on a line that does not name it
    assert line_of(text, ("x",)) is None
    assert line_of('server.prot = [\n  1,\n]\nx = "prot"\n', ("server", "prot")) is None
    assert line_of("server.prot = 1\n", ("server", "prot")) == 1
    assert line_of("server = { prot = 1 }\n", ("server", "prot")) == 1


def test_what_an_agent_says_of_run_holds_over_the_section() -> None:
    text = "[run]\nstart_seconds = 7\nmax_tokens = 5\n[agents.pi.run]\nmax_tokens = 9\n"
    loaded = parse(text, {"INTERLOCK_AGENTS_PI_RUN_SETTLE_SECONDS": "3"})
    assert loaded.config.agents["pi"].run.policy() == RunPolicy(start_seconds=7.0, max_tokens=9, settle_seconds=3.0)
    assert loaded.config.agents["codex"].run.policy() == RunPolicy(start_seconds=7.0, max_tokens=5)
    told = [one.key for one in loaded.settings if ".run." in one.key]
    assert told == ["agents.pi.run.settle_seconds", "agents.pi.run.max_tokens"]


def test_what_an_agent_says_of_surface_holds_over_the_section() -> None:
    text = "[surface]\nwatched_gap_seconds = 3\n[agents.pi]\nsurface.completion_stability_seconds = 4\n"
    variable = "INTERLOCK_AGENTS_PI_SURFACE_UNKNOWN_TO_STALLED_TIMEOUT_SECONDS"
    loaded = parse(text, {variable: "60"})
    waits = loaded.config.monitor_policies()
    own = MonitorPolicy(unknown_to_stalled_timeout_seconds=60, completion_stability_seconds=4, watched_gap_seconds=3)
    assert (waits.of("pi"), waits.of("codex")) == (own, MonitorPolicy(watched_gap_seconds=3))
    told = [(one.key, one.value, one.source) for one in loaded.settings if "surface." in one.key]
    assert told == [
        ("surface.unknown_to_stalled_timeout_seconds", 30.0, Source.DEFAULT),
        ("surface.completion_stability_seconds", 1.0, Source.DEFAULT),
        ("surface.watched_gap_seconds", 3.0, Source.FILE),
        ("agents.pi.surface.unknown_to_stalled_timeout_seconds", 60.0, Source.ENVIRONMENT),
        ("agents.pi.surface.completion_stability_seconds", 4.0, Source.FILE),
    ]


STALL = "unknown_to_stalled_timeout_seconds"
STABLE = "completion_stability_seconds"


@each_row(
    ("text", "said"),
    [
        (f"[surface]\n{STALL} = 0", [f"line 2: surface.{STALL}: expected a number from 1 to 86400, found a whole"]),
        (f"[surface]\n{STABLE} = -0.5", [f"line 2: surface.{STABLE}: expected a number from 0.1 to 600, found a"]),
        (f"[surface]\n{STABLE} = 'long'", [f"line 2: surface.{STABLE}: expected a number from 0.1 to 600, found a"]),
        (f"[surface]\n{STALL} = 'off'", [f"line 2: surface.{STALL}: expected a number from 1 to 86400, found a str"]),
        (
            f"[surface]\n{STALL} = 5\n{STABLE} = 5",
            [f"line 2: surface.{STALL}: expected a number above that of surface.{STABLE}, found one that is not larg"],
        ),
        (
            "[surface]\nwatched_gap_seconds = 40",
            [f"line 2: surface.watched_gap_seconds: expected a number below that of surface.{STALL}, found one that"],
        ),
        (
            f"[surface]\n{STABLE} = 9\n[agents.pi.surface]\n{STALL} = 8",
            [f"line 4: agents.pi.surface.{STALL}: expected a number above that of surface.{STABLE}, found one that"],
        ),
    ],
)
def test_waits_over_a_screen_that_cannot_be_right_are_refused(text: str, said: list[str]) -> None:
    found = wrong(text)
    assert len(found) == len(said), found
    assert all(one.startswith(f"config.toml, {begin}") for one, begin in zip(found, said, strict=True)), found


def test_a_wait_over_a_screen_that_contradicts_the_file_is_told_by_its_variable() -> None:
    variable = "INTERLOCK_SURFACE_UNKNOWN_TO_STALLED_TIMEOUT_SECONDS"
    (mistake,) = wrong(f"[surface]\n{STABLE} = 20", **{variable: "10"})
    assert mistake.startswith(f"{variable}: surface.{STALL}: expected a number above that of surface.{STABLE}")


def test_the_agents_that_are_known_could_stand_in_a_file_as_they_are() -> None:
    told = msgspec.to_builtins(BUILTIN_AGENTS)
    assert msgspec.convert(told, dict[AgentName, AgentSection]) == BUILTIN_AGENTS


def test_an_agent_of_ones_own_needs_a_program() -> None:
    assert wrong("[agents.mine]\nmodel = 'x'\n") == [
        "config.toml, line 1: agents.mine.argv: expected a program and its arguments, found none"
    ]
    assert parse("[agents.mine]\ndriver = 'model'\n", {}).config.agents["mine"].driver == "model"
    assert parse("[agents.mine]\ndriver = 'acp'\nacp_argv = ['x']\n", {}).config.agents["mine"].acp_argv == ("x",)
    assert wrong("[agents.mine]\nargv = ['x']\ndriver = 'terminl'\n")[0].endswith("did you mean terminal?")


def test_the_agents_that_are_known_name_drivers_that_there_are() -> None:
    expected = ["claude", "codex", "gemini", "qwen", "opencode", "kimi", "continue", "copilot", "cline", "droid", "pi"]
    assert list(BUILTIN_AGENTS) == expected
    named = {name for agent in BUILTIN_AGENTS.values() for name in drivers_of(agent)}
    assert named <= set(DRIVERS)
    assert drivers_of(BUILTIN_AGENTS["gemini"]) == ("terminal", "gemini-stream", "acp")
    assert drivers_of(BUILTIN_AGENTS["codex"]) == ("terminal", "codex-app-server")


@each_row(
    ("mode", "driver", "argv"),
    [
        (None, "terminal", ("gemini",)),
        (Mode.TUI, "terminal", ("gemini",)),
        (Mode.STREAM, "gemini-stream", ("gemini",)),
        (Mode.ACP, "acp", ("gemini", "--acp")),
        (Mode.MODEL, "model", ()),
    ],
)
def test_a_mode_chooses_the_driver_and_the_program(mode: Mode | None, driver: str, argv: tuple[str, ...]) -> None:
    spec = choose_agent(Config(), "gemini", {}, cwd="/project", mode=mode)
    assert (spec.agent, spec.driver, spec.argv, spec.cwd) == ("gemini", driver, argv, "/project")


@pytest.mark.parametrize(("name", "mode"), [("pi", Mode.ACP), ("mine", Mode.STREAM), ("mine", Mode.ACP)])
def test_a_mode_that_an_agent_does_not_have_is_refused(name: str, mode: Mode) -> None:
    config = parse("[agents.mine]\nargv = ['x']\n", {}).config
    with pytest.raises(UsageError, match=f"{name} cannot be run by --{mode.value}"):
        choose_agent(config, name, {}, cwd="/", mode=mode)


def test_an_agent_is_started_as_it_was_configured() -> None:
    text = """\
[agents.claude]
driver = "claude-stream"
model = "opus"
cwd = "sub"
options = { permission_mode = "plan" }
environment = { take = ["TAKEN", "NOT_THERE", "BOTH"], set = { SET = "1", BOTH = "set" } }
"""
    config, ours = parse(text, {}).config, {"TAKEN": "t", "OTHER": "o", "BOTH": "ours"}
    spec = choose_agent(config, "claude", ours, cwd="/project")
    assert (spec.driver, spec.model, spec.cwd) == ("claude-stream", "opus", "/project/sub")
    assert spec.environment == {"TAKEN": "t", "SET": "1", "BOTH": "set"}
    assert spec.options == {"permission_mode": "plan"}
    other = choose_agent(config, "claude", {}, cwd="/project", mode=Mode.TUI, model="haiku")
    assert (other.options, other.model) == ({}, "haiku")


def test_acp_may_be_the_driver_of_an_agent() -> None:
    config = parse("[agents.mine]\ndriver = 'acp'\nargv = ['x', 'acp']\n[agents.gemini]\ndriver = 'acp'\n", {}).config
    assert choose_agent(config, "mine", {}, cwd="/").argv == ("x", "acp")
    assert choose_agent(config, "mine", {}, cwd="/", mode=Mode.ACP).driver == "acp"
    assert choose_agent(config, "gemini", {}, cwd="/").argv == ("gemini", "--acp")


@pytest.mark.parametrize(
    ("given", "argv"),
    [
        ("argv = ['/opt/gemini', '--acp', '--debug']", ("/opt/gemini", "--acp", "--debug")),
        ("argv = ['/opt/gemini']\nacp_argv = ['/opt/gemini', 'serve']", ("/opt/gemini", "serve")),
        ("acp_argv = ['/opt/gemini', 'serve']", ("/opt/gemini", "serve")),
    ],
)
def test_a_program_that_is_configured_for_acp_holds_over_the_built_in_one(given: str, argv: tuple[str, ...]) -> None:
    config = parse(f"[agents.gemini]\ndriver = 'acp'\n{given}\n", {}).config
    assert choose_agent(config, "gemini", {}, cwd="/").argv == argv
    assert choose_agent(config, "gemini", {}, cwd="/", mode=Mode.ACP).argv == argv


def test_an_unknown_agent_is_refused_with_the_nearest() -> None:
    with pytest.raises(UsageError, match=r"there is no agent 'cluade'; did you mean 'claude'\?"):
        agent_section(Config(), "cluade")
    with pytest.raises(UsageError, match=r"the agents are claude, cline, codex.*qwen\. Configure another"):
        agent_section(Config(), "zzz")


def test_the_nearest_word_is_near() -> None:
    assert nearest("env", ["environment", "run"]) == "environment"
    assert nearest("en", ["environment"]) == ""
    assert nearest("zzz", ["environment"]) == ""


def test_where_the_file_is(tmp_path: Path) -> None:
    assert config_path({"INTERLOCK_CONFIG": "x.toml", "HOME": "/h"}) == Path("x.toml")
    assert config_path({"XDG_CONFIG_HOME": "/xdg", "HOME": "/h"}) == Path("/xdg/interlock/config.toml")
    assert config_path({"XDG_CONFIG_HOME": "relative", "HOME": "/h"}) == Path("/h/.config/interlock/config.toml")
    assert config_path({"INTERLOCK_CONFIG": "", "HOME": "/h"}) == Path("/h/.config/interlock/config.toml")


def test_without_a_home_there_is_no_file_and_defaults_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", homeless)
    assert config_path({}) is None
    loaded = load({})
    assert (loaded.path, loaded.has_file, loaded.config) == (None, False, Config())


def test_what_is_no_plain_file_is_read_and_bounded_too() -> None:
    port = b"[server]\nport = 1\n"
    full = port + b"#" * (MAX_BYTES - len(port))
    for data, said in ((port, None), (full, None), (b"#" * (MAX_BYTES + 1), "is larger than")):
        reader, writer = os.pipe()
        with os.fdopen(reader), os.fdopen(writer, "wb") as pipe:
            writing = threading.Thread(target=lambda pipe=pipe, data=data: (pipe.write(data), pipe.close()))
            writing.start()
            named = {"INTERLOCK_CONFIG": f"/dev/fd/{reader}"}
            if said is None:
                assert load(named).config.server.port == 1
            else:
                with pytest.raises(UsageError, match=said):
                    load(named)
            writing.join()


def test_a_file_that_was_named_must_be_there(tmp_path: Path) -> None:
    path = tmp_path / "c.toml"
    with pytest.raises(UsageError, match="there is no file"):
        load({"INTERLOCK_CONFIG": str(path)})
    assert load({"XDG_CONFIG_HOME": str(tmp_path)}).has_file is False
    path.write_text("[server]\nport = 1\n")
    loaded = load({"INTERLOCK_CONFIG": str(path)})
    assert (loaded.path, loaded.has_file, loaded.config.server.port) == (path, True, 1)


@pytest.mark.parametrize(
    ("data", "said"),
    [(b"\xff", "is not UTF-8 at byte 0"), (b"#" * ((1 << 20) + 1), "is larger than"), (None, "is not a plain file")],
)
def test_a_file_that_cannot_be_read_is_refused_and_named(data: bytes | None, said: str, tmp_path: Path) -> None:
    path = tmp_path / "c.toml"
    if data is None:
        path.mkdir()
    else:
        path.write_bytes(data)
    with pytest.raises(UsageError, match=said) as found:
        load({"INTERLOCK_CONFIG": str(path)})
    assert os.fspath(path) in str(found.value)


def test_the_page_names_every_key_and_variable_and_its_sample_is_understood() -> None:
    page = (Path(__file__).parents[2] / "docs" / "reference" / "configuration.md").read_text(encoding="utf-8")
    (sample,) = re.findall(r"^```toml\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    config = parse(sample, {}).config
    assert (config.agents["goose"].driver, config.pool.per_agent) == ("acp", {"codex": 2})
    for variable, key in variables(["NAME"]).items():
        if key.path[0] != "agents" or key.path[2] not in PER_AGENT:
            assert f"`{variable}`" in page
            assert f"`{dotted(key.path)}" in page
