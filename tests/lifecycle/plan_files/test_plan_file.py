"""Plan files: strict, every problem told with its remedy, and nothing accepted that is not kept."""

from __future__ import annotations

import pytest

from interlock.lifecycle.children.workflow_plan import InvalidWorkflow, StepOutput, StepSpec, WorkflowSpec
from interlock.lifecycle.plans.plan_file import MAX_PLAN_BYTES, MAX_STEPS, read_plan
from interlock.vocabulary.ids import StepId, WorkflowId
from tests.each_row import each_row

WORKFLOW = WorkflowId("wf_1")

WHOLE = """
plan = 1
name = "review of {{ params.range }}"

[params]
range = { type = "text", default = "main...HEAD", help = "what to review" }
focus = { type = "list", default = ["security", "races"] }

[limits]
timeout = "2h30m"
max_running = 3

[defaults]
agent = "claude"
timeout = "10m"

[[step]]
id = "look"
for_each = "params.focus"
prompt = "Review {{ params.range }} for {{ item }} only."
write = ["findings/{{ item }}.json"]
checks = [["test", "-s", "findings/{{ item }}.json"]]
outputs.findings = { type = "json", path = "findings/{{ item }}.json", list = true, fields = { line = "int" } }

[[step]]
id = "count"
needs = ["look"]
run = ["wc", "-l", "--range={{ params.range }}"]
timeout = "30s"

[[step]]
id = "publish"
needs = ["count"]
gate = "Post this review?"
choices = ["go", "later", "stop"]
show = ["steps.look.outputs.findings"]
"""


def read(text: str | bytes, **params: object) -> WorkflowSpec:
    return read_plan(text, params, WORKFLOW)


def told(text: str | bytes, **params: object) -> str:
    with pytest.raises(InvalidWorkflow) as refused:
        read(text, **params)
    assert all(problem.remedy for problem in refused.value.problems)
    return "\n".join(f"{problem.message}; {problem.remedy}" for problem in refused.value.problems)


def one(more: str = "", work: str = 'prompt = "do it"\nagent = "claude"', head: str = "") -> str:
    """A plan of one step."""
    return f'plan = 1\n{head}\n[[step]]\nid = "a"\n{work}\n{more}\n'


def test_a_whole_plan_becomes_a_workflow() -> None:
    plan = read(WHOLE)
    assert (plan.id, plan.name) == (WORKFLOW, "review of main...HEAD")
    assert (plan.timeout_ms, plan.max_concurrency) == (9_000_000, 3)
    first, second, count, publish = plan.steps
    assert first == StepSpec(
        id=StepId("look:0"),
        task="Review main...HEAD for security only.",
        agent="claude",
        timeout_ms=600_000,
        write_set=("findings/security.json",),
        checks=(("test", "-s", "findings/security.json"),),
        outputs=(
            StepOutput(
                name="findings", path="findings/security.json", type="json", is_list=True, fields=(("line", "int"),)
            ),
        ),
        once=False,
    )
    assert (second.id, second.write_set) == ("look:1", ("findings/races.json",))
    assert (count.depends_on, count.run, count.timeout_ms) == (
        ("look:0", "look:1"),
        ("wc", "-l", "--range=main...HEAD"),
        30_000,
    )
    assert (publish.choices, publish.depends_on) == (("go", "later", "stop"), ("count",))
    assert publish.gate == (
        "Post this review?\nsecurity: {{ steps.look:0.outputs.findings }}\nraces: {{ steps.look:1.outputs.findings }}"
    )


