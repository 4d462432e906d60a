"""`interlock doctor`: what it finds, what it says to do, that it changes nothing and always comes back."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Sequence
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib.util import find_spec
from pathlib import Path
from threading import Thread

import apsw
import pytest

from interlock.agents.evidence.hook_settings import HookedCli, install_hooks
from interlock.cli import main
from interlock.cli.exit_codes import ExitCode
from interlock.cli.setup import doctor_home, doctor_machine
from interlock.cli.setup.doctor import _configuration
from interlock.cli.setup.doctor_agents import SIGN_INS, agent_probes
from interlock.cli.setup.doctor_checks import CheckProbe, MachineCheck, MachineHealth, examine, printed_by
from interlock.cli.setup.doctor_home import SERVER_FILE, home_probes
from interlock.cli.setup.doctor_machine import machine_probes
from interlock.cli.setup.packages import (
    add_extras_command,
    install_agent,
    install_command,
    remove_program_command,
)
from interlock.log.home_identity import settle_home
from interlock.log.paths import DATABASE_NAME
from interlock.log.sqlite.schema import CURRENT
from interlock.runtime.config.loading import parse
from interlock.runtime.config.sections import Config
from interlock.server.token_file import TOKEN_FILE
from interlock.vocabulary.errors import PeerFault
from tests.cli.harness import on_a_terminal
from tests.cli.homes import change, make_home, whole_turns
from tests.cli.test_cold_start import HEAVY


def looked(probes: Sequence[CheckProbe], seconds: float = 100.0) -> dict[str, MachineCheck]:
    return {one.id: one for one in asyncio.run(examine(probes, seconds=seconds))}


def home_checks(home: Path | None, text: str = "") -> dict[str, MachineCheck]:
    return looked(home_probes(home, parse(text, {}).config))


def make_program(folder: Path, name: str, said: str = "", before: str = "") -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\n{before}\necho '{said}'\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return make_home(tmp_path / "home", whole_turns("ses_1", 1))


def listing(folder: Path) -> dict[str, tuple[int, int, bytes]]:
    files = [one for one in folder.rglob("*") if one.is_file()]
    return {str(one): (one.stat().st_mode, one.stat().st_mtime_ns, one.read_bytes()) for one in files}


def test_in_an_empty_environment_it_works_loads_nothing_heavy_and_says_what_is_missing(tmp_path: Path) -> None:
    code = "import json, sys\nfrom interlock.cli import main\ncode = main(['doctor', '--json'])\n"
    code += "sys.stderr.write(json.dumps(sorted(sys.modules)))\nsys.exit(code)"
    done = subprocess.run(
        (sys.executable, "-c", code),
        capture_output=True,
        encoding="utf-8",
        env={"PATH": str(tmp_path), "INTERLOCK_HOME": str(tmp_path / "home")},
        timeout=100,
        check=False,
    )
    report = json.loads(done.stdout)
    found = {one["id"]: one for one in report["checks"]}
    assert (done.returncode, report["schema"], report["ok"]) == (1, 1, False)  # no tmux: that counts for more
    assert not set(json.loads(done.stderr)) & HEAVY
    assert set(found["tmux"]) == {"id", "group", "health", "found", "mend"}
    assert (found["tmux"]["health"], found["tmux"]["mend"]) == ("fail", "install tmux 3.2 or newer")
    assert (found["git"]["health"], found["others"]["health"]) == ("warn", "install")
    assert list(found)[:6] == ["python", "extras", "tmux", "git", "terminal", "config"]
    assert not (tmp_path / "home").exists()


def test_for_a_person_it_is_aligned_and_fits_eighty_columns(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    make_program(tmp_path / "bin", "claude", "2.1.300 (Claude Code)")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    code = main(["doctor", "--home", str(tmp_path / "a-folder-with-a-rather-long-name" / "home")])
    out = capsys.readouterr().out
    lines = out.splitlines()
    assert (code, lines[0]) == (0, "machine")
    assert max(map(len, lines)) <= 80
    assert {line.split()[0] for line in lines if line.startswith("  ") and line[2] != " "} <= {"ok", "warn"}
    names = [line for line in lines if line.startswith(("  ok", "  warn"))]
    assert (
        len(
            {
                line.index(line.split(maxsplit=2)[2])
                for line in names
                if " hooks " not in line and " sign-in " not in line
            }
        )
        == 1
    )
    assert "none failed" in lines[-1]
    assert "\x1b" not in out


def test_colours_are_for_a_terminal(tmp_path: Path) -> None:
    make_program(tmp_path / "bin", "claude", "2.1.300 (Claude Code)")
    shown = on_a_terminal("doctor", env={"PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"})
    assert "\x1b[32mok    \x1b[0m" in shown
    assert set(re.findall(r"\x1b\[([\d;]*)m", shown)) <= {"0", "32", "33", "1;31"}


def test_a_probe_that_hangs_or_breaks_is_a_check_that_failed_and_keeps_its_place() -> None:
    async def hangs() -> Sequence[MachineCheck]:
        await asyncio.Event().wait()
        return ()

    def breaks(error: Exception) -> Awaitable[Sequence[MachineCheck]]:
        raise error

    fine = MachineCheck(id="fine", group="g", health=MachineHealth.OK, found="f")
    probes = [
        CheckProbe("hangs", "g", hangs),
        CheckProbe("breaks", "g", lambda: breaks(OSError("disk"))),
        CheckProbe("refuses", "g", lambda: breaks(PeerFault("no"))),
        CheckProbe.told(fine),
    ]
    found = looked(probes, seconds=0.05)
    assert list(found) == ["hangs", "breaks", "refuses", "fine"]
    assert found["hangs"].found == "did not answer within 0.05 s"
    assert [one.health for one in found.values()] == [MachineHealth.FAIL] * 3 + [MachineHealth.OK]
    assert (found["breaks"].found, found["refuses"].found) == ("disk", "no")


def test_a_program_that_fails_is_a_fault_and_one_that_hangs_is_ended(tmp_path: Path) -> None:
    with pytest.raises(PeerFault, match="ended with 3"):
        asyncio.run(printed_by(sys.executable, "-c", "raise SystemExit(3)"))
    pid_file = tmp_path / "pid"
    program = make_program(
        tmp_path, "hangs", before=f"echo $$ > {pid_file}.new; mv {pid_file}.new {pid_file}; sleep 99"
    )

    async def ended() -> None:
        task = asyncio.create_task(printed_by(str(program)))
        for _ in range(10_000):
            if pid_file.exists():
                break
            await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.wait((task,))

    asyncio.run(ended())
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid_file.read_text()), 0)


@pytest.mark.parametrize(
    ("said", "is_old"), [("tmux 3.1c", True), ("tmux 2.9", True), ("tmux 10.0", False), ("tmux next-3.5", False)]
)
def test_tmux_must_be_new_enough_and_start_a_server(
    said: str, is_old: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_program(tmp_path / "bin", "tmux", said, before='[ "$1" = -V ] || exit 1')
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    found = looked(machine_probes())["tmux"]
    assert found.health is MachineHealth.FAIL
    assert ("is too old" in found.found) is is_old
    assert ("no server can be started" in found.found) is not is_old


def test_the_server_that_is_tried_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert looked(machine_probes())["tmux"].health is MachineHealth.OK
    assert list(tmp_path.iterdir()) == []
    for _ in range(10_000):
        if not running_with(str(tmp_path)):
            return
        time.sleep(0.01)
    raise AssertionError(f"left behind: {running_with(str(tmp_path))}")


def running_with(text: str) -> list[str]:
    """The command lines of living processes that name a text."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().decode("utf-8", "replace")
        except OSError:
            continue
        found += [words] if text in words else []
    return found


