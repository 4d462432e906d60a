"""`run --worktree` and `worktree ls|show|rm|prune` with a real server: two agents in one repository never meet."""

from __future__ import annotations

import json
import shlex
import shutil
import tomllib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import pytest

from interlock import connect
from interlock.cli.server.api import ServerRefusal
from interlock.runtime.config.sections import WorktreeSection
from interlock.server.commands.worktrees import FIRST_PORT, PORTS_EACH
from interlock.testing.scripted_agent import command, write_program
from interlock.vocabulary.errors import UsageError
from tests.agents.git.repositories import git, new_repository
from tests.any_route import any_route
from tests.bodies import Body
from tests.cli.serving import STREAM, Served, serving

EVENT: Final = "worktree_changed"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("worktrees")
    with serving(folder) as one:
        argv = command(STREAM, gates=one.folder / "gates", lifetime_seconds=300)
        write_program(one.folder / "agent", argv)
        yield one


@pytest.fixture
def root(tmp_path: Path) -> Path:
    new_repository(tmp_path / "project", a_txt="one\n", _gitignore=".env\n*.db\n")
    return tmp_path / "project"


def body_of(served: Served, root: Path, **worktree: object) -> Body:
    argv = [str(served.folder / "agent")]
    return {"agent": "scripted", "driver": "claude-stream", "argv": argv, "cwd": str(root), "worktree": worktree}


def opened(served: Served, root: Path, prompt: str = "", *, key: str = "", **worktree: object) -> Body:
    body = body_of(served, root, **worktree)
    return dict(served.api.ask("POST", "/api/tasks", {**body, "prompt": prompt} if prompt else body, key=key))


def summary_of(served: Served, task_id: object) -> Body:
    return dict(served.api.get(any_route(f"/api/tasks/{task_id}"))["summary"])


def phases(served: Served, task_id: object) -> list[str]:
    lines = [json.loads(line) for line in served.api.lines(f"/api/tasks/{task_id}/log")]
    return [line["data"]["phase"] for line in lines if line.get("type") == EVENT]


def stopped(served: Served, task_id: object) -> None:
    served.shows(str(task_id), status="COMPLETED")
    assert served.cli("stop", str(task_id)).returncode == 0


def test_two_agents_of_one_repository_work_in_folders_and_branches_of_their_own(served: Served, root: Path) -> None:
    one, two = (opened(served, root, "say hello", name=name) for name in ("left", "right"))
    trees = [Path(task["worktree"]["path"]) for task in (one, two)]
    assert len(set(trees)) == 2
    assert [git(tree, "symbolic-ref", "--short", "HEAD") for tree in trees] == ["interlock/left", "interlock/right"]
    assert len({task["worktree"]["port"] for task in (one, two)}) == 2
    for task, tree in zip((one, two), trees, strict=True):
        served.shows(str(task["task_id"]), status="COMPLETED")
        summary = summary_of(served, task["task_id"])
        assert (summary["folder"], summary["worktree"]["phase"]) == (str(tree), "created")
        assert phases(served, task["task_id"]) == ["planned", "created"]
        assert summary["worktree"]["target"] == "main"
    listed = json.loads(served.cli("worktree", "ls", "--json").stdout)["worktrees"]
    assert {str(tree) for tree in trees} <= {row["path"] for row in listed}
    assert all(str(tree) in served.cli("worktree", "ls").stdout for tree in trees)


def test_the_same_request_again_is_the_same_worktree_and_another_is_refused(served: Served, root: Path) -> None:
    first = opened(served, root, "say hello", key="ses_again", name="again")
    again = opened(served, root, "say hello", key="ses_again", name="again")
    assert (first["is_new"], again["is_new"]) == (True, False)
    assert first["worktree"] == again["worktree"]
    assert phases(served, "ses_again") == ["planned", "created"]
    for other in ({"name": "other"}, {"name": "again", "copy": [".env"]}):
        with pytest.raises(ServerRefusal) as refused:
            opened(served, root, "say hello", key="ses_again", **other)
        assert refused.value.status == 409
    with pytest.raises(ServerRefusal, match="already"):
        opened(served, root, "say hello", name="again")


