"""Rules by the doors that a person uses: a real server, a scripted agent, files and commands."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from interlock.testing.scripted_agent import command, read_ledger, write_program
from tests.agents.git.repositories import git
from tests.bodies import Body
from tests.cli.serving import STREAM, Served

RULES = """
[[rule]]
id = "git-read"
then = "allow"
tool = ["Bash"]
command = ["git", ["status", "log"], "..."]
match = ["git log -3", "git status && git log"]
not_match = ["git log > f", "git log; rm x"]

[[rule]]
id = "no-curl"
then = "deny"
command = ["curl", "..."]
because = "the network is not for agents"
"""


@pytest.fixture
def served(acting_server: Served) -> Served:
    return acting_server


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with rules of its own."""
    folder = (tmp_path / "project").resolve()
    (folder / ".interlock").mkdir(parents=True)
    (folder / ".interlock" / "rules.toml").write_text(RULES, encoding="utf-8")
    return folder


def begin(served: Served, project: Path, prompt: str, worktree: Body | None = None) -> tuple[str, Path]:
    ledger = project / "ledger"
    program = write_program(project / "agent", command(STREAM, ledger=ledger))
    body: Body = {"agent": "scripted", "driver": "claude-stream", "argv": [program], "cwd": str(project)}
    body = body if worktree is None else {**body, "worktree": worktree}
    return str(served.api.ask("POST", "/api/tasks", {**body, "prompt": prompt})["task_id"]), ledger


def decisions(served: Served, task_id: str) -> list[Body]:
    shown = served.cli("log", "show", task_id, "--type", "permission_decision", "--json")
    return [json.loads(line)["data"] for line in shown.stdout.splitlines()]


def test_an_allowed_command_goes_on_a_denied_one_is_told_and_an_opaque_one_waits(served: Served, project: Path) -> None:
    assert served.cli("rules", "trust", str(project)).returncode == 0
    prompt = (
        'request Bash {"command": "git log -3"} -> one; request Bash {"command": "curl http://x"} -> two; '
        'request Bash {"command": "git log > f"} -> three; say Done.'
    )
    task_id, ledger = begin(served, project, prompt)
    summary = served.shows(task_id, status="PENDING_CONFIRMATION")
    assert "git log > f" in str(summary["called_with"])
    assert summary["decided_by_rule"] == 2
    allowed, denied = decisions(served, task_id)
    assert (allowed["rule"], allowed["decision"], allowed["layer"]) == ("git-read", "allow", "project")
    assert allowed["commands"] == [{"words": ["git", "log", "-3"], "then": "allow", "rule": "git-read"}]
    assert (denied["rule"], denied["decision"]) == ("no-curl", "deny")
    assert (
        allowed["file_digest"]
        == denied["file_digest"]
        == served.json("rules", "check", "--cwd", str(project))["files"][0]["digest"]
    )
    assert served.cli("approve", task_id).returncode == 0
    served.shows(task_id, status="COMPLETED")
    answers = read_ledger(ledger, "answer")
    assert len(answers) == 3
    assert "denied by rule no-curl: the network is not for agents" in str(answers[1])
    told = served.cli("why", task_id).stdout
    assert "rule git-read of" in told
    assert "rule no-curl of" in told
    assert "2 by rule" in served.cli("show", task_id).stdout
    said = served.cli("logs", task_id).stdout
    assert ("allowed by rule git-read" in said, "denied by rule no-curl" in said) == (True, True), said
    # Trap 28 of the plan: what `rules test` says of the questions in the log is what was decided then.
    replayed = [one["then"] for one in served.json("rules", "test", "--session", task_id)["questions"]]
    assert replayed == [allowed["decision"], denied["decision"], "ask"]


def test_a_project_may_only_tighten_until_its_file_is_trusted(served: Served, project: Path) -> None:
    task_id, _ = begin(
        served, project, 'request Bash {"command": "curl x"} -> a; request Bash {"command": "git log"} -> b'
    )
    served.shows(task_id, status="PENDING_CONFIRMATION")
    assert [one["rule"] for one in decisions(served, task_id)] == ["no-curl"]
    assert served.cli("rules", "test", "git log", "--cwd", str(project)).returncode == 6
    assert served.cli("rules", "trust", str(project)).returncode == 0
    assert served.cli("rules", "test", "git log", "--cwd", str(project)).returncode == 0
    assert served.cli("rules", "test", "curl x", "--cwd", str(project)).returncode == 1
    with (project / ".interlock" / "rules.toml").open("a") as file:
        file.write("# changed\n")
    assert served.cli("rules", "test", "git log", "--cwd", str(project)).returncode == 6
    assert served.cli("deny", task_id).returncode == 0