def test_an_extra_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    assert looked(machine_probes())["extras"].health is MachineHealth.OK
    monkeypatch.setattr(doctor_machine, "_EXTRAS", {"acp": "no_such_module_anywhere", "model": "json"})
    found = looked(machine_probes())["extras"]
    assert (found.health, found.mend) == (MachineHealth.WARN, "pip install 'interlock[acp]'")


def agent_checks(
    folder: Path, monkeypatch: pytest.MonkeyPatch, config: Config | None = None, seconds: float = 100.0
) -> dict[str, MachineCheck]:
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    monkeypatch.setenv("HOME", str(folder.parent))
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    return looked(agent_probes(config or Config()), seconds)


def test_each_agent_is_told_with_version_profile_and_drivers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    programs = tmp_path / "bin"
    make_program(programs, "claude", "2.1.300 (Claude Code)")
    make_program(programs, "codex", "codex-cli 0.999.0")
    make_program(programs, "gemini", "hello")
    make_program(programs, "own", "1.0")
    own = "[agents.mine]\nargv = ['own']\n[agents.named]\nargv = ['own']\noptions.cli = 'codex'\n"
    found = agent_checks(programs, monkeypatch, parse(own, {}).config)
    assert found["claude"] == MachineCheck(
        id="claude",
        group="agents",
        health=MachineHealth.OK,
        found="2.1.300; profile claude-2.1; by terminal, claude-stream",
    )
    assert found["codex"].health is MachineHealth.WARN
    assert "0.999.0, outside the versions of its profile: codex-0.166 is nearest" in found["codex"].found
    assert found["gemini"].health is MachineHealth.WARN
    assert found["gemini"].found.startswith("version unknown; profile gemini-")
    assert found["gemini"].found.endswith("by terminal, gemini-stream, acp")
    assert found["mine"].health is MachineHealth.WARN
    assert "no profile" in found["mine"].found
    assert "codex-" in found["named"].found
    assert "no profile" not in found["named"].found
    assert found["others"].found == "not installed: qwen, opencode, kimi, continue, copilot, cline, droid, pi"
    assert found["others"].health is MachineHealth.OK


