"""`interlock wait`: true at once if it is so, told by codes, and never longer than makes sense."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from interlock.cli.exit_codes import ExitCode
from interlock.cli.look.log_trouble import LogTrouble
from interlock.cli.server.api import ServerApi
from interlock.cli.work import wait as wait_module
from interlock.cli.work.until import WaitVerdict, judge, parse_until
from interlock.client.prompt_watch import PromptLook
from interlock.projections.task.questions import ANSWER_ON_ITS_WAY
from interlock.vocabulary.errors import UsageError
from tests.cli.badges import look_of
from tests.cli.homes import run_many
from tests.cli.serving import Served, serving

WORDS = ("ready", "done", "blocked", "idle", "gone")


def look(
    state: str | None = "completed",
    *,
    status: str | None = "COMPLETED",
    activity: str = "quiet",
    attention: str = "none",
    waiting: int = 0,
    is_open: bool = True,
    **more: object,
) -> PromptLook:
    live = {"activity": activity, "attention": attention}
    held = "the build is red" if waiting and not is_open else ""
    summary = {"task_id": "ses_1", "turn_id": "trn_1", "task_status": status, "live": live, "held": held, **more}
    queue = {"waiting": [{"prompt_id": f"prm_{one}", "text": "x"} for one in range(waiting)], "is_open": is_open}
    turn = None if state is None else {"turn_id": "trn_1", "state": state, "error_kind": "boom"}
    return look_of(summary, turn, queue=queue)


def met(now: PromptLook) -> set[str]:
    return {word for word in WORDS if _is_met(judge(parse_until(word), now))}


def _is_met(verdict: WaitVerdict | None) -> bool:
    return verdict is not None and verdict.is_met


UNREAD = {"activity": "unknown", "evidence": [{"source": "screen", "rule": "no_profile_fits"}]}
ASKING = look("waiting", status="PENDING_CONFIRMATION", activity="working", attention="approval")


def dialog(activity: str = "working", *, answered_seconds_ago: float | None = None, **more: str | None) -> PromptLook:
    """A dialog on a screen, answered just now, some time ago, or never."""
    given = datetime.now(UTC) - timedelta(seconds=answered_seconds_ago or 0)
    answer = {"source": "log", "rule": ANSWER_ON_ITS_WAY, "at": given.isoformat(), **more}
    seen = {"source": "screen", "rule": "claude.dialog"}
    evidence = [seen] if answered_seconds_ago is None else [answer, seen]
    live = {"activity": activity, "attention": "approval", "evidence": evidence}
    is_working = activity == "working"
    return look("running" if is_working else None, status="RUNNING" if is_working else None, live=live)


@pytest.mark.parametrize(
    ("now", "words"),
    [
        (look(), {"ready", "done", "idle"}),
        (look(None, status=None), {"ready", "idle"}),
        (look("failed", status="FAILED"), {"ready", "done", "idle"}),
        (look("completed", waiting=1), set()),
        (look("completed", status="PENDING"), set()),
        # The record is read after the session: its turn may have ended meanwhile, and the next one be queued.
        (look("completed", status="RUNNING", activity="working"), set()),
        (look("running", status="RUNNING", activity="working"), set()),
        (look("completed", activity="settling"), {"done", "idle"}),
        (look("completed", activity="gone"), {"done", "idle", "gone"}),
        (look("completed", attention="auth"), {"done", "idle", "blocked"}),
        (ASKING, {"blocked"}),
        (look("completed", waiting=1, is_open=False), {"blocked"}),
        (look("completed", status="DELETE", activity="gone"), {"done", "idle", "gone"}),
        (look("completed", is_supervised=False, live=None), {"done", "idle", "gone"}),
        (look("abandoned", status="UNKNOWN", is_supervised=False, live=None), set()),
    ],
)
def test_each_condition_is_what_its_word_says(now: PromptLook, words: set[str]) -> None:
    assert met(now) == words


@pytest.mark.parametrize(
    ("state", "code"),
    [("completed", 0), ("failed", 1), ("partial_failed", 3), ("interrupted", 4), ("timed_out", 5)],
)
def test_done_is_told_by_the_record_of_the_turn(state: str, code: int) -> None:
    verdict = judge(parse_until("done"), look(state))
    assert verdict is not None
    assert (verdict.is_met, verdict.code) == (True, code)


@pytest.mark.parametrize(
    ("word", "now", "code"),
    [
        ("done", ASKING, ExitCode.BLOCKED),
        ("idle", ASKING, ExitCode.BLOCKED),
        ("ready", look(attention="auth"), ExitCode.BLOCKED),
        ("done", look("completed", waiting=1, is_open=False), ExitCode.BLOCKED),
        ("ready", look("completed", status="DELETE", live=None), ExitCode.FAILED),
        ("blocked", look("completed", is_supervised=False, live=None), ExitCode.UNKNOWN),
        ("done", look("abandoned", status="UNKNOWN", is_supervised=False, live=None), ExitCode.UNKNOWN),
        ("ready", look(live=UNREAD), ExitCode.UNKNOWN),
        ("idle", look(status="PENDING", waiting=1, live=UNREAD), ExitCode.UNKNOWN),
        ("done", look("completed", status="PENDING", waiting=1, live=UNREAD), ExitCode.UNKNOWN),
    ],
)
def test_what_cannot_come_by_itself_is_not_waited_for(word: str, now: PromptLook, code: ExitCode) -> None:
    verdict = judge(parse_until(word), now)
    assert verdict is not None
    assert (verdict.is_met, verdict.code) == (False, code)


@pytest.mark.parametrize("turn", ["unknown", None])
@pytest.mark.parametrize("word", ["done", "idle", "ready"])
def test_an_end_that_is_lost_is_not_waited_for_unless_a_prompt_follows(word: str, turn: str | None) -> None:
    """Also where not even the newest turn is known: that the last one that could be read is over says nothing."""
    verdict = judge(parse_until(word), look(turn, turn_state="unknown"))
    assert verdict is not None
    assert (verdict.is_met, verdict.code, verdict.why) == (False, ExitCode.UNKNOWN, "unknown · log damaged")
    assert judge(parse_until(word), look(turn, turn_state="unknown", waiting=1)) is None


def test_what_was_answered_blocks_nobody_though_the_screen_still_shows_it() -> None:
    now = dialog(answered_seconds_ago=0)
    assert met(now) == set()
    assert [judge(parse_until(word), now) for word in ("done", "idle", "ready")] == [None] * 3
    # Nor is it ready as long as that stands there.
    assert met(dialog("quiet", answered_seconds_ago=0)) == {"idle"}


def test_a_log_that_cannot_be_written_is_waited_out() -> None:
    proof = {"source": "log", "rule": "log_unavailable", "where": "the disk is full"}
    live = {"activity": "unknown", "attention": "error", "evidence": [proof]}
    now = look("running", status="RUNNING", live=live)
    assert [judge(parse_until(word), now) for word in ("done", "idle", "ready")] == [None] * 3


def test_json_at_the_end_of_the_time_carries_why_nothing_is_recorded(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trouble = LogTrouble(tmp_path, "waiting")
    trouble.problem = "the disk is full"
    waiting = wait_module._Waiting(
        tmp_path, ["ses_1"], parse_until("done"), is_any=False, past_questions=False, json=True
    )
    waiting.tell_open(trouble)
    nothing = {"turn_id": None, "state": None, "badge": None}
    told = {"session_id": "ses_1", "is_met": False, "why": "not known", **nothing, "log_problem": "the disk is full"}
    assert json.loads(capsys.readouterr().out) == told


@pytest.mark.parametrize("now", [dialog(), dialog(answered_seconds_ago=60), dialog(answered_seconds_ago=0, at=None)])
def test_what_was_not_answered_or_long_ago_blocks(now: PromptLook) -> None:
    assert met(now) == {"blocked"}
    verdict = judge(parse_until("done"), now)
    assert verdict is not None
    assert verdict.code is ExitCode.BLOCKED


def test_questions_are_waited_out_where_somebody_else_answers() -> None:
    assert judge(parse_until("done"), ASKING, past_questions=True) is None


def test_a_status_is_one_of_the_task_or_of_the_agent() -> None:
    assert _is_met(judge(parse_until("status:running"), look("running", status="RUNNING")))
    assert _is_met(judge(parse_until("status:stalled"), look("running", status="RUNNING", activity="stalled")))
    assert judge(parse_until("status:FAILED"), look()) is None


@pytest.mark.parametrize("text", ["finished", "", "status:", "status:nonsense", "Done"])
def test_what_nobody_can_wait_for_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        parse_until(text)


# The command


@pytest.fixture
def served(acting_server: Served) -> Served:
    return acting_server


def test_what_is_so_is_true_at_once(served: Served) -> None:
    task_id = served.done("say hello", title="hello")
    served.shows(task_id, attention="none")
    lines = [f"wait {task_id} --until {word} --timeout 10" for word in ("done", "idle", "ready", "status:completed")]
    for done in run_many([*lines, f"wait {task_id}"], served.home):
        assert (done.code, done.err) == (0, ""), done
        assert done.out.startswith(task_id)


def test_the_end_of_a_turn_is_heard(served: Served) -> None:
    task_id = served.open("gate heard; say half; fail boom")
    served.gates.await_reached("heard")
    with served.following("wait", task_id, "--json") as follower:
        follower.notes("working")
        served.gates.open("heard")
        assert follower.ends() == 3
        told = json.loads(follower.stdout)
    assert (told["session_id"], told["is_met"], told["state"]) == (task_id, True, "partial_failed")


def test_a_question_is_heard_and_ends_the_waiting_for_an_end(served: Served) -> None:
    task_id = served.open("gate asks; ask Which? | red | green; say ok")
    served.gates.await_reached("asks")
    with (
        served.following("wait", task_id, "--until", "blocked") as blocked,
        served.following("wait", task_id, "--until", "done") as done,
    ):
        blocked.notes("working")
        done.notes("working")
        served.gates.open("asks")
        assert (blocked.ends(), done.ends()) == (0, 6)
        assert blocked.stdout == f"{task_id}  question\n"
        assert f"interlock answer {task_id} --option red" in blocked.stderr
        assert (done.stdout, "Which?" in done.stderr) == ("", True)
    # Of any, the one that comes true counts, and not the first of which something is known.
    other = served.done("say other")
    assert served.cli("wait", task_id, other, "--any").returncode == 0


def test_a_blocked_session_says_what_a_yes_would_run(served: Served) -> None:
    task_id = served.open('request Bash {"command": "make deploy"} -> ok; say ok')
    waited = served.cli("wait", task_id, "--until", "blocked")
    assert (waited.returncode, waited.stdout) == (0, f"{task_id}  approval\n")
    assert '{"command": "make deploy"}' in waited.stderr
    assert f"interlock approve {task_id}" in waited.stderr


def test_that_nobody_runs_a_session_is_said_only_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    lost = look("abandoned", status="UNKNOWN", is_supervised=False, live=None)
    monkeypatch.setattr(wait_module, "look_at", lambda _api, _task_id: lost)
    monkeypatch.setattr(ServerApi, "of_home", lambda home: home)
    waiting = wait_module._Waiting(
        Path("home"), ["ses_1"], parse_until("done"), is_any=False, past_questions=False, json=True
    )
    waiting._look("ses_1")
    assert (waiting._verdicts, list(waiting._doubtful)) == ({}, ["ses_1"])
    waiting._doubtful["ses_1"] -= 5.0
    waiting._look("ses_1")
    assert waiting.code == ExitCode.UNKNOWN


def test_an_error_that_passes_is_waited_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The agent works on behind it, rests with it for a moment, and then ends its turn."""
    seen = [
        look("running", status="RUNNING", activity="working", attention="error"),
        look("running", status="RUNNING", activity="quiet", attention="error"),
        look("running", status="RUNNING", activity="working"),
        look("running", status="RUNNING", activity="quiet", attention="error"),
        look("completed"),
    ]
    monkeypatch.setattr(wait_module, "look_at", lambda _api, _task_id: seen.pop(0))
    monkeypatch.setattr(ServerApi, "of_home", lambda home: home)
    waiting = wait_module._Waiting(
        Path("home"), ["ses_1"], parse_until("done"), is_any=False, past_questions=False, json=True
    )
    for left in (4, 3, 2, 1):
        waiting._look("ses_1")
        assert (waiting._verdicts, len(seen)) == ({}, left)
        if left == 3:
            waiting._doubtful["ses_1"] -= 5.0  # it lasted for long, and passed: the next one is a new one
    waiting._look("ses_1")
    assert (waiting.code, waiting._verdicts["ses_1"].is_met) == (ExitCode.COMPLETED, True)


