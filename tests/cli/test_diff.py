"""Which turn changed which file, by `interlock diff` and `interlock blame`, with a real server and agents."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from interlock.runtime.config.sections import WorkspaceSection
from interlock.testing.scripted_agent import command, write_program
from tests.agents.git.repositories import git, new_repository
from tests.bodies import Body
from tests.cli.serving import STREAM, Served, serving, until

CLEARLY_NS: Final = 100_000_000


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("diff")) as one:
        yield one


def edges(served: Served, task_id: str) -> list[Body]:
    lines = [json.loads(line) for line in served.api.lines(f"/api/tasks/{task_id}/log")]
    return [line["data"] for line in lines if line.get("type") == "workspace_changed"]


def seen(served: Served, task_id: str, count: int) -> list[Body]:
    """The trees that are recorded, once there are so many."""

    def look() -> list[Body] | None:
        found = edges(served, task_id)
        return found if len(found) >= count else None

    return until(look, f"{count} trees are recorded")


def begin(served: Served, folder: Path, prompt: str, title: str = "") -> str:
    rest(folder)
    argv = command(STREAM, gates=served.folder / "gates", lifetime_seconds=300)
    program = write_program(served.folder / f"agent-{folder.name}", argv)
    body: Body = {"agent": "scripted", "driver": "claude-stream", "argv": [program], "cwd": str(folder), "title": title}
    return str(served.api.ask("POST", "/api/tasks", {**body, "prompt": prompt})["task_id"])


def rest(root: Path) -> None:
    """Wait until the last change lies clearly before whatever edge comes next: one right before an edge is in doubt."""
    newest = max(one.lstat().st_ctime_ns for one in (root, *root.rglob("*")))
    until(lambda: time.time_ns() > newest + CLEARLY_NS or None, "the clock has gone on")


def finish(served: Served, root: Path, task_id: str, gate: str, count: int) -> list[Body]:
    """Let the turn end that waits at a gate, and wait until its end is recorded."""
    rest(root)
    served.gates.open(gate)
    found = seen(served, task_id, count)
    served.shows(task_id, status="COMPLETED")
    return found


def test_a_turn_shows_what_it_did_and_nothing_else(served: Served, tmp_path: Path) -> None:
    root = tmp_path / "project"
    new_repository(root, a_txt="one\n", b_txt="two\n", _gitignore="*.log\n")
    index = (root / ".git" / "index").read_bytes()
    task_id = begin(served, root, "gate first; say hello")
    (start,) = seen(served, task_id, 1)
    (root / "a.txt").write_text("one\nmore\n")
    (root / "new.txt").write_text("new\n")
    (root / "b.txt").unlink()
    (root / "noise.log").write_text("ignored\n")
    end = finish(served, root, task_id, "first", 2)[1]
    assert (start["phase"], end["phase"], end["base"]) == ("start", "end", start["tree"])
    assert [(one["path"], one["change"]) for one in end["files"]] == [("a.txt", "M"), ("b.txt", "D"), ("new.txt", "A")]
    assert (end["added"], end["removed"], end.get("late", [])) == (2, 1, [])
    assert (root / ".git" / "index").read_bytes() == index
    (root / "a.txt").write_text("by a person\n")  # between the turns
    rest(root)
    served.send(task_id, "gate second; say again")
    seen(served, task_id, 3)
    (root / "new.txt").write_text("newer\n")
    finish(served, root, task_id, "second", 4)

    one = served.cli("diff", task_id, "--turn", "1", "--stat")
    assert one.returncode == 0, one.stdout
    assert "3 files +2 -1" in one.stdout
    assert "noise.log" not in one.stdout
    lines = served.cli("diff", task_id, "--turn", "1").stdout.splitlines()
    assert {"+more", "+new", "-two"} <= set(lines)
    both = json.loads(served.cli("diff", task_id, "--json").stdout)["turns"]
    assert [[file["path"] for file in turn["files"]] for turn in both] == [["a.txt", "b.txt", "new.txt"], ["new.txt"]]
    assert [[file["path"] for file in turn["between"]] for turn in both] == [[], ["a.txt"]]
    assert [turn["tree_after"] for turn in both] == [one["tree"] for one in edges(served, task_id)[1::2]]
    assert served.cli("diff", task_id, "--turn", "3").returncode == 2

    turns = [turn["turn_id"] for turn in both]
    told = {name: served.json("blame", str(root / name)) for name in ("a.txt", "b.txt", "new.txt")}
    assert [told[name]["last"]["turn_id"] for name in told] == [None, turns[0], turns[1]]
    assert [told[name]["last"]["change"] for name in told] == ["changed", "deleted", "changed"]
    assert not any(one["changed_since"] for one in told.values())
    (root / "new.txt").write_text("newest, and by nobody\n")
    assert "changed since" in served.cli("blame", str(root / "new.txt")).stdout
    assert served.cli("blame", str(root / "never.txt")).returncode == 7

    assert served.cli("diff", task_id, "--verify", "--turn", "1").returncode == 0
    lost = git(root, "rev-parse", f"{end['tree']}:a.txt")
    (root / ".git" / "objects" / lost[:2] / lost[2:]).unlink()
    damaged = served.cli("diff", task_id, "--verify", "--turn", "1", "--stat")
    assert damaged.returncode == 1
    assert "the tree at its end" in damaged.stdout + damaged.stderr
    shutil.rmtree(root / ".git")
    gone = served.cli("diff", task_id)
    assert (gone.returncode, "no repository" in gone.stdout) == (7, True)


def test_a_session_outside_of_a_repository_has_no_trees_and_it_is_said(served: Served, tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    task_id = begin(served, tmp_path / "plain", "say hello")
    served.shows(task_id, status="COMPLETED")
    done = served.cli("diff", task_id)
    assert (done.returncode, done.stdout) == (7, "")
    assert "folder without git" in done.stderr
    assert edges(served, task_id) == []
    assert served.cli("blame", str(tmp_path / "plain" / "x")).returncode == 7


def changed_without_git(served: Served, root: Path, at: int) -> tuple[str, Body]:
    """A session in a folder without git whose turn changes three files, and what is recorded of it."""
    for name in ("a.txt", "b.txt", "sub/c.txt"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("one\n")
    task_id = begin(served, root, f"gate work{at}; say hello")
    until(lambda: served.task(task_id)["summary"]["task_status"] == "RUNNING" or None, "the turn began")
    rest(root)
    (root / "a.txt").write_text("two\n")
    (root / "b.txt").unlink()
    (root / "sub" / "new.txt").write_text("new\n")
    (told,) = finish(served, root, task_id, f"work{at}", 1)
    named = {*(one["path"] for one in told.get("files", ())), *told.get("late", ())}
    assert {"a.txt", "sub/new.txt"} <= named
    assert named & {"b.txt", "./"}
    return task_id, told


def test_a_turn_in_a_folder_without_git_tells_what_it_changed_by_hashes(served: Served, tmp_path: Path) -> None:
    # The look at a start is made beside the turn: what changes before it is told as late, and then this says less.
    tries = ((tmp_path / f"plain{at}", at) for at in range(10))
    found = ((root, *changed_without_git(served, root, at)) for root, at in tries)
    root, task_id, told = next(one for one in found if not one[2].get("late"))
    assert (told["kind"], told["phase"], told["file_count"], told.get("tree", "")) == ("manifest", "end", 3, "")
    assert told["base"] != told["manifest"]
    served.send(task_id, "say again")
    until(lambda: served.task(task_id)["turns"] == 2 or None, "another turn")
    served.shows(task_id, status="COMPLETED")
    done = served.cli("diff", task_id, "--stat")
    assert [line.split() for line in done.stdout.splitlines() if line.startswith("  ")] == [
        ["changed", "a.txt"], ["deleted", "b.txt"], ["new", "sub/new.txt"],
    ]  # fmt: skip
    assert "3 files" in done.stdout
    assert "only hashes were kept" in served.cli("diff", task_id, "--turn", "1").stdout
    blamed = json.loads(served.cli("blame", str(root / "a.txt"), "--json").stdout)
    last = blamed["last"]
    assert (last["session_id"], last["change"], blamed["changed_since"]) == (task_id, "changed", False)
    (root / "a.txt").write_text("three\n")
    assert "changed since" in served.cli("blame", str(root / "a.txt")).stdout
    assert served.cli("blame", str(root / "sub" / "c.txt")).returncode == 7
    assert served.task(task_id)["summary"]["changes"]["files"] == 3
    refused = served.cli("review", "discard", task_id, "b.txt", "--turn", "1")
    assert (refused.returncode, "not kept" in refused.stderr) == (2, True)
    assert served.cli("review", "accept", task_id, "a.txt", "--turn", "1").returncode == 0


def test_a_repository_that_cannot_be_looked_at_is_recorded_as_unknown(served: Served, tmp_path: Path) -> None:
    root = tmp_path / "odd"
    new_repository(root)
    git(root, "config", "core.worktree", str(tmp_path))
    task_id = begin(served, root, "say hello")
    recorded = seen(served, task_id, 2)
    assert all("another work tree" in one["problem"] and "tree" not in one for one in recorded)
    done = served.cli("diff", task_id)
    assert done.returncode == 7
    assert "unknown: no tree at its start" in done.stdout


def test_two_agents_in_one_tree_are_in_doubt(served: Served, tmp_path: Path) -> None:
    root = tmp_path / "shared"
    new_repository(root)
    one = begin(served, root, "gate one; say hello")
    seen(served, one, 1)
    other = begin(served, root, "gate other; say hello")
    assert seen(served, other, 1)[0]["shared_with"] == [one]
    (root / "a.txt").write_text("by one of them\n")
    assert finish(served, root, one, "one", 2)[1]["shared_with"] == [other]
    done = served.cli("diff", one)
    assert done.returncode == 3
    assert f"in doubt: session {other} had a turn in the same work tree" in done.stdout
    finish(served, root, other, "other", 2)


def test_what_changes_in_the_main_checkout_meanwhile_is_told_and_not_blamed(served: Served, tmp_path: Path) -> None:
    """Trap 18 of the plan: an agent writes into the main checkout by an absolute path."""
    root, linked = tmp_path / "main", tmp_path / "linked"
    new_repository(root, a_txt="one\n", b_txt="two\n", c_txt="three\n", _gitignore="*.log\n")
    git(root, "worktree", "add", "-q", str(linked))
    rest(root)
    task_id = begin(served, linked, "gate escape; say hello")
    assert "main_root" not in seen(served, task_id, 1)[0]
    (linked / "a.txt").write_text("by the turn\n")
    for name in ("a.txt", "new.txt", "noise.log"):
        (root / name).write_text("by its absolute path\n")
    (root / "b.txt").unlink()
    os.utime(root / "c.txt")  # its times are new, and its content is not
    end = finish(served, linked, task_id, "escape", 2)[1]
    assert (end["main_root"], sorted(end["main_changed"])) == (str(root), ["a.txt", "b.txt", "new.txt"])
    assert [one["path"] for one in end["files"]] == ["a.txt"]
    (first, gone, new) = end["main_files"]
    assert first["after"] == new["after"] == git(root, "hash-object", "a.txt")
    assert (gone["before"], gone.get("after", "")) == (git(root, "rev-parse", "HEAD:b.txt"), "")
    done = served.cli("diff", task_id)
    assert done.returncode == 0
    assert f"changed meanwhile in the main checkout {root}, by whom is not known: " in done.stdout
    assert served.cli("blame", str(root / "new.txt")).returncode == 7
    rest(root)
    served.send(task_id, "gate again; say hello")
    seen(served, task_id, 3)
    end = finish(served, linked, task_id, "again", 4)[3]
    assert (end["main_root"], "main_changed" in end) == (str(root), False)


def test_work_that_was_merged_is_of_the_turn_that_did_it_in_its_worktree(served: Served, tmp_path: Path) -> None:
    root, linked, copy = tmp_path / "target", tmp_path / "left", tmp_path / "right"
    new_repository(root, a_txt="one\n", b_txt="two\n", c_txt="three\n")
    for place in (linked, copy):
        git(root, "worktree", "add", "-q", str(place))
    task_id = begin(served, linked, "gate left; say hello")
    seen(served, task_id, 1)
    (linked / "a.txt").write_text("by the turn\n")
    (linked / "b.txt").unlink()
    turn_id = finish(served, linked, task_id, "left", 2)[1]["turn_id"]
    assert served.cli("blame", str(root / "a.txt")).returncode == 7
    git(linked, "add", "-A")
    git(linked, "commit", "-q", "-m", "work")
    git(root, "merge", "-q", "--squash", "left")
    for name, change in (("a.txt", "changed"), ("b.txt", "deleted")):
        told = served.json("blame", str(root / name))
        last = told["last"]
        assert (last["turn_id"], last["session_id"], last["change"]) == (turn_id, task_id, change)
        assert (last["work_tree"], last["doubts"], told["changed_since"]) == (str(linked), [], False)
        assert not told["is_here"]
        assert f"in {linked}: the file here is byte for byte" in served.cli("blame", str(root / name)).stdout
    assert served.cli("blame", str(root / "c.txt")).returncode == 7
    other = begin(served, copy, "gate right; say hello")
    seen(served, other, 1)
    (copy / "a.txt").write_text("by the turn\n")
    (copy / "c.txt").write_text("for one turn only\n")
    finish(served, copy, other, "right", 2)
    served.send(other, "gate back; say hello")
    seen(served, other, 3)
    (copy / "c.txt").write_text("three\n")
    finish(served, copy, other, "back", 4)
    assert served.cli("blame", str(root / "c.txt")).returncode == 7
    last = served.json("blame", str(root / "a.txt"))["last"]
    assert (last["turn_id"], [other in one for one in last["doubts"]]) == (turn_id, [True])
    (root / "a.txt").write_text("by a person\n")
    assert served.cli("blame", str(root / "a.txt")).returncode == 7


def test_a_turn_whose_server_died_is_in_doubt(served: Served, tmp_path: Path) -> None:
    root = tmp_path / "killed"
    new_repository(root)
    task_id = begin(served, root, "gate killed; say hello")
    seen(served, task_id, 1)
    (root / "a.txt").write_text("changed\n")
    served.kill()
    served.start()
    end = seen(served, task_id, 2)[1]
    assert "began under another server" in end["problem"]
    done = served.cli("diff", task_id, "--turn", "1")
    assert (done.returncode, "in doubt: the turn began under another server" in done.stdout) == (3, True)


def test_trees_of_sessions_that_are_over_can_go_by_proof_and_those_of_others_stay(
    served: Served, tmp_path: Path
) -> None:
    root = tmp_path / "over"
    new_repository(root, a_txt="one\n")

    def pruned(*more: str) -> dict[str, Body]:
        told = json.loads(served.cli("worktree", "prune", "--json", *more).stdout)["kept"]
        return {row["session_id"]: row for row in told if row["repository"] == str(root / ".git")}

    def over() -> str:
        task_id = begin(served, root, "say hello")
        seen(served, task_id, 2)
        served.shows(task_id, status="COMPLETED")
        return task_id

    merged = over()
    (root / "b.txt").write_text("work\n")
    lossy, living = over(), over()
    assert pruned() == {}
    for task_id in (merged, lossy):
        assert served.cli("session", "archive", task_id, "--yes").returncode == 0
    rows = pruned()
    assert {name: row["can_go"] for name, row in rows.items()} == {merged: True, lossy: False}
    assert "are in no commit" in rows[lossy]["why"]
    refs = git(root, "for-each-ref", "--format=%(refname)", "refs/interlock").split()
    assert len(refs) == 3
    assert f"refs/interlock/sessions/{merged} in {root / '.git'}  can go" in served.cli("worktree", "prune").stdout
    assert pruned("--apply")[merged]["is_removed"]
    assert served.stop() == 0
    assert served.cli("session", "purge", lossy, "--yes").returncode == 0
    served.start()
    assert pruned("--apply")[lossy]["why"] == "its session was purged"
    left = git(root, "for-each-ref", "--format=%(refname)", "refs/interlock").split()
    assert left == [f"refs/interlock/sessions/{living}"]
    journal = (served.home / "worktrees" / "pruned.jsonl").read_text().splitlines()
    assert {json.loads(line)["session_id"] for line in journal} >= {merged, lossy}


def test_the_page_can_be_typed(served: Served, tmp_path: Path) -> None:
    root = tmp_path / "shop"
    new_repository(root)
    file = root / "src" / "parser.py"
    task_id = begin(served, root, "gate page; say one", title="shop")
    seen(served, task_id, 1)
    file.parent.mkdir()
    file.write_text("pass\n")
    finish(served, root, task_id, "page", 2)
    for count in (4, 6):
        served.send(task_id, "say more")
        seen(served, task_id, count)
    page = Path("docs/how-to/see-which-turn-changed-a-file.md").read_text(encoding="utf-8")
    (typed,) = [block.partition("```")[0] for block in page.split("```sh\n")[1:]]
    lines = [shlex.split(line.replace("src/parser.py", str(file)), comments=True) for line in typed.splitlines()]
    assert len(lines) == 6
    for program, *words in lines:
        done = served.cli(*words)
        assert (program, done.returncode in (0, 3)) == ("interlock", True), (words, done.stdout, done.stderr)
    (settings,) = [block.partition("```")[0] for block in page.split("```toml\n")[1:]]
    assert WorkspaceSection(**tomllib.loads(settings)["workspace"]).record_trees is False


def test_a_file_is_accepted_sent_back_and_discarded_by_command(served: Served, tmp_path: Path) -> None:
    root = tmp_path / "reviewed"
    new_repository(root, a_txt="one\n", b_txt="two\n")
    task_id = begin(served, root, "gate reviewed; say hello")
    seen(served, task_id, 1)
    for name in ("a.txt", "b.txt", "c\x1b[2J.txt"):
        (root / name).write_text("by the turn\n")
    finish(served, root, task_id, "reviewed", 2)
    row = next(one for one in served.json("ps")["sessions"] if one["session_id"] == task_id)
    assert (row["branch"], row["changes"]["files"], row["changes"]["unknown_turns"]) == ("main", 3, 0)

    accepted = served.json("review", "accept", task_id, "a.txt", "c\x1b[2J.txt")["files"]
    assert [one["review"] for one in accepted] == ["accepted", "accepted"]
    done = served.cli("review", "discard", task_id, "b.txt", "--turn", "1")
    assert (done.returncode, (root / "b.txt").read_text()) == (0, "two\n"), done.stderr
    (told,) = [line for line in done.stdout.splitlines() if "to get it back" in line]
    command = shlex.split(told.partition(":")[2])
    shown = served.cli("diff", task_id, "--stat").stdout
    assert "b.txt  (discarded)" in shown
    assert "\x1b" not in shown
    (root / "a.txt").write_text("by a person\n")
    refused = served.cli("review", "discard", task_id, "a.txt")
    assert (refused.returncode, (root / "a.txt").read_text()) == (2, "by a person\n")
    assert "changed since" in refused.stderr
    assert served.cli("review", "accept", task_id, "never.txt").returncode == 2
    assert served.cli("review", "accept", task_id, "a.txt", "--turn", "9").returncode == 2
    git(Path(command[2]), *command[3:])
    assert (root / "b.txt").read_text() == "by the turn\n"

    sent = served.json("review", "send-back", task_id, "a.txt", "say shorter")["files"][0]
    assert sent["review"] == "sent_back"
    logged = [json.loads(line) for line in served.api.lines(f"/api/tasks/{task_id}/log")]
    prompts = [one["data"]["text"] for one in logged if one.get("type") == "user_message"]
    queued = [one["data"] for one in logged if one.get("type") == "queue_event"]
    assert any('"a.txt" in turn 1' in text for text in [*prompts, *(one.get("text", "") for one in queued)])


def test_the_page_of_reviews_can_be_typed(served: Served, tmp_path: Path) -> None:
    root = tmp_path / "cart"
    new_repository(root)
    (root / "src").mkdir()
    (root / "src" / "old.py").write_text("old\n")
    task_id = begin(served, root, "gate cart; say one", title="cart of the page")
    seen(served, task_id, 1)
    (root / "src" / "cart.py").write_text("pass\n")
    (root / "src" / "old.py").unlink()
    finish(served, root, task_id, "cart", 2)
    page = Path("docs/how-to/review-changes.md").read_text(encoding="utf-8")
    (typed,) = [block.partition("```")[0] for block in page.split("```sh\n")[1:]]
    lines = [shlex.split(line.replace(" shop ", f" {task_id} "), comments=True) for line in typed.splitlines()]
    assert len(lines) == 4
    for program, *words in lines:
        if words[1] == "discard":  # the turn of what was sent back is over
            seen(served, task_id, 4)
            served.shows(task_id, status="COMPLETED")
        done = served.cli(*words)
        assert (program, done.returncode in (0, 3)) == ("interlock", True), (words, done.stdout, done.stderr)
    assert (root / "src" / "old.py").read_text() == "old\n"
