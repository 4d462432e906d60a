"""What the agents of the pictures do: scripted ones, a scene for each way in which a session can stand."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from tests.bodies import Body

STREAM: Final = "claude-stream"
TERMINAL: Final = "terminal"
APPROVAL: Final = "clean the build"
QUESTION: Final = "release notes"
AT_TERMINAL: Final = "move to the new API"
LONG: Final = "audit the log store"
CRASHED: Final = "bisect the leak"


@dataclass(frozen=True)
class Scene:
    """One session of the picture: what its agent does, what a person asks of it, and how it shall stand in the end."""

    title: str
    agent: str
    prompts: Sequence[str]
    script: Sequence[str]
    is_there: Callable[[Body], bool]
    policy: Mapping[str, float] = field(default_factory=dict)
    is_interrupted: bool = False
    driver: str = STREAM


def _attention(word: str) -> Callable[[Body], bool]:
    return lambda task: (task.get("live") or {}).get("attention", "none") == word


def _status(word: str) -> Callable[[Body], bool]:
    return lambda task: task.get("task_status") == word


def _activity(word: str) -> Callable[[Body], bool]:
    return lambda task: (task.get("live") or {}).get("activity") == word


SCENES: Final = (
    Scene(
        "old client",
        "claude",
        ["Which of our examples still use the old client?"],
        [
            "say Two of them: `examples/fleet.py` and `examples/embed.py`. Both import it for its types only.;"
            " usage 5120 96"
        ],
        _status("COMPLETED"),
        {"idle_ttl_seconds": 900.0},
    ),
    Scene(
        "upgrade the parser",
        "gemini",
        ["Upgrade the parser to the new grammar"],
        ["say The grammar of the tests is done, the one of the docs; fail the provider is overloaded"],
        _status("FAILED"),
    ),
    Scene(
        "spike: async writer",
        "codex",
        ["Try the writer with asyncio, and measure it"],
        ["say It is 12 % faster with 64 writers, but; hang"],
        _status("CANCELLED"),
        is_interrupted=True,
    ),
    Scene(
        LONG,
        "claude",
        ["Read the log store and tell me where it can lose something"],
        [
            "; ".join(
                f'call Read {{"path": "src/log/part_{at}.py"}} -> {90 + 7 * at} lines; say Part {at} keeps its'
                f" promise: every record is in the file before its number is given out, and a reader that comes"
                f" later than the writer sees either the whole record or nothing of it. 日本語 names are kept as"
                f" they are."
                for at in range(1, 9)
            )
        ],
        _status("COMPLETED"),
        {"idle_ttl_seconds": 900.0},
    ),
    Scene(
        AT_TERMINAL,
        "codex",
        ["Move the callers of the old API to the new one"],
        [
            'call Bash {"command": "rg -l old_api src"} -> 14 files; say 14 files use it. I begin with the ones that'
            " have tests.; "
            'call Edit {"path": "src/client.py"} -> 6 lines; call Edit {"path": "src/server.py"} -> 11 lines; '
            'call Edit {"path": "src/shell.py"} -> 4 lines; call Bash {"command": "pytest -q tests/test_client.py"} ->'
            " 61 passed; say The first three are moved, and their tests pass. The next one takes a callback where the"
            ' old one took a flag: I look at its callers first.; call Bash {"command": "rg -n on_change src"} -> 9 hits'
            '; call Read {"path": "src/board.py"} -> 337 lines; call Edit {"path": "src/board.py"} -> 18 lines; '
            'call Bash {"command": "pytest -q tests/test_board.py"} -> 1 failed; say One test counts calls of the old'
            " flag. It has to say what it means now.; hang"
        ],
        _activity("working"),
        driver=TERMINAL,
    ),
    Scene(
        "port to 3.13",
        "codex",
        ["Run the suite on Python 3.13 and mend what breaks"],
        ["say Waiting for the container; hang"],
        _activity("stalled"),
        {"stall_after_seconds": 1.0},
    ),
    Scene(
        "flaky test",
        "qwen",
        ["Find out why test_reconnect fails one time in fifty", "Then write down what you found"],
        [
            'call Bash {"command": "pytest -q --count 50 tests/test_reconnect.py"} -> 1 failed; '
            'call Read {"path": "src/reconnect.py"} -> 212 lines; '
            "say It fails when the socket closes between the check and the join: the answer to the check is then older"
            " than the; hang"
        ],
        lambda task: _activity("working")(task) and bool(task.get("queued")),
    ),
    Scene(
        QUESTION,
        "claude",
        ["Write the release notes since the last tag"],
        ["say 41 commits, three of them break something.; ask Which version will this be? | 2.0.0 | 1.9.0 | 1.8.4"],
        _attention("question"),
    ),
    Scene(
        APPROVAL,
        "claude",
        ["The build folder is stale. Clean it, and build again."],
        [
            'call Bash {"command": "git status --short"} -> nothing to commit; '
            "say The build folder holds objects of two compilers. I will remove it and build from scratch.; "
            'request Bash {"command": "rm -rf build && cmake -B build -G Ninja && ninja -C build"} -> ok'
        ],
        _attention("approval"),
    ),
)
# For the screens to be looked at, and not for those of the docs.
CRASH: Final = Scene(
    CRASHED,
    "claude",
    ["Bisect the leak of descriptors"],
    ["say It begins between the tags 1.4 and; crash"],
    lambda task: _status("FAILED")(task) and bool(task.get("crashed_at")),
)
