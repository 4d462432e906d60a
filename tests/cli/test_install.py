"""The first run, the service and the way out, as a user meets them: what is written, and what is never touched."""

from __future__ import annotations

import json
import os
import plistlib
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from interlock.cli import main
from interlock.cli.exit_codes import ExitCode
from interlock.cli.install.units import MARK, service_file
from interlock.testing.scripted_agent import command
from tests.cli.harness import interlock
from tests.cli.homes import make_home, whole_turns
from tests.cli.serving import end_tmux

VARIABLES = (
    "CLAUDE_CONFIG_DIR",
    "CODEX_HOME",
    "XDG_CONFIG_HOME",
    "XDG_STATE_HOME",
    "INTERLOCK_CONFIG",
    "ZSH",
    "ZSH_CUSTOM",
)


@pytest.fixture
def person(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A user whose folders are all in one place, with a path that is short enough for sockets."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    with tempfile.TemporaryDirectory(prefix="il-") as made:
        folder = Path(made)
        monkeypatch.setenv("HOME", made)
        home = folder / ".local" / "state" / "interlock"
        monkeypatch.setenv("INTERLOCK_HOME", str(home))
        yield folder
        end_tmux(home)


def programs(folder: Path, *names: str, said: str = "") -> str:
    """A PATH with just these programs, each of which notes what it was asked."""
    place = folder / "programs"
    place.mkdir(exist_ok=True)
    for name in names:
        (place / name).write_text(f'#!/bin/sh\necho "{name} $*" >> "{folder}/asked"\necho "{said}"\n')
        (place / name).chmod(0o755)
    return str(place)


# The first run


def test_on_an_empty_home_a_newcomer_is_told_what_was_found_and_what_comes_next(person: Path) -> None:
    told = interlock(env={"PATH": programs(person, "claude", "tmux")})
    assert (told.returncode, told.stderr) == (0, "")
    assert "Found:  tmux, claude" in told.stdout
    steps = told.stdout.partition("Next:\n")[2].partition("\n\n")[0].splitlines()
    assert [line.split("  ")[1] for line in steps] == [
        'interlock run claude "Say hello"',
        "interlock",
        "interlock doctor",
    ]
    none = interlock(env={"PATH": programs(person / "programs", "npm")})
    assert "Found:  neither tmux nor an agent" in none.stdout
    assert "npm install -g @anthropic-ai/claude-code" in none.stdout
    assert not (person / ".local").exists()


def test_on_a_used_home_it_is_the_page_of_commands(person: Path) -> None:
    make_home(Path(os.environ["INTERLOCK_HOME"]), whole_turns("ses_1", 1))
    assert interlock().stdout.startswith("Usage: interlock COMMAND")


def test_an_agent_that_is_not_installed_has_its_own_exit_code(person: Path) -> None:
    told = interlock("run", "claude", "hi", env={"PATH": programs(person, "tmux")})
    assert told.returncode == ExitCode.NO_AGENT.value
    assert "npm install -g @anthropic-ai/claude-code" in told.stderr
    assert not (person / ".local").exists()


# The service


def test_the_unit_is_written_started_told_and_removed(
    person: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", programs(person, "systemctl", said="active"))
    unit = person / ".config" / "systemd" / "user" / "interlock.service"
    assert main(["service", "status"]) == ExitCode.FAILED
    assert "next: interlock service install" in capsys.readouterr().out
    assert main(["service", "install", "--manager", "systemd", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["installed"], told["current"], told["active"], told["next"]) == (True, True, "active", "")
    assert stat.S_IMODE(unit.stat().st_mode) == 0o644
    assert "KillMode=process" in unit.read_text()
    assert f'"--home" "{os.environ["INTERLOCK_HOME"]}"' in unit.read_text()
    asked = (person / "asked").read_text().splitlines()
    assert asked[-4:-2] == ["systemctl --user daemon-reload", "systemctl --user enable --now interlock.service"]
    assert main(["service", "remove"]) == 0
    assert "not installed" in capsys.readouterr().out
    assert "systemctl --user disable --now interlock.service" in (person / "asked").read_text()
    assert not unit.exists()


def test_a_service_manager_that_cannot_be_asked_leaves_the_file_and_the_command(person: Path) -> None:
    told = interlock("service", "install", "--manager", "systemd", env={"PATH": programs(person)})
    assert told.returncode == ExitCode.PARTIAL
    assert "there is no systemctl here" in told.stderr
    assert "next: systemctl --user daemon-reload && systemctl --user enable --now interlock.service" in told.stdout


def test_a_file_of_somebody_else_is_neither_overwritten_nor_removed(person: Path) -> None:
    unit = person / ".config" / "systemd" / "user" / "interlock.service"
    unit.parent.mkdir(parents=True)
    unit.write_text("[Service]\nExecStart=/bin/true\n")
    for action in ("install", "remove"):
        assert interlock("service", action, "--manager", "systemd").returncode == ExitCode.USAGE
    assert unit.read_text() == "[Service]\nExecStart=/bin/true\n"
    assert "interlock.service" not in interlock("uninstall").stdout


def test_words_that_mean_something_to_systemd_are_escaped(person: Path) -> None:
    odd = person / 'a "b" 100% $HOME \\x'
    unit = service_file("systemd", odd, {"PATH": "/bin:/50%"})
    (line,) = [line for line in unit.content.decode().splitlines() if line.startswith("ExecStart=")]
    assert line.endswith(f'"--home" "{person}/a \\"b\\" 100%% $$HOME \\\\x"')
    assert 'Environment="PATH=/bin:/50%%"' in unit.content.decode()


def test_systemd_understands_the_unit(person: Path) -> None:
    """Where this machine has systemd; elsewhere the text above is all that can be held."""
    program = shutil.which("systemd-analyze")
    file = service_file("systemd", person / "home %x")
    if program is not None:
        unit = person / file.path.name
        unit.write_bytes(file.content)
        environ = {**os.environ, "XDG_RUNTIME_DIR": str(person)}
        done = subprocess.run(
            (program, "--user", "verify", str(unit)),
            capture_output=True,
            text=True,
            env=environ,
            timeout=100,
            check=False,
        )
        assert [line for line in done.stderr.splitlines() if unit.name in line] == []
    assert MARK.encode() in file.content


def test_the_launchd_agent_is_a_property_list_with_the_same_command(person: Path) -> None:
    interlock("service", "install", "--manager", "launchd", "--no-start")
    path = person / "Library" / "LaunchAgents" / "dev.interlock.server.plist"
    told = plistlib.loads(path.read_bytes())
    assert told["ProgramArguments"][1:] == [
        "-P",
        "-m",
        "interlock.cli",
        "up",
        "--foreground",
        "--home",
        os.environ["INTERLOCK_HOME"],
    ]
    assert (told["RunAtLoad"], told["AbandonProcessGroup"]) == (True, True)
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    assert interlock("service", "remove", "--manager", "launchd", env={"PATH": programs(person)}).returncode == 0
    assert not path.exists()


# The way out


def use_home(config: Path) -> None:
    """A server, an agent in a terminal, a turn, and every file that they make. Nothing can be removed meanwhile."""
    argv = json.dumps(list(command("tui")))
    config.write_text(f"[agents.scripted]\nargv = {argv}\ndriver = 'terminal'\n[notify]\ncommand = ['true']\n")
    try:
        done = interlock("run", "scripted", "say hello", "--wait", "--timeout", "90")
        assert done.returncode == 0, done.stderr
        listed = interlock("uninstall")
        assert (listed.returncode, "not now: a server of" in listed.stdout) == (0, True)
        assert "interlock down --stop-agents && interlock uninstall --yes" in listed.stdout
        refused = interlock("uninstall", "--yes")
        assert (refused.returncode, "interlock down --stop-agents" in refused.stderr) == (ExitCode.USAGE, True)
        assert interlock("down").returncode == 0
        refused = interlock("uninstall", "--yes")  # its agent goes on in tmux
        assert (refused.returncode, "go on without a server" in refused.stderr) == (ExitCode.USAGE, True)
    finally:
        assert interlock("down", "--stop-agents").returncode == 0


def test_uninstall_lists_what_there_is_removes_only_that_and_leaves_the_agents_alone(person: Path) -> None:
    home = Path(os.environ["INTERLOCK_HOME"])
    claude = person / ".claude"
    claude.mkdir()
    (claude / "settings.json").write_text('{"model": "opus"}\n')
    (claude / "history.jsonl").write_text("the agent's own\n")
    (person / ".bashrc").write_text("alias ll='ls -l'\n")
    (person / ".zshrc").write_text("bindkey -e\n")
    config = person / ".config" / "interlock"
    (config / "profiles").mkdir(parents=True)
    (config / "config.toml").write_text("")
    for line in (
        "hooks install claude",
        "completion bash --install",
        "completion zsh --install",
        "rules pause",
        "completion fish --install",
        "service install --no-start --manager systemd",
    ):
        assert interlock(*line.split()).returncode == 0
    use_home(config / "config.toml")
    # What a used home holds is known: a new file there has to be named in `uninstall.py`.
    (home / "mine.txt").write_text("put here by a person")
    before = sorted(path for path in person.rglob("*") if path.is_file())
    listed = interlock("uninstall", "--json")
    assert sorted(path for path in person.rglob("*") if path.is_file()) == before
    end_tmux(home)  # with the home its socket goes
    kinds = {one["kind"] for one in json.loads(listed.stdout)["items"]}
    assert kinds == {"service", "hooks", "completion", "configuration", "home"}
    assert json.loads(listed.stdout)["left"] == [str(home / "mine.txt")]
    named = interlock("uninstall", "--json", env={"INTERLOCK_CONFIG": str(config / "config.toml")})
    assert "configuration" not in {
        one["kind"] for one in json.loads(named.stdout)["items"]
    }  # it may be a project's own
    done = interlock("uninstall", "--yes", "--json")
    assert done.returncode == 0, done.stderr
    left = sorted(path.relative_to(person).as_posix() for path in person.rglob("*") if path.is_file())
    assert left == [
        ".bashrc",
        ".claude/history.jsonl",
        ".claude/settings.json",
        ".local/state/interlock/mine.txt",
        ".zshrc",
    ]
    assert (claude / "settings.json").read_text() == '{"model": "opus"}\n'
    assert (person / ".bashrc").read_text() == "alias ll='ls -l'\n"
    assert (person / ".zshrc").read_text() == "bindkey -e\n"
    (home / "mine.txt").unlink()
    assert "but the program itself" in interlock("uninstall", "--yes", "--home", str(person / "none")).stdout
