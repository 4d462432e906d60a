"""Installing into files as people have them: links, modes, backups, and somebody else who writes at the same time."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from interlock.agents.evidence import hook_settings, settings_file
from interlock.agents.evidence.hook_settings import (
    HookedCli,
    Installation,
    hook_status,
    install_hooks,
    settings_path,
    uninstall_hooks,
)
from interlock.vocabulary.errors import UsageError
from tests.agents.evidence.test_claude_settings import BAD as BAD_JSON
from tests.agents.evidence.test_claude_settings import GOOD as GOOD_JSON
from tests.agents.evidence.test_codex_settings import BAD as BAD_TOML
from tests.agents.evidence.test_codex_settings import GOOD as GOOD_TOML

CLAUDE, CODEX = HookedCli.CLAUDE, HookedCli.CODEX
GOOD = [(CLAUDE, data) for data in GOOD_JSON.values()] + [(CODEX, data) for data in GOOD_TOML.values()]
BAD = [(CLAUDE, data) for data in BAD_JSON.values()] + [(CODEX, data) for data in BAD_TOML.values()]


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize(("cli", "before"), GOOD)
def test_uninstalling_restores_every_byte_and_leaves_nothing_behind(
    cli: HookedCli, before: bytes, tmp_path: Path
) -> None:
    path = settings_path(cli, tmp_path)
    path.write_bytes(before)
    path.chmod(0o640)
    installed = install_hooks(cli, path)
    assert (installed.installation, installed.has_changed) == (Installation.INSTALLED, True)
    assert installed.backup is not None
    assert installed.backup.read_bytes() == before
    assert {stat.S_IMODE(file.stat().st_mode) for file in (path, installed.backup)} == {0o640}
    assert install_hooks(cli, path).has_changed is False
    gone = uninstall_hooks(cli, path)
    assert (gone.installation, gone.has_changed) == (Installation.ABSENT, True)
    assert (path.read_bytes(), names(tmp_path)) == (before, [path.name])
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert uninstall_hooks(cli, path).has_changed is False


@pytest.mark.parametrize(("cli", "data"), BAD)
def test_a_malformed_file_is_refused_by_name_and_nothing_is_touched(
    cli: HookedCli, data: bytes, tmp_path: Path
) -> None:
    path = settings_path(cli, tmp_path)
    path.write_bytes(data)
    before = path.stat()
    with pytest.raises(UsageError, match=path.name):
        install_hooks(cli, path)
    after = path.stat()
    assert (path.read_bytes(), names(tmp_path)) == (data, [path.name])
    assert (after.st_ino, after.st_mode, after.st_mtime_ns) == (before.st_ino, before.st_mode, before.st_mtime_ns)


@pytest.mark.parametrize("cli", HookedCli)
def test_a_file_that_was_not_there_is_made_for_its_owner_and_removed_again(cli: HookedCli, tmp_path: Path) -> None:
    path = settings_path(cli, tmp_path / "new")
    assert install_hooks(cli, path).backup is None
    assert (stat.S_IMODE(path.stat().st_mode), stat.S_IMODE(path.parent.stat().st_mode)) == (0o600, 0o700)
    uninstall_hooks(cli, path)
    assert names(path.parent) == []


def test_a_symlink_stays_one(tmp_path: Path) -> None:
    target = tmp_path / "dotfiles" / "claude.json"
    target.parent.mkdir()
    target.write_bytes(b'{"model": "opus"}')
    link = tmp_path / "settings.json"
    link.symlink_to(target)
    status = install_hooks(CLAUDE, link)
    assert (link.is_symlink(), status.file) == (True, target)
    assert hook_status(CLAUDE, link).installation is Installation.INSTALLED
    uninstall_hooks(CLAUDE, link)
    assert (link.is_symlink(), target.read_bytes(), names(target.parent)) == (True, b'{"model": "opus"}', [target.name])


def test_what_is_no_plain_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "settings.json").mkdir()
    os.mkfifo(tmp_path / "config.toml")
    for cli in HookedCli:
        with pytest.raises(UsageError, match="not a plain file"):
            install_hooks(cli, settings_path(cli, tmp_path))
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    with pytest.raises(UsageError):
        install_hooks(CLAUDE, loop)


def test_a_read_only_file_stays_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    path.write_bytes(b"{}")
    path.chmod(0o444)
    with pytest.raises(UsageError, match="read-only"):
        install_hooks(CLAUDE, path)
    assert (path.read_bytes(), names(tmp_path)) == (b"{}", [path.name])


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_root_does_not_take_a_users_settings_away(tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    path.write_bytes(b"{}")
    os.chown(path, 12345, 12345)
    backup = install_hooks(CLAUDE, path).backup
    assert backup is not None
    assert {(one.stat().st_uid, one.stat().st_gid) for one in (path, backup)} == {(12345, 12345)}


def test_a_huge_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    path.write_bytes(b'{"a": "' + b"x" * settings_file.MAX_SETTINGS_BYTES + b'"}')
    with pytest.raises(UsageError, match="larger"):
        hook_status(CLAUDE, path)


@pytest.mark.parametrize("act", [install_hooks, uninstall_hooks])
def test_an_edit_at_the_same_moment_is_never_overwritten(
    act: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "settings.json"
    path.write_bytes(b'{"a": 1}')
    if act is uninstall_hooks:
        install_hooks(CLAUDE, path)
    write = settings_file.write_settings

    def edited_meanwhile(file: settings_file.SettingsFile, data: bytes | None) -> None:
        path.write_bytes(b'{"a": 2}')
        write(file, data)

    monkeypatch.setattr(hook_settings, "write_settings", edited_meanwhile)
    with pytest.raises(UsageError, match="somebody else changed"):
        act(CLAUDE, path)  # type: ignore[operator]
    assert path.read_bytes() == b'{"a": 2}'
    assert [name for name in names(tmp_path) if name.startswith(".")] == []


def test_what_is_half_written_is_hidden_and_named_after_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, seen = tmp_path / "settings.json", []
    path.write_bytes(b'{"a": 1}')
    rename = Path.rename

    def watched(self: Path, target: Path) -> Path:
        seen.append(self.name)
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", watched)
    install_hooks(CLAUDE, path)
    assert len(seen) == 2, "the backup and the file"
    assert all(name.startswith(".settings.json.") for name in seen)


def test_an_edit_after_the_installation_is_kept_and_the_backup_too(tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    path.write_bytes(b'{\n  "a": 1\n}\n')
    install_hooks(CLAUDE, path)
    path.write_bytes(path.read_bytes().replace(b'"a": 1', b'"a": 2'))
    status = uninstall_hooks(CLAUDE, path)
    assert path.read_bytes() == b'{\n  "a": 2\n}\n'
    assert status.backup is not None
    assert status.backup.read_bytes() == b'{\n  "a": 1\n}\n'


def test_a_backup_that_somebody_broke_is_left_alone_and_the_hooks_go(tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    path.write_bytes(b'{\n  "a": 1\n}\n')
    backup = install_hooks(CLAUDE, path).backup
    assert backup is not None
    backup.write_bytes(b"no settings")
    assert uninstall_hooks(CLAUDE, path).installation is Installation.ABSENT
    assert (path.read_bytes(), backup.read_bytes()) == (b'{\n  "a": 1\n}\n', b"no settings")


def test_an_update_keeps_the_backup_from_before_us(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "settings.json"
    path.write_bytes(b'{"a": 1}')
    with monkeypatch.context() as older:
        older.setattr(hook_settings, "hook_command", lambda cli: f"/old/python {cli} || : interlock-hook")
        install_hooks(CLAUDE, path)
    assert hook_status(CLAUDE, path).installation is Installation.OUTDATED
    status = install_hooks(CLAUDE, path)
    assert (status.installation, status.backup and status.backup.read_bytes()) == (Installation.INSTALLED, b'{"a": 1}')
    uninstall_hooks(CLAUDE, path)
    assert (path.read_bytes(), names(tmp_path)) == (b'{"a": 1}', [path.name])


def test_the_folder_is_the_one_that_the_agent_itself_would_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert settings_path(CLAUDE, None, {}) == tmp_path / ".claude" / "settings.json"
    assert settings_path(CODEX, None, {"CODEX_HOME": "/c"}) == Path("/c/config.toml")
    assert settings_path(CLAUDE, None, {"CLAUDE_CONFIG_DIR": "/d"}) == Path("/d/settings.json")
    assert settings_path(CLAUDE, Path("/e"), {"CLAUDE_CONFIG_DIR": "/d"}) == Path("/e/settings.json")
