"""The installer of agent CLIs, with an npm that is ours: whole installs or none, made once, and clear words."""

from __future__ import annotations

import stat
import threading
from pathlib import Path

import pytest

from interlock.testing.lab.installs import PINNED
from interlock.vocabulary.errors import PeerFault, UsageError
from tools import agent_clis

# Stands in for npm: makes the executable, which tells the version; `broken` is a file that makes it fail half-way.
NPM = """\
#!/bin/sh
echo run >> "{log}"
for word; do folder="$word"; done
mkdir -p "$folder/node_modules/.bin"
[ -e "{broken}" ] && echo "the registry is away" && exit 7
printf '#!/bin/sh\\necho {version}\\n' > "$folder/node_modules/.bin/claude"
chmod +x "$folder/node_modules/.bin/claude"
"""


class FakeNpm:
    def __init__(self, folder: Path) -> None:
        self.folder, self.log, self.broken = folder, folder / "log", folder / "broken"
        self.tells(PINNED["claude"].version)

    def tells(self, version: str) -> None:
        script = self.folder / "npm"
        script.write_text(NPM.format(log=self.log, broken=self.broken, version=version), encoding="utf-8")
        script.chmod(script.stat().st_mode | stat.S_IXUSR)

    @property
    def runs(self) -> int:
        return self.log.read_text(encoding="utf-8").count("run") if self.log.exists() else 0


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("INTERLOCK_AGENT_CLIS", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def npm(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeNpm:
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    return FakeNpm(folder)


def left_over(cache: Path) -> set[str]:
    return {path.name for path in cache.iterdir()} - {".gitignore", "claude.lock"}


def test_an_install_is_made_once(npm: FakeNpm, cache: Path) -> None:
    first, second = agent_clis.install("claude"), agent_clis.install("claude")
    assert first == second == agent_clis.installed("claude")
    assert first.is_relative_to(cache)
    assert npm.runs == 1
    assert left_over(cache) == {PINNED["claude"].folder.name}
    assert (cache / ".gitignore").read_text(encoding="utf-8") == "*\n"


def test_who_asks_at_the_same_time_waits_for_the_one_install(npm: FakeNpm) -> None:
    asked = [threading.Thread(target=agent_clis.install, args=("claude",)) for _ in range(4)]
    for thread in asked:
        thread.start()
    for thread in asked:
        thread.join(30)
    assert agent_clis.installed("claude").exists()
    assert npm.runs == 1


def test_a_failed_install_leaves_nothing_and_can_be_repeated(npm: FakeNpm, cache: Path) -> None:
    npm.broken.touch()
    with pytest.raises(PeerFault, match=r"(?s)code 7.*the registry is away"):
        agent_clis.install("claude")
    assert left_over(cache) == set()
    npm.broken.unlink()
    assert agent_clis.install("claude").exists()


def test_a_cli_of_another_version_does_not_count(npm: FakeNpm, cache: Path) -> None:
    npm.tells("0.0.1")
    with pytest.raises(PeerFault, match=r"0\.0\.1"):
        agent_clis.install("claude")
    assert left_over(cache) == set()


def test_a_folder_that_was_left_half_done_gives_way(npm: FakeNpm) -> None:
    PINNED["claude"].folder.mkdir(parents=True)
    assert agent_clis.install("claude").exists()


def test_without_npm_the_remedy_is_named(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(cache))
    with pytest.raises(UsageError, match=r"npm is not on the PATH.*install Node"):
        agent_clis.install("claude")


def test_the_commands_print_the_executable_or_say_what_to_do(
    npm: FakeNpm, cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert agent_clis.main(["path", "claude"]) == 1
    assert "install claude" in capsys.readouterr().err
    assert agent_clis.main(["install", "claude"]) == 0
    assert agent_clis.main(["path", "claude"]) == 0
    assert capsys.readouterr().out.split() == [str(agent_clis.installed("claude"))] * 2
    assert agent_clis.main(["install", "emacs"]) == 1
    assert "choose from claude, codex" in capsys.readouterr().err