def test_an_agent_that_does_not_answer_is_no_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("interlock.cli.setup.doctor_agents._VERSION_SECONDS", 0.05)
    make_program(tmp_path / "bin", "qwen", before="sleep 99")
    found = agent_checks(tmp_path / "bin", monkeypatch)["qwen"]
    assert (found.health, found.mend) == (MachineHealth.WARN, "see what `qwen --version` prints")


def test_hooks_are_looked_at_where_the_agent_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    programs = tmp_path / "bin"
    make_program(programs, "claude", "2.1.300 (Claude Code)")
    found = agent_checks(programs, monkeypatch)
    assert "codex hooks" not in found
    assert (found["claude hooks"].health, found["claude hooks"].mend) == (
        MachineHealth.WARN,
        "interlock hooks install claude",
    )
    assert not (tmp_path / ".claude").exists()
    settings = tmp_path / ".claude" / "settings.json"
    install_hooks(HookedCli.CLAUDE, settings)
    assert agent_checks(programs, monkeypatch)["claude hooks"].health is MachineHealth.OK
    settings.write_text("{")
    broken = agent_checks(programs, monkeypatch)["claude hooks"]
    assert broken.health is MachineHealth.FAIL
    assert str(settings) in broken.found


def test_a_broken_profile_of_ones_own_is_told_and_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / ".config" / "interlock" / "profiles"
    folder.mkdir(parents=True)
    (folder / "mine.toml").write_text("nonsense = 1\n")
    (tmp_path / "bin").mkdir()
    found = agent_checks(tmp_path / "bin", monkeypatch)["profiles"]
    assert found.health is MachineHealth.WARN
    assert "mine.toml" in found.found


def test_a_sound_home_is_sound_and_stays_as_it_was(home: Path) -> None:
    before = listing(home)
    found = home_checks(home)
    assert {one.health for one in found.values() if one.id != "sockets"} == {MachineHealth.OK}
    assert found["log"].found == "schema 5, no process writes, the file is sound"
    assert list(found) == ["folder", "identity", "sockets", "log", "disk", "clock", "tokens", "port"]
    assert listing(home) == before


def test_without_a_home_the_remedy_is_named() -> None:
    found = home_checks(None)
    assert [(one.id, one.health) for one in found.values()] == [("folder", MachineHealth.FAIL)]
    assert "INTERLOCK_HOME" in found["folder"].mend