@each_row(
    ("text", "problem"),
    [
        ("= broken", "no plan"),
        (b"\xff", "no plan"),
        ("x = " + "[" * 5000, "no plan"),
        ("x = " + "1" * 5000, "no plan"),
        (".".join(["a"] * 60) + " = 1", "more than 40 parts"),
        ("#" * (MAX_PLAN_BYTES + 1), "larger than"),
        ("", "plan = 1"),
        ("plan = 2", "the version 2"),
        ("plan = true", "the version True"),
        ("plan = 1", "[[step]]"),
        ("plan = 1\nstep = 3", "[[step]]"),
        ("plan = 1\nstep = [3]", "step 1 is 3"),
        (one(head="colour = 1"), "unknown key 'colour'"),
        (one("colour = 1"), "step 'a' has the unknown key 'colour'"),
        (one(head="params = 1"), "a table for each"),
        (one(head="params.x = 1"), "params.'x' = 1"),
        (one(head='params."x y" = { type = "text" }'), "names one of its params"),
        (one(head='params.x = { type = "float" }'), "one of text, int"),
        (one(head='params.x = { type = "choice" }'), "a choice without choices"),
        (one(head='params.x = { type = "text", choices = ["a"] }'), "is no choice"),
        (
            one(head='params.x = { type = "int", default = "3" }'),
            "a whole number",
        ),
        (one(head='params.x = { type = "int", default = true }'), "a whole number"),
        (one(head='params.x = { type = "path", default = "../x" }'), "a path relative"),
        (one(head='params.x = { type = "list", default = [] }'), "1 to 100 texts"),
        (one(head='params.x = { type = "choice", choices = ["a"], default = "b" }'), "one of a"),
        (one(head='params.x = { type = "text", size = 3 }'), "unknown key 'size'"),
        (one(head='params.x = { type = "text", help = "the issue" }'), "(the issue) has no value"),
        (one(head="limits = 3"), "limits: write a table"),
        (one(head="limits.max_running = 0"), "from 1 to"),
        (one(head="limits.max_steps = 100000"), "from 1 to"),
        (one(head='limits.timeout = "soon"'), "a time such as"),
        (one(head='limits.timeout = ""'), "a time such as"),
        (one(head='limits.timeout = "0s"'), "a time such as"),
        (one(head='limits.timeout = "999999h"'), "a time such as"),
        (one(head="limits.max_cost_usd = 0"), "a number above 0"),
        (one(head="limits.max_cost_usd = true"), "a number above 0"),
        (one(head="limits.max_cost_usd = nan"), "a number above 0"),
        (one(head="limits.max_tokens = 1.5"), "a whole number"),
        (one(head="defaults = 3"), "defaults: write a table"),
        (one(head='defaults.prompt = "x"'), "unknown key 'prompt'"),
        (one(head="defaults.rounds = 3"), "`rounds`, and nothing that could fail in one"),
        (one(head="defaults.required = 3"), "true or false"),
        ('plan = 1\n[[step]]\nprompt = "x"\nagent = "c"', "step 1 has id = None"),
        ('plan = 1\n[[step]]\nid = "a:0"\nprompt = "x"\nagent = "c"', "a name of letters"),
        (one() + '[[step]]\nid = "a"\nrun = ["x"]', "2 steps are called 'a'"),
        (one(work=""), "neither prompt, run nor gate"),
        (one(work='run = ["x"]\ngate = "y"'), "run and gate"),
        (one(work='prompt = " "\nagent = "c"'), "an empty prompt"),
        (one(work='prompt = 3\nagent = "c"'), "prompt: write text"),
        (one(work='prompt = "a\\u0000b"\nagent = "c"'), "without control characters"),
        (one(work='prompt = "x"'), "names no agent"),
        (one(work='prompt = "x"\nagent = "c d"'), "a configured agent"),
        (one(work='run = "make test"'), "no shell reads it"),
        (one(work="run = []"), "no shell reads it"),
        (one(work='run = ["x"]\nchecks = [["y"]]'), "is a run and has `checks`"),
        (one(work='gate = "x"\nagent = "c"'), "is a gate and has `agent`"),
        (one(work='gate = "x"\ntimeout = "1h"\non_timeout = "proceed"'), "silence is never consent"),
        (one(work='gate = "x"\non_timeout = "give_up"'), "has on_timeout, and no timeout"),
        (one(work='gate = "x"\ntimeout = "soon"'), "a time such as"),
        (one(work='gate = "x"\nchoices = ["go"]'), "two or more different ones"),
        (one(work='gate = "x"\nchoices = ["go", "go"]'), "two or more different ones"),
        (one(work='gate = "x"\nshow = ["the diff"]'), "shows 'the diff'"),
        (one("worktree = 3"), "worktree: write text"),
        (one('worktree = "a b"'), "or the id of the step in whose tree it goes on"),
        (one('worktree = "b"'), "works on 'b', which is no step"),
        (one('worktree = "a"'), "works on the tree of step 'a' and does not need it"),
        (one("base = []"), "or a list of them"),
        (one('base = "--upload-pack=x"'), "or a list of them"),
        (one('base = ["steps.b"]'), "works on 'b', which is no step"),
        (one(work='gate = "x"\nbase = "head"'), "is a gate and has `base`"),
        (one('model = "opus"'), "`model`, which is not supported yet"),
        (one("rounds = 4"), "`rounds`, and nothing that could fail in one"),
        (one("rounds = true"), "from 1 to 20"),
        (one("rounds = 21"), "from 1 to 20"),
        (one(work='run = ["x"]\nrounds = 2'), "is a run and has `rounds`"),
        (one("once = 1"), "true or false"),
        (one("retries = 2"), "as in { max = 1"),
        (one("retries = { max = 0 }"), "from 1 to 10"),
        (one('retries = { on = ["crash"], max = 1, wait = "1s" }'), "unknown key 'wait'"),
        (one('retries = { max = 1, on = ["failed"] }'), "a list of crash, quota, timeout"),
        (one("retries = { max = 1, on = [] }"), "a list of crash, quota, timeout"),
        (one('for_each = "steps.b.outputs.x"'), "has for_each over a step, and no max"),
        (one('for_each = "steps.b.outputs.x"\nmax = 2'), "is for each item of step 'b' and does not need it"),
        (one('for_each = "steps.b.outputs.x"\nmax = 101'), "from 1 to 100"),
        (one("max = 2"), "has `max`, and no for_each over a step"),
        (
            one('needs = ["b"]\nfor_each = "steps.b.outputs.x"\nmax = 2') + '[[step]]\nid = "b"\nrun = ["x"]',
            "which is no list",
        ),
        (one('for_each = "focus"'), "for_each: write a list parameter"),
        (one('for_each = "params.focus"'), "which is no list parameter"),
        (
            one('for_each = "params.x"', head='params.x = { type = "text", default = "a" }'),
            "which is no list parameter",
        ),
        (one('checks = ["make test"]'), 'as in [["make", "test"]]'),
        (one("checks = [[]]"), 'as in [["make", "test"]]'),
        (one('write = "src"'), "a list of texts"),
        (one('write = ["/etc"]'), "has the path '/etc' in write"),
        (one('write = ["../x"]'), "has the path '../x' in write"),
        (one('write = ["src/*.py"]'), "without patterns"),
        (one('write = [".git/hooks"]'), "writes '.git/hooks'"),
        (one('write = ["sub/.claude/settings.json"]'), "are never written"),
        (one('write = [".env.local"]'), "are never written"),
        (one('read = ["../x"]'), "has the path '../x' in read"),
        (one("outputs = 3"), "a table for each"),
        (one("outputs.x = 3"), "outputs.'x' = 3"),
        (one('outputs.x = { type = "file" }'), "has no path"),
        (one('outputs.x = { type = "thing", path = "x" }'), "type = 'thing'"),
        (one('outputs.x = { type = "commit", path = "x" }'), "is a commit and has a path"),
        (one('outputs.x = { type = "text", list = true }'), "is no JSON"),
        (one('outputs.x = { type = "file", path = "x", max = 3 }'), "`max`, which is not supported yet"),
        (one('outputs.x = { type = "file", path = "x", size = 3 }'), "unknown key 'size'"),
        (one('outputs.x = { type = "json", path = "x", fields = 3 }'), "fields: write the type of each"),
        (one('outputs.x = { type = "json", path = "x", fields = { a = "float" } }'), "types are text, int"),
        (one('outputs.x = { type = "json", path = "x", fields = { a = [] } }'), "types are text, int"),
        (one('outputs.x = { type = "json", path = "x", list = 3 }'), "true or false"),
        (one('outputs.x = { type = "file", path = "x", list = true }'), "is no JSON"),
        (one('outputs.x = { type = "file", path = ".env" }'), "are never written"),
        (one('outputs.x = { type = "file", path = "x" }'), "which it may not write"),
        (one('write = ["x"]\noutputs.x = { type = "file", path = "xy" }'), "which it may not write"),
        (one('needs = ["b"]'), "depends on 'b', which is no step"),
        (one('needs = ["a"]'), "depends on itself"),
        (one("required = false"), "no step is required"),
    ],
)
def test_a_wrong_plan_is_refused_and_the_remedy_told(text: str | bytes, problem: str) -> None:
    assert problem in told(text)


