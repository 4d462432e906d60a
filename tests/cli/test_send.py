"""`interlock send`: a durable receipt, the answer alone on standard output, and a code for how the turn ended."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from pathlib import Path

import pytest

from interlock.cli.server.api import ServerApi
from interlock.cli.work import prompt_wait
from interlock.cli.work.changes import SessionChanges, TimeUp
from interlock.cli.work.send import send
from interlock.testing.scripted_agent import command, write_program
from interlock.vocabulary.errors import Unreachable
from interlock.vocabulary.ids import PromptId
from tests.any_route import any_route
from tests.bodies import Body
from tests.cli.harness import COMMAND, interlock
from tests.cli.homes import HOSTILE, run_many
from tests.cli.serving import STREAM, WAIT_SECONDS, Served, serving, until


@pytest.fixture
def served(acting_server: Served) -> Served:
    return acting_server


def scripted(served: Served, *lines: str) -> str:
    """A session whose agent plays these lines, whatever the prompts say."""
    number = len(list(served.folder.glob("script-*")))
    script = served.folder / f"script-{number}"
    script.write_text("\n".join(lines), encoding="utf-8")
    program = write_program(served.folder / f"player-{number}", command(STREAM, script=script))
    body = {"agent": "scripted", "driver": "claude-stream", "argv": [program], "cwd": str(served.folder)}
    return str(served.api.ask("POST", "/api/tasks", body)["task_id"])


def turn_of(served: Served, task_id: str) -> Body:
    turn_id = served.task(task_id)["summary"]["turn_id"]
    return served.api.get(any_route(f"/api/tasks/{task_id}/turns/{turn_id}"))


# The receipt


def test_what_it_took_to_give_a_prompt_is_part_of_the_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = prompt_wait.PromptAsked(home=Path(), task_id="ses_1", prompt_id=PromptId("prm_1"))
    deadlines = list[float | None]()

    def looks(_: object, deadline: float | None) -> list[Body]:
        deadlines.append(deadline)
        raise TimeUp

    monkeypatch.setattr(SessionChanges, "looks", looks)
    monkeypatch.setattr(time, "monotonic", lambda: 100.0)
    for spent in (4.0, 40.0):
        with pytest.raises(TimeUp):
            prompt_wait._await(asked, prompt_wait.WaitTimeouts(timeout_seconds=10.0, spent_seconds=spent))
    assert deadlines == [106.0, 100.0]


def test_a_server_that_takes_no_prompt_does_not_outlast_the_timeout(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock, asked = [100.0], list[float]()

    class Stuck(ServerApi):
        def get(self, route: object, **query: object) -> Body:
            return {"summary": {"task_id": "ses_1"}}

        def ask_raw(
            self, method: str, path: str, body: object = None, *, key: str = "", seconds: float = 40.0
        ) -> bytes:
            asked.append(seconds)
            clock[0] += seconds
            raise Unreachable("the server did not answer in time")

    monkeypatch.setattr(ServerApi, "of_home", lambda _: Stuck("http://127.0.0.1:1", ""))
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    assert send("ses_1", "later", wait=True, timeout=6.0, prompt_id="prm_1", home=Path()) == 5
    assert "it is not known whether it was done; repeat it with --prompt-id prm_1" in capsys.readouterr().err
    with pytest.raises(Unreachable):
        send("ses_1", "later", wait=True, home=Path())
    assert asked == [6.0, 40.0]
    # One that takes it late leaves less to wait.
    left = list[float]()
    monkeypatch.setattr(
        "interlock.cli.work.send.wait_for_prompt", lambda _, limits, **__: left.append(limits.spent_seconds)
    )
    monkeypatch.setattr("interlock.cli.work.send.submit", lambda *_: clock.__setitem__(0, clock[0] + 2.5))
    send("ses_1", "later", wait=True, timeout=6.0, home=Path())
    assert left == [2.5]


def test_a_prompt_is_queued_under_the_name_that_is_printed(served: Served) -> None:
    task_id = served.open("gate receipt")
    served.gates.await_reached("receipt")
    done = served.cli("send", task_id, "later")
    assert done.returncode == 0
    prompt_id = done.stdout.strip()
    assert served.task(task_id)["queue"]["waiting"] == [{"prompt_id": prompt_id, "text": "later"}]
    assert f"queued in {task_id}" in done.stderr
    # The same name is the same prompt; with other words it is refused.
    named = f"--prompt-id {prompt_id}"
    lines = (f"send {task_id} later {named} --json", f"send {task_id} other {named}", f"send {task_id} third")
    again, other, third = run_many(lines, served.home)
    told = {"session_id": task_id, "prompt_id": prompt_id, "state": "queued", "stage": "queued"}
    assert json.loads(again.out) == told
    assert (other.code, other.out) == (2, "")
    assert "1 ahead of it" in third.err
    assert len(served.task(task_id)["queue"]["waiting"]) == 2
    served.gates.open("receipt")


def test_a_full_queue_says_what_to_do_and_keeps_what_waits(served: Served) -> None:
    program = write_program(served.folder / "agent-full", command(STREAM, gates=served.folder / "gates"))
    body: Body = {"agent": "scripted", "driver": "claude-stream", "argv": [program], "cwd": str(served.folder)}
    body |= {"policy": {"max_queued": 1}, "prompt": "gate full"}
    task_id = str(served.api.ask("POST", "/api/tasks", body)["task_id"])
    served.gates.await_reached("full")
    served.send(task_id, "the only one")
    refused = served.cli("send", task_id, "one too many", "--wait")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "the queue is full: 1 waiting" in refused.stderr
    assert "take one back" in refused.stderr
    assert [one["text"] for one in served.task(task_id)["queue"]["waiting"]] == ["the only one"]
    served.gates.open("full")


# The answer


def test_the_answer_is_all_that_standard_output_gets(served: Served) -> None:
    task_id = served.open(title="reads from a pipe")
    done = subprocess.run(
        (*COMMAND, "send", "pipe", "-", "--wait", "--home", str(served.home)),
        input="say hello\\nthere",
        capture_output=True,
        encoding="utf-8",
        timeout=WAIT_SECONDS,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "hello\nthere\n")
    assert all(line.startswith(f"{task_id}: ") for line in done.stderr.splitlines())


def test_a_turn_that_failed_prints_what_was_kept_of_it_and_calls_it_partial(served: Served) -> None:
    task_id = scripted(served, "say half of it; fail boom", "fail boom")
    kept, failed = run_many([f"send {task_id} --wait {word}" for word in ("one", "two")], served.home)
    assert (kept.code, kept.out) == (3, "half of it\n")
    assert "partial" in kept.err
    assert "boom" in kept.err
    assert (failed.code, failed.out) == (1, "")
    assert "failed (server_error: API Error: boom)" in failed.err
    assert f"interlock why {task_id}" in failed.err
    states = [one["state"] for one in served.api.get(any_route(f"/api/tasks/{task_id}/turns"))["items"]]
    assert states == ["partial_failed", "failed"]


def test_a_question_blocks_and_comes_with_the_command_that_answers_it(served: Served) -> None:
    task_id = served.open()
    done = served.cli("send", task_id, "--wait", "ask Which colour? | red | green; say chosen")
    assert (done.returncode, done.stdout) == (6, "")
    assert "Which colour?" in done.stderr
    assert f"interlock answer {task_id} --option green" in done.stderr
    # A prompt behind it is blocked as well, unless somebody else answers.
    assert served.cli("send", task_id, "--wait", "say next", "--prompt-id", "prm_next").returncode == 6
    with served.following("send", task_id, "--wait", "--past-questions", "--prompt-id", "prm_next") as follower:
        follower.notes("queued, the agent is question")
        assert served.cli("answer", task_id, "--option", "green").returncode == 0
        assert follower.ends() == 0
        assert follower.stdout == "next\n"


def test_an_interrupted_turn_is_told_by_its_code(served: Served) -> None:
    task_id = served.open()
    with served.following("send", task_id, "--wait", "--json", "say a start; gate never") as follower:
        served.gates.await_reached("never")
        assert served.cli("interrupt", task_id).returncode == 0
        assert follower.ends() == 4
        told = json.loads(follower.stdout)
    assert (told["state"], told["ending"], told["answer"]) == ("interrupted", "ended", None)


def test_a_prompt_that_somebody_takes_back_is_not_waited_for(served: Served) -> None:
    task_id = served.open("gate busy")
    served.gates.await_reached("busy")
    with served.following("send", task_id, "--wait", "say never", "--prompt-id", "prm_back") as follower:
        follower.notes("queued")
        assert served.cli("queue", "rm", task_id, "prm_back").returncode == 0
        assert follower.ends() == 4
        assert "taken back" in follower.stderr
    served.gates.open("busy")


def test_a_timeout_stops_the_waiting_and_not_the_turn(served: Served) -> None:
    task_id = served.open()
    done = served.cli("send", task_id, "--wait", "--timeout", "0.3", "gate slow; say late", "--prompt-id", "prm_slow")
    assert (done.returncode, done.stdout) == (5, "")
    assert "the turn goes on" in done.stderr
    served.gates.await_reached("slow")
    assert turn_of(served, task_id)["state"] == "running"
    served.gates.open("slow")
    back = served.cli("send", task_id, "--prompt-id", "prm_slow", "--wait")
    assert (back.returncode, back.stdout) == (0, "late\n")


def test_a_timeout_ends_the_turn_or_takes_the_prompt_back_where_that_was_asked_for(served: Served) -> None:
    task_id = served.open("gate cancelled; hang")
    served.gates.await_reached("cancelled")
    (first,) = [one["prompt_id"] for one in served.api.get(any_route(f"/api/tasks/{task_id}/messages"))["items"]]
    line = f"send {task_id} --wait --timeout 0.2 --cancel-on-timeout"
    queued, sent = run_many((f"{line} later", f"{line} --prompt-id {first} --json"), served.home)
    assert (queued.code, queued.out) == (5, "")
    assert "taken back before it was sent" in queued.err
    assert (sent.code, json.loads(sent.out)["is_cancelled"]) == (5, True)
    assert "asked to stop" in sent.err
    until(lambda: turn_of(served, task_id)["state"] == "interrupted", "the turn is interrupted")
    assert served.task(task_id)["turns"] == 1


def test_ctrl_c_stops_the_waiting_and_says_how_to_come_back(served: Served) -> None:
    task_id = served.open()
    with served.following("send", task_id, "--wait", "gate ctrl; say kept on", "--prompt-id", "prm_ctrl") as follower:
        served.gates.await_reached("ctrl")
        follower.notes("working")
        assert follower.ends(signal.SIGINT) == 4
        assert follower.stdout == ""
        assert f"interlock wait {task_id}" in follower.stderr
        assert "Traceback" not in follower.stderr
    assert turn_of(served, task_id)["state"] == "running"
    served.gates.open("ctrl")
    assert served.cli("send", task_id, "--prompt-id", "prm_ctrl", "--wait").stdout == "kept on\n"


def test_what_an_agent_writes_cannot_move_the_cursor(served: Served) -> None:
    task_id = scripted(served, "say " + HOSTILE.replace("\r\n", " ").replace(";", "\\;"))
    done = served.cli("send", task_id, "--wait", "anything")
    assert done.returncode == 0
    assert not set(done.stdout) & {"\x1b", "\x07", "\x9b", "\u202e"}
    assert r"\x1b[31mred" in done.stdout


# Reply contracts


def test_a_reply_is_validated_or_it_is_a_failure(served: Served, tmp_path: Path) -> None:
    shape = tmp_path / "shape.json"
    shape.write_text('{"type": "object", "required": ["bugs"]}')
    task_id = scripted(served, 'say {"bugs": ["a"]}', "say none", 'say {"bogs": []}', 'say {"bugs": []}; fail boom')
    line = f"send {task_id} --wait --reply-json {shape} List"
    first, second, third, broken = run_many((line, line, f"{line} --json", line), served.home)
    assert (first.code, first.out) == (0, '{"bugs":["a"]}\n')
    prompts = [
        one for one in served.api.get(any_route(f"/api/tasks/{task_id}/messages"))["items"] if one["role"] == "user"
    ]
    assert prompts[0]["text"].startswith("List\n\nAnswer with one JSON value")
    assert (second.code, second.out) == (1, "")
    assert "no JSON value" in second.err
    told = json.loads(third.out)
    assert (third.code, told["state"], told["reply"]) == (1, "completed", None)
    assert "does not fit the schema" in told["reply_problem"]
    explained = run_many((f"why {task_id} --turn 3", f"why {task_id} --turn 1"), served.home)
    assert [one.out.count("not met: the reply does not fit the schema") for one in explained] == [1, 0]
    assert "reply contract:\n  json: met\n" in explained[1].out
    # Of a turn that failed no reply is read, whatever it looks like: it is partial.
    assert (broken.code, broken.out) == (3, '{"bugs": []}\n')


def test_a_marked_reply_is_found_also_by_whoever_comes_back(served: Served) -> None:
    task_id = scripted(served, "say I think.\\n<<<prm_mark\\nthe note\\nprm_mark>>>\\nDone.")
    line = f"send {task_id} --wait --prompt-id prm_mark"
    lines = (f"{line} --reply-sentinel Write", f"{line} --reply-sentinel", f"{line} --reply-word other")
    first, again, other = run_many(lines, served.home)
    assert (first.out, again.out) == ("the note\n", "the note\n")
    assert (other.code, other.out) == (1, "")


# What cannot be carried out


def test_a_line_that_cannot_be_carried_out_sends_nothing(served: Served) -> None:
    task_id = served.open()
    lines = {
        f"send {task_id}": "there is no prompt",
        f"send {task_id} --wiat": "there is no option --wiat",
        f"send {task_id} x --reply-sentinel": "add --wait",
        f"send {task_id} x --wait --timeout -1": "no time to wait",
        f"send {task_id} x --wait --reply-json /nowhere/x.json": "cannot be read",
        f"send {task_id} x --wait --reply-word a --reply-json /nowhere/x.json": "two reply contracts",
        "send ses_unknown x": "no session",
        f"send {task_id} x --prompt-id no/id": "no key",
    }
    for done in run_many(lines, served.home):
        assert (done.code, done.out) == (2, ""), done
        assert lines[done.command] in done.err
    assert served.cli("send", task_id, "  ").returncode == 2
    detail = served.task(task_id)
    assert (detail["turns"], detail["queue"]["waiting"]) == (0, [])


def test_without_a_server_nothing_is_known(tmp_path: Path) -> None:
    done = interlock("send", "ses_1", "x", env={"INTERLOCK_HOME": str(tmp_path)})
    assert done.returncode == 8
    assert "interlock up" in done.stderr


def test_a_look_while_the_server_is_away_finds_nothing_and_ends_nothing(tmp_path: Path) -> None:
    assert (
        prompt_wait._look(prompt_wait.PromptAsked(home=tmp_path, task_id="ses_1", prompt_id=PromptId("prm_1")), None)
        is None
    )


@pytest.mark.deep
def test_a_server_that_is_killed_and_started_again_is_asked_again(tmp_path: Path) -> None:
    with serving(tmp_path) as served:
        task_id = served.open()
        asked = ("send", task_id, "--wait", "say half; gate restart", "--prompt-id", "prm_1")
        with served.following(*asked) as follower:
            served.gates.await_reached("restart")
            follower.notes("working")
            served.kill()
            follower.notes("waiting up to")
            served.start()
            code = follower.ends()
            record = turn_of(served, task_id)
            # Its agent died with the server. How the turn ended is what the log says, whatever that is.
            assert record["state"] in ("partial_failed", "failed")
            assert code == (3 if record["state"] == "partial_failed" else 1)


@pytest.mark.deep
def test_a_server_that_stays_away_is_unreachable(tmp_path: Path) -> None:
    with serving(tmp_path) as served:
        task_id = served.open()
        with served.following("send", task_id, "--wait", "--patience", "0.5", "gate away") as follower:
            served.gates.await_reached("away")
            follower.notes("working")
            served.kill()
            assert follower.ends() == 8
            assert follower.stdout == ""
            assert "not known" in follower.stderr