def test_an_error_at_rest_ends_the_waiting_once_it_lasted(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = look("running", status="RUNNING", activity="quiet", attention="error")
    monkeypatch.setattr(wait_module, "look_at", lambda _api, _task_id: broken)
    monkeypatch.setattr(ServerApi, "of_home", lambda home: home)
    waiting = wait_module._Waiting(
        Path("home"), ["ses_1"], parse_until("done"), is_any=False, past_questions=False, json=True
    )
    waiting._look("ses_1")
    assert waiting._verdicts == {}
    waiting._doubtful["ses_1"] -= 5.0
    waiting._look("ses_1")
    assert waiting.code == ExitCode.FAILED


def test_any_is_the_first_and_all_are_all(served: Served) -> None:
    slow, fast = served.open("gate late; fail boom"), served.done("say fast")
    served.gates.await_reached("late")
    first = served.cli("wait", slow, fast, "--any", "--timeout", "10")
    assert (first.returncode, first.stdout) == (0, f"{fast}  completed\n")
    late = served.cli("wait", slow, fast, "--all", "--timeout", "0.3")
    assert late.returncode == 5
    assert f"{slow}: working" in late.stderr
    assert "nothing was changed" in late.stderr
    with served.following("wait", slow, fast) as both:
        both.says(fast)
        served.gates.open("late")
        assert both.ends() == 1


@pytest.mark.deep
def test_the_end_of_an_agent_is_heard(served: Served) -> None:
    task_id = served.open("gate goes; exit 0")
    served.gates.await_reached("goes")
    with served.following("wait", task_id, "--until", "gone") as follower:
        follower.notes("working")
        served.gates.open("goes")
        assert follower.ends() == 0


@pytest.mark.deep
def test_ctrl_c_stops_the_waiting(served: Served) -> None:
    task_id = served.open("gate waits")
    served.gates.await_reached("waits")
    with served.following("wait", task_id) as follower:
        follower.notes("working")
        assert follower.interrupted() == 4
        assert "Traceback" not in follower.stderr
    served.gates.open("waits")


def test_lines_that_cannot_be_carried_out(served: Served) -> None:
    task_id = served.open()
    lines = ("wait", f"wait {task_id} --until never", f"wait {task_id} --any --all", "wait ses_unknown")
    for done in run_many([*lines, f"wait {task_id} --timeout nan"], served.home):
        assert (done.code, done.out) == (2, ""), done


@pytest.mark.deep
def test_a_session_that_goes_on_is_found_again_after_a_restart(tmp_path_factory: pytest.TempPathFactory) -> None:
    with serving(tmp_path_factory.mktemp("again")) as served:
        task_id = served.done("say hello")
        with served.following("wait", task_id, "--until", "status:failed") as follower:
            follower.notes("done")
            served.kill()
            follower.notes("waiting up to")
            served.start()
            follower.notes("the server is back")
            served.send(task_id, "fail boom")
            assert follower.ends() == 0