def test_every_problem_is_told_at_once() -> None:
    text = """
plan = 3
colour = 1
[params.x]
type = "int"
[[step]]
id = "a"
needs = ["b"]
prompt = "{{ params.y }}"
agent = "c"
[[step]]
id = "b"
needs = ["a"]
run = ["make", "{{ steps.a.summary }}"]
write = [".git"]
[[step]]
id = "c"
"""
    found = told(text, x="many", z="1")
    for problem in (
        "has the version 3",
        "unknown key 'colour'",
        "'x' has the value 'many'",
        "no parameter 'z'",
        "steps wait for each other: a -> b -> a",
        "names the parameter 'y', which is not declared",
        "puts words of step 'a' into a command",
        "writes '.git'",
        "'c' has neither prompt, run nor gate",
        "'a' is needed by others, and nothing proves that it is ready",
    ):
        assert problem in found


def test_a_step_that_is_wrong_is_still_a_step_to_those_that_need_it() -> None:
    found = told('plan = 1\n[[step]]\nid = "a"\n[[step]]\nid = "b"\nneeds = ["a"]\nrun = ["x"]')
    assert "neither prompt" in found
    assert "no step" not in found


def test_a_prompt_that_others_need_rests_on_a_proof() -> None:
    needs = '[[step]]\nid = "b"\nneeds = ["a"]\nrun = ["x"]\n'
    assert "nothing proves that it is ready" in told(one() + needs)
    assert read(one('checks = [["true"]]') + needs).steps[1].depends_on == ("a",)
    output = 'write = ["x"]\noutputs.x = { type = "file", path = "x" }'
    for text in (one(output), one(work='run = ["true"]'), one(work='gate = "Go?"')):
        assert len(read(text + needs).steps) == 2
    assert read(one()).steps[0].checks == ()


