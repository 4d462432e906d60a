"""Plan files by the commands that read them: found by path or name, checked whole, and trusted as they stand."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from interlock.lifecycle.plans.step_draft import DEFAULT_KEYS, KINDS, UNSUPPORTED
from tests.bodies import Body
from tests.cli.harness import interlock
from tests.docs.running import blocks

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples" / "plans"
PAGE = (ROOT / "docs/how-to/run-a-plan.md").read_text(encoding="utf-8")
PLAN = """
plan = 1
name = "greet {{ params.whom }}"
params.whom = { type = "list", default = ["ann"] }
[[step]]
id = "greet"
for_each = "params.whom"
run = ["echo", "{{ item }}"]
[[step]]
id = "go"
needs = ["greet"]
gate = "Greet?"
"""


class Place:
    """A project, a home and a configuration folder of their own."""

    def __init__(self, root: Path) -> None:
        self.project = root / "project"
        self.own = root / "config" / "plans"
        self.env = {"INTERLOCK_HOME": str(root / "home"), "INTERLOCK_CONFIG": str(root / "config" / "config.toml")}
        for folder in (self.project / ".interlock" / "plans", self.own):
            folder.mkdir(parents=True)
        (root / "config" / "config.toml").write_text("", encoding="utf-8")

    def plan(self, *words: str, **more: str) -> tuple[int, str, str]:
        done = interlock("plan", *words, "--cwd", str(self.project), env={**self.env, **more})
        return done.returncode, done.stdout, done.stderr

    def json(self, *words: str) -> Body:
        _, out, _ = self.plan(*words, "--json")
        found: Body = json.loads(out)
        return found

    def write(self, text: str = PLAN, name: str = ".interlock/plans/greet.plan.toml") -> Path:
        path = self.project / name
        path.write_text(text, encoding="utf-8")
        return path


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path.resolve())


def test_a_plan_is_shown_wave_by_wave_and_nothing_starts(place: Place) -> None:
    place.write()
    code, out, _ = place.plan("check", "greet", "--param", "whom=ann,bob")
    assert code == 0
    header, first, second, gate, total = out.splitlines()
    assert header.split() == ["WAVE", "STEP", "RUNS", "NEEDS", "WRITES", "TREE", "READY", "WHEN"]
    assert first.split() == ["1", "greet:0", "echo", "ann", "exit", "code", "0"]
    assert second.split()[:4] == ["1", "greet:1", "echo", "bob"]
    assert "you: go / stop" in gate
    assert total == "greet ann, bob: 3 steps, at most 4 at a time, 60 min in all"
    assert not Path(place.env["INTERLOCK_HOME"]).exists()
    shown = place.json("check", "greet", "--param", "whom=ann,bob")
    assert (shown["ok"], shown["waves"]) == (True, [["greet:0", "greet:1"], ["go"]])
    assert [step["kind"] for step in shown["steps"]] == ["run", "run", "gate"]


def test_every_problem_is_told_and_the_exit_code_is_2(place: Place) -> None:
    path = place.write(PLAN + 'colour = 1\n[[step]]\nid = "a"\nprompt = "x"\nagent = "\\u001b[2Jnone"\nrounds = 3\n')
    code, out, _ = place.plan("check", "greet", "--param", "size=3")
    assert code == 2
    assert [line.startswith(f"{path}: ") for line in out.splitlines()] == [True] * 4
    for problem in ("no parameter 'size'", "unknown key 'colour'", "`rounds`, and nothing that could fail", "agent = "):
        assert problem in out
    assert "\x1b" not in out
    assert len(place.json("check", "greet", "--param", "size=3")["problems"]) == 4


def test_an_agent_that_is_not_configured_is_a_problem(place: Place) -> None:
    place.write('plan = 1\n[[step]]\nid = "a"\nprompt = "x"\nagent = "claud"\n')
    code, out, _ = place.plan("check", "greet")
    assert (code, "the agent 'claud' of a is not configured; did you mean 'claude'?" in out) == (2, True)


def test_a_plan_is_found_by_its_path_or_by_its_name(place: Place) -> None:
    (place.own / "mine.plan.toml").write_text(PLAN, encoding="utf-8")
    place.write(name="here.plan.toml")
    assert place.json("check", "mine")["path"] == str(place.own / "mine.plan.toml")
    assert place.json("check", "here.plan.toml")["path"] == str(place.project / "here.plan.toml")
    assert place.json("check", str(place.project / "here.plan.toml"))["ok"]
    os.mkfifo(place.project / "pipe.plan.toml")
    for name, why in (
        ("here", "there is no plan 'here' in"),
        ("gone.plan.toml", "there is no plan"),
        ("plan.toml", "ends in .plan.toml"),
        ("../mine", "ends in .plan.toml"),
        ("", "ends in .plan.toml"),
        ("pipe.plan.toml", "is no file"),
    ):
        code, _, err = place.plan("check", name)
        assert (code, why in err) == (2, True), name


@pytest.mark.parametrize(
    ("given", "why"), [(("whom",), "NAME=VALUE"), (("=x",), "NAME=VALUE"), (("whom=a", "--param", "whom=b"), "twice")]
)
def test_a_value_is_given_once_by_its_name(place: Place, given: tuple[str, ...], why: str) -> None:
    place.write()
    code, _, err = place.plan("check", "greet", "--param", *given)
    assert (code, why in err) == (2, True)


def test_a_plan_of_a_project_is_trusted_as_it_stands_and_one_of_the_user_always(place: Place) -> None:
    path = place.write()
    (place.own / "mine.plan.toml").write_text(PLAN, encoding="utf-8")
    assert place.json("check", "mine")["is_trusted"]
    assert not place.json("check", "greet")["is_trusted"]
    assert f"interlock plan trust {path}" in place.plan("check", "greet")[2]
    refused = place.plan("trust", "greet", INTERLOCK_SPAWN_ID="spn_1")
    assert (refused[0], "an agent may not" in refused[2]) == (2, True)
    assert place.plan("trust", "greet")[0] == 0
    assert place.json("check", "greet")["is_trusted"]
    path.write_text(PLAN + "\n", encoding="utf-8")
    assert not place.json("check", "greet")["is_trusted"]
    assert place.json("trust", "greet")["is_trusted"]
    assert not place.json("trust", "greet", "--forget")["is_trusted"]
    assert not place.json("check", "greet")["is_trusted"]


def test_a_link_from_the_users_folder_is_no_way_around_trust(place: Place) -> None:
    path = place.write()
    (place.own / "linked.plan.toml").symlink_to(path)
    shown = place.json("check", "linked")
    assert (shown["path"], shown["is_trusted"]) == (str(path), False)


def test_trust_of_a_plan_leaves_trust_of_rules_as_it_is(place: Place) -> None:
    (place.project / ".interlock" / "rules.toml").write_text("", encoding="utf-8")
    place.write()
    assert interlock("rules", "trust", str(place.project), env=place.env).returncode == 0
    assert place.plan("trust", "greet")[0] == 0
    assert place.plan("trust", "greet", "--forget")[0] == 0
    assert "not trusted" not in interlock("rules", "ls", "--cwd", str(place.project), env=place.env).stderr


@pytest.mark.parametrize("name", sorted(path.name for path in EXAMPLES.iterdir()))
def test_a_plan_that_ships_can_run(place: Place, name: str) -> None:
    given = {
        "implement.plan.toml": ("issue=Retry on a 503",),
        "migrate.plan.toml": ("canary=billing", "others=orders,users,mail"),
        "one-agent.plan.toml": ("task=Write the release notes",),
    }
    words = [word for one in given.get(name, ()) for word in ("--param", one)]
    who = ("-c", "user.name=a", "-c", "user.email=a@b.example")
    for asked in (("init", "-q"), (*who, "commit", "-q", "--allow-empty", "-m", "first")):
        subprocess.run(("git", *asked), cwd=place.project, check=True, capture_output=True)
    shown = place.json("check", str(EXAMPLES / name), *words)
    assert shown["problems"] == []
    assert [step["kind"] for step in shown["steps"]].count("gate") == 1


def test_the_page_shows_a_plan_that_can_run(place: Place) -> None:
    (shown,) = blocks(PAGE, "toml")
    place.write(shown, "shown.plan.toml")
    assert place.json("check", "shown.plan.toml")["problems"] == []


def test_the_page_names_every_key_and_every_plan_that_ships() -> None:
    for key in (*DEFAULT_KEYS, *KINDS, *UNSUPPORTED, "for_each", "show", "fields", "list"):
        assert f"`{key}" in PAGE or f" {key}" in PAGE or key in ("model", "once", "may_spawn", "on_timeout"), key
    for path in EXAMPLES.iterdir():
        assert f"`{path.name.removesuffix('.plan.toml')}`" in PAGE