def test_a_home_that_is_not_there_yet_is_fine_where_it_can_be_made(tmp_path: Path) -> None:
    found = home_checks(tmp_path / "a" / "b")
    assert {one.health for one in found.values() if one.id != "sockets"} == {MachineHealth.OK}
    assert list(tmp_path.iterdir()) == []


def test_a_home_that_is_a_copy_or_too_long_for_sockets_is_told(home: Path) -> None:
    first = settle_home(home)
    assert first.home_id in home_checks(home)["identity"].found
    found = home_checks(Path(shutil.copytree(home, home.with_name("copy"))))["identity"]
    assert (found.health, str(home) in found.found) == (MachineHealth.WARN, True)
    assert "interlock up --take-over" in found.mend
    assert home_checks(Path("/h"))["sockets"].health is MachineHealth.OK
    found = home_checks(Path(f"/{'x' * 80}"))["sockets"]
    assert (found.health, "bytes too long" in found.found) == (MachineHealth.WARN, True)


@pytest.mark.parametrize(
    ("mode", "health", "said"),
    [(0o755, MachineHealth.WARN, "others can look into"), (0o770, MachineHealth.FAIL, "others can write to")],
)
def test_a_home_that_is_open_to_others_is_told(mode: int, health: MachineHealth, said: str, home: Path) -> None:
    home.chmod(mode)
    found = home_checks(home)["folder"]
    assert found.health is health
    assert said in found.found
    assert found.mend.startswith(("chmod 700", "run `chmod 700"))
    assert found.mend not in found.found


@pytest.mark.parametrize("is_short", [False, True])
def test_a_damaged_log_is_a_failure_with_a_remedy(is_short: bool, home: Path) -> None:
    path = home / DATABASE_NAME
    data = bytearray(path.read_bytes())
    data[4096 * 2 :] = b"" if is_short else b"\xa5" * (len(data) - 4096 * 2)
    path.write_bytes(data)
    found = home_checks(home)["log"]
    assert found.health is MachineHealth.FAIL
    assert found.mend.startswith("interlock log repair")


def test_damage_that_only_a_look_at_the_pages_shows_is_a_failure(home: Path) -> None:
    path = home / DATABASE_NAME
    connection = apsw.Connection(str(path))
    ((page,),) = connection.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'events'").fetchall()
    ((size,),) = connection.execute("PRAGMA page_size").fetchall()
    connection.close()
    data = bytearray(path.read_bytes())
    at = (int(str(page)) - 1) * int(str(size))
    data[at + 3 : at + 5] = b"\xff\xff"  # how many cells the page has
    path.write_bytes(data)
    found = home_checks(home)["log"]
    assert (found.health, found.mend) == (MachineHealth.FAIL, "interlock log repair")
    assert "schema 5, no process writes; damaged: " in found.found


@pytest.mark.parametrize("content", [b"no database at all, whatever it is" * 100, b"SQLite format 3\x00"])
def test_what_is_no_log_is_a_failure(content: bytes, home: Path) -> None:
    (home / DATABASE_NAME).write_bytes(content)
    assert home_checks(home)["log"].health is MachineHealth.FAIL


def test_a_log_of_a_newer_program_is_a_failure(home: Path) -> None:
    change(home, f"PRAGMA user_version = {CURRENT.version + 1}")
    found = home_checks(home)["log"]
    assert found.health is MachineHealth.FAIL
    assert found.mend.startswith("upgrade interlock")