@each_row(
    ("kind", "given", "value"),
    [
        ('type = "text"', "a,b", "a,b"),
        ('type = "int"', "-3", "-3"),
        ('type = "int"', 3, "3"),
        ('type = "bool"', "true", "true"),
        ('type = "bool"', False, "false"),
        ('type = "choice", choices = ["a", "b"]', "b", "b"),
        ('type = "path"', "src/a.py", "src/a.py"),
        ('type = "list"', "a, b", "a, b"),
        ('type = "list"', ["a", "b"], "a, b"),
    ],
)
def test_a_value_is_given_as_text_or_typed(kind: str, given: object, value: str) -> None:
    text = one(work='prompt = "<{{ params.x }}>"\nagent = "c"', head=f"params.x = {{ {kind} }}")
    assert read(text, x=given).steps[0].task == f"<{value}>"


@each_row(
    ("kind", "given"),
    [
        ('type = "text"', 3),
        ('type = "text"', "a\0b"),
        ('type = "text"', "x" * 8001),
        ('type = "int"', "3.5"),
        ('type = "int"', True),
        ('type = "int"', "9" * 30),
        ('type = "bool"', "yes"),
        ('type = "bool"', 1),
        ('type = "choice", choices = ["a", "b"]', "c"),
        ('type = "path"', "/etc"),
        ('type = "path"', "-x"),
        ('type = "path"', "a/../b"),
        ('type = "list"', ""),
        ('type = "list"', "a,,b"),
        ('type = "list"', ["a", 3]),
        ('type = "list"', {"a": 1}),
        ('type = "list"', ["x"] * 101),
    ],
)
def test_a_value_of_another_type_is_refused(kind: str, given: object) -> None:
    assert "'x' has the value" in told(one(head=f"params.x = {{ {kind} }}"), x=given)