def test_the_command_begins_in_a_worktree_with_what_the_configuration_says(served: Served, root: Path) -> None:
    (root / ".env").write_text("KEY=1\n")
    (root / "sub").mkdir()
    (root / "sub" / "b.txt").write_text("b\n")
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "second")
    (root / "a.txt").write_text("not committed\n")
    setup = 'echo "$INTERLOCK_BRANCH $INTERLOCK_PORT" > made.db'
    config = served.folder / "config.toml"
    config.write_text(
        f"[agents.scripted]\ndriver = 'claude-stream'\nargv = [{json.dumps(str(served.folder / 'agent'))}]\n"
        f"[worktree]\ncopy = ['.env', 'never']\ndisposable = ['made.db']\nsetup = ['sh', '-c', '{setup}']\n"
    )
    done = served.cli(
        *("run", "scripted", "say hello", "--worktree", "--title", "Fix it", "--cwd", str(root / "sub"), "--wait"),
        INTERLOCK_CONFIG=str(config),
    )
    assert done.returncode == 0, done.stderr
    assert "1 changed files" in done.stderr
    assert "never was not copied" in done.stderr
    rows = json.loads(served.cli("worktree", "ls", "--json").stdout)["worktrees"]
    (row,) = (row for row in rows if row["branch"].startswith("interlock/fix-it-"))
    tree = Path(row["path"])
    assert (tree / ".env").read_text() == "KEY=1\n"
    assert (tree / "made.db").read_text() == f"{row['branch']} {row['port']}\n"
    assert (tree / "a.txt").read_text() == "one\n"
    summary = summary_of(served, row["session_id"])
    assert summary["folder"] == str(tree / "sub")
    shown = json.loads(served.cli("worktree", "show", row["session_id"], "--json").stdout)
    assert (shown["files"]["commits"], shown["files"]["ignored"]) == (0, [".env", "made.db"])
    assert shown["files"]["unlisted"] == []
    git(tree / "sub", "init", "-q")
    assert "unlisted sub/.git" in served.cli("worktree", "show", row["session_id"]).stdout
    shutil.rmtree(tree / "sub" / ".git")
    assert row["branch"] in served.cli("worktree", "show", row["session_id"]).stdout
    stopped(served, row["session_id"])
    assert served.json("worktree", "rm", row["session_id"])["kept"]
    assert not tree.exists()


def test_links_submodules_and_a_teardown_are_as_the_configuration_says(served: Served, root: Path) -> None:
    """Trap 21 of the plan: from the command line; a teardown that fails is a warning."""
    new_repository(root.parent / "lib", l_txt="lib\n")
    git(root, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(root.parent / "lib"), "lib")
    (root / ".gitignore").write_text("*.db\ndata\n")
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "with lib")
    (root / "data").mkdir()
    marks = served.folder / "torn-down"
    config = served.folder / "links.toml"
    agent = f"[agents.scripted]\ndriver = 'claude-stream'\nargv = [{json.dumps(str(served.folder / 'agent'))}]\n"
    teardown = f'echo "$PWD $INTERLOCK_BRANCH" >> {marks}; echo no network; exit 3'
    words = json.dumps(["sh", "-c", teardown])
    config.write_text(f"{agent}[worktree]\nlink = ['data', 'never']\nsubmodules = true\nteardown = {words}\n")
    run = ("run", "scripted", "say hello", "--worktree-name", "linked", "--cwd", str(root), "--wait", "--json")
    done = served.cli(*run, INTERLOCK_CONFIG=str(config))
    assert (done.returncode, "never was not linked" in done.stderr) == (0, True), done.stderr
    task_id = str(json.loads(done.stdout)["session_id"])
    tree = Path(summary_of(served, task_id)["worktree"]["path"])
    assert ((tree / "data").readlink(), (tree / "lib" / "l.txt").read_text()) == (root / "data", "lib\n")
    stopped(served, task_id)
    (tree / "lib" / "l.txt").write_text("work\n")
    refused = served.cli("worktree", "rm", task_id)
    assert (refused.returncode, "submodule lib: it has changes: l.txt" in refused.stderr) == (2, True), refused.stderr
    assert not marks.exists()
    (tree / "lib" / "l.txt").write_text("lib\n")
    done = served.cli("worktree", "rm", task_id)
    assert (done.returncode, "the teardown command failed with 3. It said: no network" in done.stderr) == (0, True)
    assert marks.read_text() == f"{tree} interlock/linked\n"
    assert (tree.exists(), (root / "data").is_dir()) == (False, True)
    assert "teardown" in summary_of(served, task_id)["worktree"]["problem"]


def test_a_teardown_that_an_agent_could_write_is_refused(served: Served, root: Path) -> None:
    with pytest.raises(ServerRefusal, match="its agent can change"):
        opened(served, root, name="torn", teardown=["./down.sh"])
    task = opened(served, root, "say hello", name="making", teardown=["sh", "-c", "echo more > more.txt"])
    stopped(served, task["task_id"])
    refused = served.cli("worktree", "rm", str(task["task_id"]))
    assert (refused.returncode, "more.txt" in refused.stderr) == (2, True), refused.stderr
    assert (Path(task["worktree"]["path"]) / "more.txt").read_text() == "more\n"