def test_who_writes_is_told_and_not_disturbed(home: Path) -> None:
    code = (
        "import asyncio, sys\nfrom pathlib import Path\nfrom interlock.log.sqlite.store import SqliteLog\n"
        "async def hold():\n"
        "    async with await SqliteLog.open(Path(sys.argv[1])):\n"
        "        print('held', flush=True)\n        sys.stdin.read()\n"
        "asyncio.run(hold())\n"
    )
    with subprocess.Popen(
        (sys.executable, "-c", code, str(home)), stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8"
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        found = home_checks(home)["log"]
        assert found.health is MachineHealth.OK
        assert f"process {holder.pid} on " in found.found
        assert " writes, the file is sound" in found.found
        holder.communicate("")
    assert holder.returncode == 0


def test_a_log_too_large_for_a_quick_look_is_no_failure(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor_home, "PROBE_SECONDS", -10)
    monkeypatch.setattr(doctor_home, "_STEPS", 1)
    found = home_checks(home)["log"]
    assert (found.health, found.mend) == (MachineHealth.WARN, "interlock log verify")


def test_a_writer_that_comes_meanwhile_is_no_damage(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def torn(path: Path) -> apsw.Connection:
        Path(f"{path}-wal").touch()
        raise apsw.CorruptError("torn")

    monkeypatch.setattr(doctor_home, "_at_rest", torn)
    assert home_checks(home)["log"].health is MachineHealth.OK


@pytest.mark.parametrize(
    ("free", "health"), [(10, MachineHealth.FAIL), (500, MachineHealth.WARN), (5000, MachineHealth.OK)]
)
def test_a_full_disk_is_told(free: int, health: MachineHealth, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage(tmp_path)._replace(free=free * 1024 * 1024)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    assert home_checks(tmp_path)["disk"].health is health


def test_tokens_that_others_can_read_are_a_failure(home: Path) -> None:
    tokens = home / TOKEN_FILE
    tokens.write_text("{}")
    tokens.chmod(0o600)
    assert home_checks(home)["tokens"] == MachineCheck(
        id="tokens", group="home", health=MachineHealth.OK, found="only you can read them"
    )
    tokens.chmod(0o640)
    assert home_checks(home)["tokens"].health is MachineHealth.FAIL
    tokens.unlink()
    tokens.symlink_to("elsewhere")
    assert home_checks(home)["tokens"].found.endswith("is no plain file")


def test_a_port_is_free_or_somebody_elses(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        found = home_checks(tmp_path, f"[server]\nport = {port}\n")["port"]
        assert (found.health, found.mend) == (
            MachineHealth.FAIL,
            "choose another server.port, or stop what listens there",
        )
    free = home_checks(tmp_path, f"[server]\nport = {port}\n")["port"]
    assert (free.health, free.found) == (MachineHealth.OK, f"127.0.0.1:{port} is free")


class _Healthy(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200 if self.path == "/health" else 404)
        self.end_headers()

    def log_request(self, code: object = "-", size: object = "-") -> None:
        """Nothing on stderr."""


def test_a_port_may_be_our_own_servers(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    with HTTPServer(("127.0.0.1", 0), _Healthy) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        url = f"http://127.0.0.1:{server.server_port}"
        told = {"url": url, "pid": os.getpid(), "started_at": "2026-01-31T12:00:00Z"}
        (tmp_path / SERVER_FILE).write_text(json.dumps(told))
        found = [home_checks(tmp_path, text)["port"] for text in ("", f"[server]\nport = {server.server_port}\n")]
        server.shutdown()
        thread.join(20)
    assert [(one.health, one.found) for one in found] == [(MachineHealth.OK, f"ours: {url} answers")] * 2
    assert home_checks(tmp_path)["port"].health is MachineHealth.WARN
    (tmp_path / SERVER_FILE).write_text(json.dumps({**told, "pid": 2**22 + 1}))
    assert home_checks(tmp_path)["port"].found == "any free one; no server runs"


def test_the_servers_file_is_named_as_the_server_names_it() -> None:
    spec = find_spec("interlock.server")
    assert spec is not None
    assert spec.origin is not None
    source = Path(spec.origin).with_name("serving.py").read_text()  # to import it would take a second
    assert f'SERVER_FILE: Final = "{SERVER_FILE}"' in source


def test_a_configuration_that_is_not_understood_is_a_failure_and_the_rest_is_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "config.toml"
    path.write_text("[server]\nprot = 1\n")
    path.chmod(0o600)
    monkeypatch.setenv("INTERLOCK_CONFIG", str(path))
    assert main(["doctor", "--json"]) == 1
    found = {one["id"]: one for one in json.loads(capsys.readouterr().out)["checks"]}
    assert found["config"]["health"] == "fail"
    assert "server.prot" in found["config"]["found"]
    assert found["config"]["mend"] == "interlock config check"
    assert found["port"]["health"] == "ok"


@pytest.mark.parametrize(
    ("text", "mode", "health"),
    [
        ("", 0o644, "ok"),
        ("", 0o666, "fail"),
        ("", 0o620, "fail"),
        ("[notify]\nwebhook = 'https://h/x'\n", 0o644, "warn"),
        ("[agents.pi.environment.set]\nA = 'b'\n", 0o644, "warn"),
        ("[agents.pi.environment.set]\nA = 'b'\n", 0o600, "ok"),
    ],
)
def test_a_configuration_that_others_can_write_or_whose_secrets_they_can_read_is_told(
    text: str,
    mode: int,
    health: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = tmp_path / "config.toml"
    path.write_text(text)
    path.chmod(mode)
    monkeypatch.setenv("INTERLOCK_CONFIG", str(path))
    _, probe = _configuration()
    assert looked([probe])["config"].health == health


def test_a_machine_without_an_agent_is_told_to_install_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is broken, and nothing can be run: that has an exit code of its own."""
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("tmux", "git", "npm"):
        (tools / name).symlink_to(shutil.which(name) or "/bin/true")
    monkeypatch.setenv("PATH", str(tools))
    assert main(["doctor", "--json", "--home", str(tmp_path / "home")]) == ExitCode.NO_AGENT
    report = json.loads(capsys.readouterr().out)
    (others,) = [one for one in report["checks"] if one["id"] == "others"]
    assert (report["ok"], others["health"]) == (False, "install")
    assert others["mend"] == "npm install -g @anthropic-ai/claude-code"
    assert main(["doctor", "--home", str(tmp_path / "home")]) == ExitCode.NO_AGENT
    assert capsys.readouterr().out.splitlines()[-1].endswith("; install an agent to go on")


def test_credentials_are_found_by_files_and_variables_and_else_nothing_is_claimed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("codex", "claude", "gemini"):
        make_program(tmp_path / "bin", name, "1.0")
    for sign_in in SIGN_INS.values():
        for name in sign_in.keys:
            monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("GEMINI_API_KEY", "k")
    (tmp_path / ".codex").mkdir()
    (tmp_path / ".codex" / "auth.json").write_text('{"tokens": {"access_token": "secret"}}')
    (tmp_path / ".claude").mkdir()
    (tmp_path / ".claude" / ".credentials.json").write_text("{}")
    found = agent_checks(tmp_path / "bin", monkeypatch)
    assert found["gemini sign-in"].found.startswith("by GEMINI_API_KEY")
    assert found["codex sign-in"].health is MachineHealth.OK
    assert "secret" not in found["codex sign-in"].found
    assert found["claude sign-in"].found.startswith("unknown: ")
    assert (found["claude sign-in"].health, found["claude sign-in"].mend) == (MachineHealth.WARN, "claude auth login")


def test_a_clock_that_is_behind_its_own_files_is_told(home: Path) -> None:
    assert home_checks(home)["clock"].health is MachineHealth.OK
    later = time.time() + 7200
    os.utime(home / DATABASE_NAME, (later, later))
    found = home_checks(home)["clock"]
    assert found.health is MachineHealth.WARN
    assert " min behind" in found.found


def test_what_is_missing_is_installed_by_the_manager_that_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_program(tmp_path, "dnf")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert install_command("tmux").removeprefix("sudo ") == "dnf install tmux"
    assert install_agent().removeprefix("sudo ") == "dnf install npm; then npm install -g @anthropic-ai/claude-code"
    monkeypatch.setattr(sys, "prefix", "/h/.local/share/pipx/venvs/interlock")
    assert add_extras_command(["acp"]) == "pipx install --force 'interlock[acp]'"
    assert remove_program_command() == "pipx uninstall interlock"
    monkeypatch.setattr(sys, "prefix", "/h/.local/share/uv/tools/interlock")
    assert remove_program_command() == "uv tool uninstall interlock"
