"""`interlock config`: every value with its origin, no secret, and mistakes that name the key."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from interlock.cli import main
from interlock.cli.setup import config as command
from interlock.cli.setup.config import masked_value
from interlock.runtime.config.loading import parse
from interlock.runtime.redaction.redactor import Redactor
from tests.cli.harness import on_a_terminal
from tests.cli.test_cold_start import HEAVY, modules_after

TEXT = """\
[server]
port = 8123
[notify]
webhook = "https://hooks.example/services/T0/B0/secretpath"
command = ["tell", "--token", "hunter2hunter2"]
[agents.claude]
argv = ["claude", "--api-key=sk-0123456789abcdef"]
[agents.claude.options]
apiKey = "plainword"
nested = { list = [{ password = "plainword" }], size = 3 }
[agents.claude.environment]
take = ["ANTHROPIC_API_KEY"]
[agents.claude.environment.set]
HARMLESS = "plainword"
"""
SECRETS = ("hunter2hunter2", "sk-0123456789abcdef", "secretpath", "plainword")


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "config.toml"
    monkeypatch.setenv("INTERLOCK_CONFIG", str(path))
    return path


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = main(["config", *words])
    told = capsys.readouterr()
    return code, told.out, told.err


def test_every_value_is_shown_with_its_origin(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file.write_text("[server]\nport = 8123\n")
    monkeypatch.setenv("INTERLOCK_RUN_STALL_AFTER_SECONDS", "off")
    code, out, err = run(capsys, "show")
    assert (code, err) == (0, f"{file}\n")
    rows = {line.split()[0]: line.split()[1:] for line in out.splitlines()}
    assert rows["server.port"] == ["8123", "file"]
    assert rows["server.host"] == ["127.0.0.1", "default"]
    assert rows["run.stall_after_seconds"] == ["off", "INTERLOCK_RUN_STALL_AFTER_SECONDS"]
    assert rows["agents.codex.model"] == ['""', "default"]
    assert set(rows) - {"KEY"} == {one.key for one in parse("", {}).settings}


def test_a_part_or_what_was_changed_is_shown_alone(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text("[server]\nport = 8123\n")
    _, out, _ = run(capsys, "show", "server")
    assert [line.split()[0] for line in out.splitlines()[1:]] == [
        "server.host",
        "server.port",
        "server.allowed_hosts",
        "server.allowed_origins",
    ]
    _, out, _ = run(capsys, "show", "--changed")
    assert [line.split() for line in out.splitlines()[1:]] == [["server.port", "8123", "file"]]
    code, out, err = run(capsys, "show", "serv")
    assert (code, out) == (2, "")
    assert "there is no key 'serv'" in err


def test_for_a_script_it_is_one_document(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text("[server]\nport = 8123\n")
    code, out, _ = run(capsys, "show", "server.port", "--json")
    setting = {"key": "server.port", "value": 8123, "source": "file", "where": str(file)}
    assert (code, json.loads(out)) == (0, {"path": str(file), "exists": True, "settings": [setting]})


@pytest.mark.parametrize("words", [("show",), ("show", "--json"), ("show", "--changed"), ("check",)])
def test_no_secret_is_shown(words: tuple[str, ...], file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text(TEXT)
    code, out, err = run(capsys, *words)
    assert code == 0
    assert not [secret for secret in SECRETS if secret in out + err]


def test_what_is_no_secret_stays_readable(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text(TEXT)
    found = {one["key"]: one["value"] for one in json.loads(run(capsys, "show", "--json")[1])["settings"]}
    assert found["notify.webhook"] == "https://hooks.example/***"
    assert found["notify.command"] == ["tell", "--token", "***"]
    assert found["agents.claude.argv"] == ["claude", "--api-key=***"]
    assert found["agents.claude.options.nested"] == {"list": [{"password": "***"}], "size": 3}
    assert found["agents.claude.environment.take"] == ["ANTHROPIC_API_KEY"]
    assert found["agents.claude.environment.set.HARMLESS"] == "***"
    assert masked_value("notify.webhook", "http://127.0.0.1:9/", Redactor()) == "http://127.0.0.1:9/"
    assert masked_value("notify.webhook", "http://h/?key=x", Redactor()) == "http://h/***"


def test_mistakes_name_file_line_and_key(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text("[server]\nprot = 1\n[run]\nmax_tokens = -1\n")
    code, out, err = run(capsys, "show")
    assert (code, out) == (2, "")
    assert err.startswith(f"interlock: {file}, line 2: server.prot: expected one of host, port")
    assert "did you mean server.port? (and 1 more: `interlock config check`)" in err
    code, out, err = run(capsys, "check")
    assert (code, err) == (2, "")
    assert [line.removeprefix(f"{file}, ").split(": ")[:2] for line in out.splitlines()] == [
        ["line 2", "server.prot"],
        ["line 4", "run.max_tokens"],
    ]
    told = json.loads(run(capsys, "check", "--json")[1])
    assert (told["ok"], told["path"], [one["key"] for one in told["mistakes"]]) == (
        False,
        str(file),
        ["server.prot", "run.max_tokens"],
    )


def test_a_key_that_would_move_the_cursor_is_shown_as_it_is_spelled(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file.write_text('"\\u001b[31mred\\nnext" = 1\n')
    for words in (("show",), ("check",)):
        code, out, err = run(capsys, *words)
        assert code == 2
        assert "\\x1b[31mred\\nnext" in out + err
        assert "\x1b" not in out + err
        assert (out + err).count("\n") == 1


def test_the_path_is_told_whether_or_not_it_is_there(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "path") == (0, f"{file}\n", "")
    assert json.loads(run(capsys, "path", "--json")[1]) == {"path": str(file), "exists": False}
    code, _, err = run(capsys, "check")
    assert code == 2
    assert "there is no file" in err
    file.write_text("")
    assert run(capsys, "check") == (0, f"understood: {file}\n", "")
    assert json.loads(run(capsys, "check", "--json")[1]) == {"ok": True, "path": str(file), "mistakes": []}


def test_without_a_home_the_remedy_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "config_path", lambda environ: None)
    code, _, err = run(capsys, "path")
    assert (code, err) == (
        2,
        "interlock: there is no home to look in; set HOME, or name a file with INTERLOCK_CONFIG\n",
    )


def test_it_fits_a_terminal_of_eighty_columns(file: Path) -> None:
    file.write_text("[server]\nport = 8123\n")
    shown = on_a_terminal("config", "show", env={"COLUMNS": "80"})
    assert max(len(line.rstrip()) for line in shown.replace("\x1b[1m", "").replace("\x1b[0m", "").splitlines()) <= 80


def test_it_is_light(file: Path) -> None:
    file.write_text("")
    loaded = modules_after("from interlock.cli import main\nassert main(['config', 'show', '--json']) == 0")
    assert not loaded & (HEAVY | {"rich", "asyncio", "apsw", "interlock.agents.drivers"})
