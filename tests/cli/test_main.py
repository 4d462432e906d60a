"""Every way out of `main`: the right number, the answer on stdout, all else on stderr."""

from __future__ import annotations

import re
import subprocess
from typing import Literal

import pytest

from interlock.cli.commands import COMMANDS, FAMILIES, GROUPS
from interlock.cli.exit_codes import ExitCode, exit_code_for
from interlock.cli.setup.completion import completion_script
from interlock.vocabulary.errors import ContractError, MalformedEvent, PeerFault, Unreachable, UsageError
from tests.cli.harness import COMMAND, FULL_DEVICE, cold, interlock, python
from tests.each_row import each_row
from tools.commands_page import help_of

ERRORS = [
    (UsageError("no", remedy="try yes"), ExitCode.USAGE),
    (Unreachable("the server is away"), ExitCode.UNREACHABLE),
    (ContractError("we broke it"), ExitCode.FAILED),
    (PeerFault("they broke it"), ExitCode.FAILED),
    (MalformedEvent("not JSON", line=3), ExitCode.DAMAGED_LOG),
    (KeyboardInterrupt(), ExitCode.INTERRUPTED),
    (OSError("disk"), ExitCode.FAILED),
]

# A command that exists in no release: it lets a fault happen inside a real process.
RAISES = """
import sys
from interlock.cli import main
from interlock.cli.app import app
from interlock.vocabulary import errors
def fault() -> None:
    raise {error}
app.command(fault)
sys.exit(main(["fault"]))
"""


def test_the_exit_codes_are_the_published_table() -> None:
    assert [(code.value, code.name.lower()) for code in ExitCode] == [
        (0, "completed"),
        (1, "failed"),
        (2, "usage"),
        (3, "partial"),
        (4, "interrupted"),
        (5, "timed_out"),
        (6, "blocked"),
        (7, "unknown"),
        (8, "unreachable"),
        (9, "damaged_log"),
        (10, "starting"),
        (11, "no_agent"),
    ]
    assert all(code.meaning for code in ExitCode)


@each_row(("error", "code"), ERRORS, ids=lambda value: type(value).__name__)
def test_each_error_has_its_code(error: BaseException, code: ExitCode) -> None:
    assert exit_code_for(error) is code


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        ("errors.UsageError('no agent', remedy='name one')", 2, "interlock: no agent; name one\n"),
        ("errors.Unreachable('no server')", 8, "interlock: no server\n"),
        ("errors.ContractError('done is done')", 1, "interlock: done is done\n"),
        ("errors.MalformedEvent('no object', line=3)", 9, "interlock: line 3: $: no object\n"),
        ("errors.PeerFault('\\x1b[31mred')", 1, "interlock: \\x1b[31mred\n"),
        ("KeyboardInterrupt", 4, "interlock: interrupted\n"),
    ],
)
def test_an_error_becomes_an_exit_code_and_a_line_on_stderr(error: str, code: int, said: str) -> None:
    done = python(RAISES.format(error=error))
    assert (done.returncode, done.stdout, done.stderr) == (code, "", said)


def test_ctrl_c_exits_with_interrupted() -> None:
    code = "import signal, sys\nfrom interlock.cli import main\nfrom interlock.cli.app import app\n"
    code += (
        "def waits() -> None:\n    signal.raise_signal(signal.SIGINT)\napp.command(waits)\nsys.exit(main(['waits']))"
    )
    done = python(code)
    assert (done.returncode, done.stdout, done.stderr) == (4, "", "interlock: interrupted\n")


def test_the_value_that_a_command_returns_is_its_exit_code() -> None:
    code = "import sys\nfrom interlock.cli import main\nfrom interlock.cli.app import app\n"
    code += "def blocked() -> int:\n    return 6\napp.command(blocked)\nsys.exit(main(['blocked']))"
    assert python(code).returncode == 6


@pytest.mark.parametrize("args", [("--help",), ("-h",)])
def test_both_spellings_of_help_print_the_first_page(args: tuple[str, ...]) -> None:
    done = cold(*args)
    assert done.returncode == 0
    assert done.stderr == ""
    assert done.stdout.startswith("Usage: interlock COMMAND\n")
    assert "Examples:" in done.stdout