def test_rules_of_the_folder_that_a_worktree_was_made_from_hold_in_it_whatever_its_own_say(
    served: Served, project: Path
) -> None:
    rules = project / ".interlock" / "rules.toml"
    within = 'then = "allow"\nwithin = "worktree"'
    rules.write_text(RULES.replace('then = "allow"', within))
    git(project, "init", "-q")
    (project / ".gitignore").write_text(".interlock/\nagent\nledger\n")
    git(project, "add", "-A")
    git(project, "commit", "-q", "-m", "first")
    assert served.cli("rules", "trust", str(project)).returncode == 0
    assert served.cli("rules", "test", "git log", "--cwd", str(project)).returncode == 6
    prompt = 'request Bash {"command": "git log"} -> one; request Bash {"command": "curl http://x"} -> two; say Done.'
    task_id, _ = begin(served, project, prompt, {"name": "ruled"})
    summary = served.shows(task_id, status="COMPLETED")
    assert not (Path(summary["folder"]) / ".interlock").exists()
    said = [(one["rule"], one["decision"], one["file"]) for one in decisions(served, task_id)]
    assert said == [("git-read", "allow", str(rules)), ("no-curl", "deny", str(rules))]
    asked = served.json("rules", "test", "--session", task_id)["questions"]
    assert [one["then"] for one in asked] == ["allow", "deny"]
    assert served.cli("stop", task_id).returncode == 0


def test_paused_rules_allow_nothing_and_an_agent_may_not_resume_them(served: Served, project: Path) -> None:
    assert served.cli("rules", "trust", str(project)).returncode == 0
    assert served.cli("rules", "pause", "--for", "60").returncode == 0
    task_id, _ = begin(served, project, 'request Bash {"command": "git log"} -> a; say Done.')
    served.shows(task_id, status="PENDING_CONFIRMATION")
    assert decisions(served, task_id) == []
    for verb in ("resume", "trust"):
        refused = served.cli("rules", verb, INTERLOCK_SPAWN_ID="spn_1")
        assert (refused.returncode, "an agent may not" in refused.stderr) == (2, True)
    assert "paused: every session" in served.cli("rules", "ls", "--cwd", str(project)).stderr
    assert served.json("rules", "resume") == {"resumed": "*"}
    assert served.cli("approve", task_id).returncode == 0
    served.shows(task_id, status="COMPLETED")


def test_a_file_that_is_not_understood_asks_for_everything_and_says_all_that_is_wrong(
    served: Served, project: Path
) -> None:
    file = project / ".interlock" / "rules.toml"
    file.write_text(RULES + '[[rule]]\nid = "x"\nthen = "perhaps"\ncolour = 1\n', encoding="utf-8")
    assert served.cli("rules", "test", "curl x", "--cwd", str(project)).returncode == 2
    checked = served.cli("rules", "check", "--cwd", str(project))
    assert checked.returncode == 2
    assert "unknown key 'colour'" in checked.stdout
    assert "then: expected" in checked.stdout
    task_id, _ = begin(served, project, 'request Bash {"command": "curl x"} -> a; say Done.')
    served.shows(task_id, status="PENDING_CONFIRMATION")
    assert decisions(served, task_id) == []
    assert served.cli("deny", task_id).returncode == 0


def test_what_a_person_allowed_three_times_is_suggested_and_would_be_taken(served: Served, project: Path) -> None:
    (project / ".interlock" / "rules.toml").unlink()
    ask = 'request Bash {"command": "make lint-suggested"} -> a; '
    task_id, _ = begin(served, project, ask * 3 + "say Done.")
    for _ in range(3):
        served.shows(task_id, status="PENDING_CONFIRMATION")
        assert served.cli("approve", task_id).returncode == 0
    served.shows(task_id, status="COMPLETED")
    draft = project / "draft.toml"
    draft.write_text(served.cli("rules", "suggest").stdout, encoding="utf-8")
    assert 'command = ["make", "lint-suggested"]' in draft.read_text()
    assert served.cli("rules", "check", str(draft)).returncode == 0


def test_lists_of_other_programs_are_translated_or_refused_by_name(served: Served, tmp_path: Path) -> None:
    claude = tmp_path / "settings.json"
    allow = ["Bash(git status:*)", "Bash(npm run test)", "Bash(git:*)", "Bash(sudo ls)", "Edit(src/**)", "Read"]
    claude.write_text(json.dumps({"permissions": {"allow": allow, "deny": ["Bash(curl:*)"]}}), encoding="utf-8")
    done = served.cli("rules", "import", "claude", str(claude))
    assert done.returncode == 3
    draft = tmp_path / "draft.toml"
    draft.write_text(done.stdout, encoding="utf-8")
    assert [one["about"] for one in served.json("rules", "check", str(draft))["files"][0]["rules"]] == [
        "curl ...",
        "git status ...",
        "npm run test",
        "Read",
    ]
    for refused in ("Bash(git:*)", "Bash(sudo ls)", "Edit(src/**)"):
        assert f"refused: allow {refused}" in done.stderr
    codex = tmp_path / "default.rules"
    codex.write_text('prefix_rule(pattern=["git", ["log", "show"]], decision="allow")\nprint(1)\n', encoding="utf-8")
    told = json.loads(served.cli("rules", "import", "codex", str(codex), "--json").stdout)
    assert (len(told["rules"]), told["refused"][0]["because"]) == (1, "only prefix_rule is understood")