def test_a_value_is_no_option_of_a_command_and_no_program() -> None:
    head = 'params.x = { type = "text" }'
    text = one(work='run = ["git", "log", "{{ params.x }}"]', head=head)
    assert read(text, x="main").steps[0].run == ("git", "log", "main")
    assert "would read it as an option" in told(text, x="--output=/etc/passwd")
    assert (
        read(one(work='run = ["git", "log", "--since={{ params.x }}"]', head=head), x="-1").steps[0].run[2]
        == "--since=-1"
    )
    assert "takes its program from" in told(one(work='run = ["{{ params.x }}"]', head=head), x="rm")


def test_a_path_is_looked_at_again_with_its_values() -> None:
    head = 'params.x = { type = "text" }'
    text = one('write = ["services/{{ params.x }}"]', head=head)
    assert read(text, x="a").steps[0].write_set == ("services/a",)
    assert "has the path" in told(text, x="../../etc")
    assert "are never written" in told(text, x=".git")
    assert "has the path" in told(text, x="*")


def test_items_have_paths_of_their_own() -> None:
    head = 'params.x = { type = "list" }'
    same = 'for_each = "params.x"\nwrite = ["out"]\noutputs.r = { type = "file", path = "out/r" }'
    assert "have the same output 'out/r'" in told(one(same, head=head), x="a,b")
    own = 'for_each = "params.x"\nwrite = ["out"]\noutputs.r = { type = "file", path = "out/{{ item }}" }'
    assert [step.outputs[0].path for step in read(one(own, head=head), x="a,b").steps] == ["out/a", "out/b"]


def test_lists_are_held_to_the_limit_of_steps() -> None:
    text = one('for_each = "params.x"', head='params.x = { type = "list" }\nlimits.max_steps = 3')
    assert len(read(text, x="a,b,c").steps) == 3
    assert "has 4 steps with its lists, and max_steps is 3" in told(text, x="a,b,c,d")
    many = "plan = 1\n" + "".join(f'[[step]]\nid = "s{number}"\nrun = ["x"]\n' for number in range(MAX_STEPS + 1))
    assert f"has {MAX_STEPS + 1} steps" in told(many)


def test_a_default_counts_where_a_step_has_the_key() -> None:
    head = (
        '[defaults]\nagent = "claude"\nchecks = [["make"]]\ntimeout = "1m"\nchoices = ["yes", "stop"]\nrequired = false'
    )
    text = one(work='prompt = "x"', head=head) + (
        '[[step]]\nid = "b"\nrun = ["x"]\nrequired = true\n[[step]]\nid = "c"\ngate = "?"\n'
        '[[step]]\nid = "d"\nprompt = "x"\nagent = "codex"\nchecks = []\n'
    )
    first, second, third, fourth = read(text).steps
    assert (first.agent, first.checks, first.timeout_ms, first.required) == ("claude", (("make",),), 60_000, False)
    assert (second.agent, second.checks, second.timeout_ms, second.required) == ("", (), 60_000, True)
    assert (third.choices, third.timeout_ms) == (("yes", "stop"), None)
    assert (fourth.agent, fourth.checks) == ("codex", ())


def test_rounds_and_retries_and_what_is_done_once() -> None:
    text = one('checks = [["true"]]\nrounds = 4\nretries = { max = 2, on = ["quota"] }\nonce = true')
    (step,) = read(text).steps
    assert (step.rounds, step.retries, step.retry_on, step.once) == (4, 2, ("quota",), True)
    assert [one.once for one in read(one() + '[[step]]\nid = "b"\nrun = ["x"]').steps] == [False, True]
    defaults = "defaults.retries = { max = 1 }\ndefaults.once = false"
    (step,) = read(one(work='run = ["x"]', head=defaults)).steps
    assert (step.retries, step.retry_on, step.once) == (1, ("crash", "quota", "timeout"), False)