def test_its_agent_is_told_of_its_worktree_also_by_the_next_server(tmp_path: Path) -> None:
    new_repository(tmp_path / "project")
    program = tmp_path / "agent"
    argv = shlex.join(command(STREAM, lifetime_seconds=300))
    program.write_text(f'#!/bin/sh\nenv | grep ^INTERLOCK_ > "{tmp_path}/told-$INTERLOCK_SPAWN_ID"\nexec {argv}\n')
    program.chmod(0o700)
    (tmp_path / "home").mkdir()
    with serving(tmp_path / "home") as one:
        body = {**body_of(one, tmp_path / "project", name="it"), "argv": [str(program)]}
        task: Body = one.api.ask("POST", "/api/tasks", {**body, "prompt": "say hello"})
        stopped(one, task["task_id"])
        assert one.stop() == 0
        one.start()
        assert one.cli("send", str(task["task_id"]), "say hello", "--wait").returncode == 0
        stopped(one, task["task_id"])
    tree = task["worktree"]
    told = [dict(line.split("=", 1) for line in file.read_text().splitlines()) for file in tmp_path.glob("told-*")]
    expected = {
        "INTERLOCK_WORKTREE": tree["path"],
        "INTERLOCK_REPO": str(tmp_path / "project"),
        "INTERLOCK_BRANCH": "interlock/it",
        "INTERLOCK_BASE": tree["base"],
        "INTERLOCK_PORT": str(tree["port"]),
    }
    assert len(told) == 2
    assert all({name: one[name] for name in expected} == expected for one in told)


