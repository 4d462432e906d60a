"""Which CLI a command line starts, whatever stands before its name."""

from __future__ import annotations

import pytest

from interlock.agents import identify
from interlock.agents.profiles import builtin_profiles
from interlock.log.host import linux
from interlock.screen.snapshot import read_snapshot

BLANK = read_snapshot("", columns=80, height=1)


@pytest.mark.parametrize(
    ("line", "argv"),
    [
        ("/opt/bin/codex --no-daemon", "/opt/bin/codex"),
        ("node --flag /opt/bin/codex.js --no-daemon", "node --flag /opt/bin/codex.js"),
        ("interlock debug shim -- codex", "codex"),
        ("/v/bin/python -m interlock.cli shim --status-file /tmp/s -- /opt/bin/codex --x", "/opt/bin/codex"),
        ("python3 /v/bin/interlock debug shim -- node /opt/bin/codex.js", "node /opt/bin/codex.js"),
    ],
)
def test_a_program_is_found_behind_what_runs_it(line: str, argv: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(identify, "foreground_argv", lambda pid: tuple(line.split()))
    assert identify.identify(builtin_profiles(), 1, BLANK) == identify.Identified("codex", tuple(argv.split()))


@pytest.mark.parametrize(
    "line", ["vim codex", "sh -c codex", "shim codex", "git commit -- codex", "interlock debug shim --"]
)
def test_a_name_among_the_arguments_of_another_program_is_not_taken_for_it(
    line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(identify, "foreground_argv", lambda pid: tuple(line.split()))
    assert identify.identify(builtin_profiles(), 1, BLANK) is None


@pytest.mark.parametrize("stat", [None, b"", b"7 (sh) S", b"7 (sh) S 1 2 3 4 0 6", b"7 (sh) S 1 2 3 4 99999999 6"])
def test_a_pane_of_which_the_system_does_not_tell_has_no_program_in_its_foreground(
    stat: bytes | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its process may end at any moment, and so may the one in its foreground."""
    read = linux._read

    def told(pid: int, name: str) -> bytes:
        if pid != 7:
            return read(pid, name)
        if stat is None:
            raise FileNotFoundError
        return stat

    monkeypatch.setattr(linux, "_read", told)
    assert identify.foreground_argv(7) is None
