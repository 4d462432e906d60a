"""What holds for every test: Hypothesis profiles, no network, and a state folder of its own."""

from __future__ import annotations

import gc
import importlib
import os
import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

import pytest
from hypothesis import HealthCheck, settings

# No deadline for a single example: a loaded machine is no reason to fail. pytest-timeout bounds the test as a whole.
# A gate answers the same way each time it is asked: in the first two nothing is left to chance. `search` looks where
# nobody has looked: run it before a change is handed in (`HYPOTHESIS_PROFILE=search make test-deep`), and keep what it
# finds as a test of its own.
settings.register_profile("quick", max_examples=20, deadline=None, derandomize=True, print_blob=True)
settings.register_profile(
    "thorough",
    max_examples=400,
    deadline=None,
    derandomize=True,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("search", settings.get_profile("thorough"), max_examples=1500, derandomize=False)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))

# Bytecode is kept in `__pycache__`, also where the environment forbids it, as many containers do. Without it each
# worker rewrites the assertions of every test file anew, and each process that a test starts compiles what it imports.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# Twelve thousand collected tests are a million objects that stay: to traverse them again and again while they are made
# was a quarter of each worker's collection. `pytest_collection_finish` turns the collector on again, and spares them.
gc.disable()

_LOCAL: Final = ("127.", "::1", "localhost")
_may_use_network = False

# A job in the background of a script, or under `nohup`, ignores these, and would hand that on to all that tests start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
for _ignored in (signal.SIGQUIT, signal.SIGHUP):
    if signal.getsignal(_ignored) is signal.SIG_IGN:
        signal.signal(_ignored, signal.SIG_DFL)


@pytest.fixture(autouse=True, scope="session")
def state_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Keep every test, and every process it starts, away from the state of the person who runs it."""
    home = tmp_path_factory.mktemp("interlock-home")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("INTERLOCK_HOME", str(home))
        for name in ("FORCE_COLOR", "NO_COLOR", "TTY_COMPATIBLE", "PYTHONIOENCODING", "PYTHONUNBUFFERED"):
            patch.delenv(name, raising=False)
        yield home


@pytest.fixture(autouse=True, scope="session")
def _no_network() -> Iterator[None]:
    """Refuse to connect to another machine, so that a test cannot come to need one. Tests marked `real` may."""
    connect = socket.socket.connect

    def guarded(self: socket.socket, address: object) -> None:
        host = address[0] if isinstance(address, tuple) else ""
        if host and not _may_use_network and not str(host).startswith(_LOCAL):
            raise AssertionError(f"a test tried to connect to {host!r}; only `make test-real` may use the network")
        connect(self, address)  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket.socket, "connect", guarded)
        yield


def pytest_runtest_setup(item: pytest.Item) -> None:
    global _may_use_network
    _may_use_network = item.get_closest_marker("real") is not None


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    """Import the test modules in an order of its own in each worker. To rewrite the assertions of all of them takes 20
    seconds, once; in one and the same order each worker would do all of that, beside the others."""
    worker = getattr(session.config, "workerinput", None)
    if worker is None:
        return
    root, number, count = session.config.rootpath, int(worker["workerid"].removeprefix("gw")), worker["workercount"]
    asked = [root / argument.partition("::")[0] for argument in session.config.args]
    files = sorted(file for path in asked for file in ([path] if path.is_file() else path.rglob("test_*.py")))
    for at in range(len(files)):
        file = files[(at + number * len(files) // count) % len(files)]
        with suppress(Exception):  # collection imports it again, and says what is wrong with it
            importlib.import_module(".".join(file.relative_to(root).with_suffix("").parts))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what Hypothesis drives, so that `make test-deep` can run it again with many more examples."""
    for item in items:
        if getattr(getattr(item, "obj", None), "is_hypothesis_test", False):
            item.add_marker(pytest.mark.properties)


def pytest_collection_finish() -> None:
    """Collect garbage from here on, and never look at what was collected or imported before."""
    gc.freeze()
    gc.enable()


def pytest_report_header() -> str:
    profile = settings.get_current_profile_name()
    return f"hypothesis profile {profile}: {settings().max_examples} examples a property"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say how much was walked: tests of exhaustive walks record it as `explored`."""
    reports = (report for group in terminalreporter.stats.values() for report in group)
    told = {
        str(text) for report in reports for name, text in getattr(report, "user_properties", []) if name == "explored"
    }
    if told:
        terminalreporter.section("machines explored")
        terminalreporter.write_line("\n".join(sorted(told)))