def test_a_program_begins_in_a_worktree(served: Served, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = served.folder / "program.toml"
    config.write_text(
        f"[agents.scripted]\ndriver = 'claude-stream'\nargv = [{json.dumps(str(served.folder / 'agent'))}]\n"
    )
    monkeypatch.setenv("INTERLOCK_CONFIG", str(config))
    with connect(served.home) as client:
        turn = client.run("scripted", "say hello", cwd=root, worktree="program", base="main")
        assert turn.answer() == "hello"
        with pytest.raises(UsageError, match="blank"):
            client.run("scripted", "say hello", cwd=root, worktree="")
    tree = summary_of(served, turn.task.task_id)["worktree"]
    assert (tree["branch"], tree["target"], tree["phase"]) == ("interlock/program", "main", "created")


def test_what_cannot_be_made_opens_no_session(served: Served, root: Path, tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    before = len(served.api.get(any_route("/api/tasks"))["items"])
    for folder, asked, said in (
        (tmp_path / "plain", {}, "git init"),
        (root, {"base": "never"}, "names no commit"),
        (root, {"name": "../x"}, "cannot name"),
    ):
        with pytest.raises(ServerRefusal, match=said):
            opened(served, folder, "say hello", **asked)
    assert len(served.api.get(any_route("/api/tasks"))["items"]) == before
    done = served.cli("run", "scripted", "say hello", "--base", "main")
    assert (done.returncode, "--worktree" in done.stderr) == (2, True)
    for blank in (("--worktree-name", ""), ("--worktree", "--base", " ")):
        done = served.cli("run", "scripted", "say hello", "--cwd", str(root), *blank)
        assert (done.returncode, "is blank" in done.stderr) == (2, True)
    assert len(served.api.get(any_route("/api/tasks"))["items"]) == before


def test_a_setup_that_fails_is_told_and_no_agent_works_there(served: Served, root: Path) -> None:
    with pytest.raises(ServerRefusal, match="no network"):
        opened(served, root, "say hello", key="ses_setup", setup=["sh", "-c", "echo no network; exit 1"])
    assert phases(served, "ses_setup") == ["planned", "failed"]
    with pytest.raises(ServerRefusal, match="no network"):
        served.api.ask("POST", "/api/tasks/ses_setup/start")
    refused = served.cli("send", "ses_setup", "say hello")
    assert (refused.returncode, "no network" in refused.stderr) == (2, True)
    assert served.cli("worktree", "rm", "ses_setup").returncode == 0
    assert phases(served, "ses_setup") == ["planned", "failed", "removing", "removed"]


def test_rm_keeps_what_would_be_lost_and_says_so(served: Served, root: Path) -> None:
    task = opened(served, root, "gate go; say hello", name="lossy")
    task_id, tree = str(task["task_id"]), Path(task["worktree"]["path"])
    running = served.cli("worktree", "rm", task_id, "--force")
    assert (running.returncode, f"interlock stop {task_id}" in running.stderr) == (2, True)
    served.gates.open("go")
    stopped(served, task_id)
    (tree / "new.txt").write_text("new\n")
    (tree / "rows.db").write_text("rows\n")
    refused = served.cli("worktree", "rm", task_id)
    assert refused.returncode == 2
    assert ("new.txt" in refused.stderr, "rows.db" in refused.stderr, "--force" in refused.stderr) == (True,) * 3
    assert phases(served, task_id) == ["planned", "created"]
    done = served.json("worktree", "rm", task_id, "--force")
    assert done["is_removed"]
    assert not tree.exists()
    (attic,) = (Path(one) for one in done["kept"] if one.startswith("/"))
    assert (attic / "rows.db").read_text() == "rows\n"
    (ref,) = (one for one in done["kept"] if one.endswith("/files"))
    assert git(root, "show", f"{ref}:new.txt") == "new"
    assert served.cli("worktree", "rm", task_id).returncode == 0  # once more is once
    gone = served.cli("send", task_id, "say more")
    assert (gone.returncode, "was removed" in gone.stderr) == (2, True)


def test_what_was_set_aside_before_is_never_written_over(served: Served, root: Path) -> None:
    task = opened(served, root, "say hello", name="aside")
    task_id, tree = str(task["task_id"]), Path(task["worktree"]["path"])
    stopped(served, task_id)
    (tree / "rows.db").write_text("rows\n")
    attics = tree.parent.parent / "attic"
    older = attics / f"{tree.name}-{task_id}" / "rows.db"
    moved = attics.rename(attics.with_name("kept")) if attics.is_dir() else None
    attics.write_text("in the way")
    failed = served.cli("worktree", "rm", task_id, "--force")
    assert failed.returncode != 0
    assert (tree / "rows.db").read_text() == "rows\n"
    assert phases(served, task_id)[-2:] == ["removing", "created"]
    attics.unlink()
    if moved is not None:
        moved.rename(attics)
    older.parent.mkdir(parents=True)
    older.write_text("older\n")
    kept = served.json("worktree", "rm", task_id, "--force")["kept"]
    (attic,) = (Path(one) for one in kept if one.startswith("/"))
    assert ((attic / "rows.db").read_text(), older.read_text()) == ("rows\n", "older\n")


def test_a_worktree_that_is_gone_is_said_and_never_replaced_by_the_main_tree(served: Served, root: Path) -> None:
    """Trap 17 of the plan."""
    task = opened(served, root, "say hello", name="vanished")
    task_id = str(task["task_id"])
    stopped(served, task_id)
    shutil.rmtree(task["worktree"]["path"])
    told = served.cli("send", task_id, "say more")
    assert (told.returncode, "is gone, and not by us" in told.stderr) == (2, True)
    (row,) = (
        row
        for row in json.loads(served.cli("worktree", "ls", "--json").stdout)["worktrees"]
        if row["session_id"] == task_id
    )
    assert row["state"] == "gone"
    assert served.cli("worktree", "show", task_id).returncode == 7
    assert served.cli("worktree", "rm", task_id).returncode == 0
    assert git(root, "worktree", "list").count("\n") == 0


def test_archive_takes_a_worktree_that_holds_nothing_and_says_why_another_stays(served: Served, root: Path) -> None:
    """Trap 17 of the plan."""
    clean, kept, dirty = (opened(served, root, "say hello", name=f"archived-{at}") for at in range(3))
    trees = [Path(task["worktree"]["path"]) for task in (clean, kept, dirty)]
    git(trees[1], "commit", "-q", "--allow-empty", "-m", "work")
    head = git(trees[1], "rev-parse", "HEAD")
    (trees[2] / "a.txt").write_text("work\n")
    for task in (clean, kept, dirty):
        stopped(served, task["task_id"])
        done = served.cli("session", "archive", str(task["task_id"]), "--yes")
        assert done.returncode == 0
        assert ("its worktree stays" in done.stderr, "a.txt" in done.stderr) == (task is dirty, task is dirty)
    assert [tree.exists() for tree in trees] == [False, False, True]
    assert git(root, "rev-parse", "interlock/archived-1") == head
    assert (trees[2] / "a.txt").read_text() == "work\n"


def test_a_purge_leaves_the_worktree(served: Served, root: Path) -> None:
    """Trap 17 of the plan."""
    task = opened(served, root, "say hello", name="purged")
    tree = Path(task["worktree"]["path"])
    (tree / "a.txt").write_text("work\n")
    stopped(served, task["task_id"])
    assert served.stop() == 0
    assert served.cli("session", "purge", str(task["task_id"]), "--yes").returncode == 0
    served.start()
    assert ((tree / "a.txt").read_text(), git(tree, "symbolic-ref", "--short", "HEAD")) == (
        "work\n",
        "interlock/purged",
    )


@pytest.mark.deep
def test_twenty_sessions_at_once_get_worktrees_and_ports_of_their_own(served: Served, root: Path) -> None:
    """Trap 14 of the plan."""
    with ThreadPoolExecutor(20) as at_once:
        told = list(at_once.map(lambda at: opened(served, root, name=f"port{at}")["worktree"], range(20)))
    ports = {int(one["port"]) for one in told}
    assert len(ports) == len({one["path"] for one in told}) == 20
    assert min(ports) >= FIRST_PORT
    assert all((one - FIRST_PORT) % PORTS_EACH == 0 for one in ports)
    assert (
        sum(git(root, "branch", "--list", "interlock/port*").count(f"interlock/port{at}") > 0 for at in range(20)) == 20
    )


def test_prune_takes_only_what_is_proven(served: Served, root: Path) -> None:
    tasks = [opened(served, root, "say hello", name=name) for name in ("clean", "dirty")]
    for task in tasks:
        stopped(served, task["task_id"])
    clean, dirty = (Path(task["worktree"]["path"]) for task in tasks)
    (dirty / "a.txt").write_text("work\n")
    told = served.cli("worktree", "prune")
    assert f"{clean}  can go" in told.stdout
    assert f"{dirty}  stays" in told.stdout
    assert clean.is_dir()
    done = json.loads(served.cli("worktree", "prune", "--apply", "--json").stdout)
    rows = {row["path"]: row for row in done["worktrees"]}
    assert rows[str(clean)]["is_removed"]
    assert (rows[str(dirty)]["can_go"], "a.txt" in rows[str(dirty)]["why"]) == (False, True)
    assert (clean.exists(), (dirty / "a.txt").read_text()) == (False, "work\n")
    assert phases(served, tasks[0]["task_id"]) == ["planned", "created", "removing", "removed"]


def test_another_session_in_the_same_tree_keeps_it(served: Served, root: Path) -> None:
    """Trap 15 of the plan: a second sharer."""
    task = opened(served, root, "say hello", name="shared")
    stopped(served, task["task_id"])
    body = body_of(served, Path(task["worktree"]["path"]))
    del body["worktree"]
    other = str(served.api.ask("POST", "/api/tasks", body)["task_id"])
    refused = served.cli("worktree", "rm", str(task["task_id"]))
    assert (refused.returncode, other in refused.stderr) == (2, True)
    assert Path(task["worktree"]["path"]).is_dir()


def test_a_name_that_nobody_has_is_told(served: Served) -> None:
    for line in (("show", "never"), ("rm", "never")):
        assert served.cli("worktree", *line).returncode == 2
    plain = str(served.done("say hello"))
    refused = served.cli("worktree", "show", plain)
    assert (refused.returncode, "no worktree was made" in refused.stderr) == (2, True)
    refused = served.cli("worktree", "rm", plain)
    assert (refused.returncode, "no worktree was made" in refused.stderr) == (2, True)


def test_the_page_can_be_typed(served: Served, root: Path) -> None:
    page = Path("docs/how-to/run-agents-in-worktrees.md").read_text(encoding="utf-8")
    (settings,) = [block.partition("```")[0] for block in page.split("```toml\n")[1:]]
    assert WorktreeSection(**tomllib.loads(settings)["worktree"]).setup[0] == "npm"
    config = served.folder / "page.toml"
    config.write_text(
        f"[agents.scripted]\ndriver = 'claude-stream'\nargv = [{json.dumps(str(served.folder / 'agent'))}]\n"
    )
    (typed,) = [block.partition("```")[0] for block in page.split("```sh\n")[1:]]
    lines = [shlex.split(line, comments=True) for line in typed.splitlines()]
    assert [line[1] for line in lines][:2] == ["run", "run"]
    for program, *words in lines:
        more = ("--cwd", str(root)) if words[0] == "run" else ()
        done = served.cli(*words, *more, INTERLOCK_CONFIG=str(config))
        assert (program, done.returncode in (0, 3)) == ("interlock", True), (words, done.stdout, done.stderr)
    assert git(root, "branch", "--format=%(refname:short)").split()[-1] == "main"