def test_each_command_stands_on_the_first_page_once_or_in_its_family() -> None:
    names = [name for _, group in GROUPS for name in group.split()]
    assert sorted(names) == sorted({*FAMILIES, *(one.name for one in COMMANDS if " " not in one.name)})
    assert {one.name.split()[0] for one in COMMANDS if " " in one.name} == set(FAMILIES)
    members = [one.name.split()[1] for one in COMMANDS if " " in one.name]
    page = cold("--help").stdout
    assert [name for name in (*names, *members) if not re.search(rf"\b{name}\b", page)] == []
    assert [line for line in page.splitlines() if len(line) > 80] == []


def test_a_name_of_the_last_release_still_works_and_is_shown_nowhere() -> None:
    renamed = {one.alias: one for one in COMMANDS if one.alias}
    assert renamed["turns"].name == "debug turns"
    assert set(renamed) & {one.name for one in COMMANDS} == set()
    page = cold("--help").stdout
    assert [alias for alias in renamed if re.search(rf"^  {alias} ", page, re.MULTILINE)] == []
    assert not re.search(r"^  (hold|go) ", interlock("queue", "--help").stdout, re.MULTILINE)
    for alias, command in renamed.items():
        assert help_of(alias).splitlines()[2] == command.help


@each_row("command", ["run", "send", "hooks", "debug score", "session purge"])
def test_a_help_page_fits_its_terminal_and_says_no_default_that_goes_without_saying(command: str) -> None:
    page = interlock(*command.split(), "--help").stdout
    assert [line for line in page.splitlines() if len(line.rstrip()) > 80] == []
    assert "[default: False]" not in page
    options = page.partition("Parameters:\n")[2].partition("\n\n")[0].splitlines()
    column = next(len(line) - len(line[2:].partition("  ")[2].lstrip()) for line in options if line.startswith("  --"))
    assert [line for line in options if line[:column].strip() and not re.match("  [-A-Z]", line)] == []


@pytest.mark.parametrize("command", ["machines", "completion", "version"])
def test_each_command_has_help_without_colours(command: str) -> None:
    done = interlock(command, "--help")
    assert done.returncode == 0
    assert done.stdout.startswith(f"Usage: interlock {command}")
    assert "\x1b" not in done.stdout


@each_row(
    ("args", "said", "where"),
    [
        (("aprove",), 'Did you mean "approve"?', "interlock"),
        (("debug", "machnes"), 'Did you mean "machines"?', "interlock debug"),
        (("debug", "machines", "--jsn"), "--jsn", "interlock debug machines"),
        (("debug", "machines", "run", "too", "many"), "too", "interlock debug machines"),
        (("completion", "dos"), "bash", "interlock completion"),
        (("queue", "ls"), "SESSION", "interlock queue ls"),
        (("\x1b[31mred",), "\\x1b[31mred", "interlock"),
    ],
)
def test_a_wrong_command_line_exits_2_and_says_why_on_stderr(args: tuple[str, ...], said: str, where: str) -> None:
    done = interlock(*args)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert done.stderr.endswith(f"Try: {where} --help\n")
    assert "\x1b" not in done.stderr


@pytest.mark.parametrize("args", [("--version",), ("version",)])
def test_version(args: tuple[str, ...]) -> None:
    done = cold(*args)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("interlock ")


@pytest.mark.parametrize("shell", ["bash", "fish", "zsh"])
def test_a_completion_script_is_printed_as_it_was_made(shell: Literal["bash", "fish", "zsh"]) -> None:
    done = interlock("completion", shell)
    assert (done.returncode, done.stdout) == (0, completion_script(shell) + "\n")
    assert "machines" in done.stdout


def test_a_reader_that_leaves_early_is_no_reason_for_a_traceback() -> None:
    with subprocess.Popen(
        (*COMMAND, "machines", "--json"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8"
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        # Closed before anything is written: the process is still starting, so its first write finds no reader.
        process.stdout.close()
        said = process.stderr.read()
    assert (process.returncode, said) == (1, "")


@pytest.mark.skipif(not FULL_DEVICE.exists(), reason="this system has no /dev/full")
def test_an_answer_that_cannot_be_written_is_a_failure() -> None:
    with FULL_DEVICE.open("w") as full:
        done = subprocess.run(
            (*COMMAND, "machines"), stdout=full, stderr=subprocess.PIPE, encoding="utf-8", check=False
        )
    assert done.returncode == 1
    assert done.stderr.startswith("interlock: ")
    assert "Traceback" not in done.stderr
