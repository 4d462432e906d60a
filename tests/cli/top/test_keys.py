"""Every key of the board, at two sizes, over a real server with puppets."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from textual.events import MouseScrollDown, MouseScrollUp
from textual.widgets import Input

from interlock.agents.observations import ApprovalAsked, TextArrived, ToolCalled, TurnEnded, TurnEnding
from interlock.cli.top.app import TopApp
from interlock.cli.top.keys import KEYS
from interlock.cli.top.themes import DARK, LIGHT
from interlock.vocabulary.wire.requests import AccessRole
from tests.cli.top.stage import COLOURS, SIZES, YES_NO, House
from tests.client.waiting import until
from tests.contract.harness import run

# The second size waits for the deep suite: each board costs its time, and the tests of bad weather are of that size.
at_both_sizes = pytest.mark.parametrize(
    "size", [pytest.param(SIZES[0], id="80x24"), pytest.param(SIZES[1], id="120x36", marks=pytest.mark.deep)]
)


def done(text: str = "done") -> TurnEnded:
    return TurnEnded(ending=TurnEnding.NATURAL, text=text)


@at_both_sizes
def test_a_question_is_approved_and_another_one_denied(size: tuple[int, int]) -> None:
    async def story() -> None:
        house = House()
        async with house.serving():
            first = await house.asking("first", "May I look?", name="Bash", args={"command": "ls -la"})
            async with house.board(size) as seat:
                await seat.sees("first", "approval", "May I look?", "ls -la", "1  Yes", "2  No", "a approve", "d deny")
                assert "Yes, always" not in seat.text  # of a shell
                await seat.press("a")
                await until(lambda: first.decisions)
                assert (first.decisions[0].is_allowed, first.decisions[0].option_id) == (True, "y")
                await seat.sees("approved with 'Yes'")
                first.say(done())
                second = await house.asking("second", "May I write?")
                await seat.needs("second")
                await seat.press("n")
                await seat.is_asked("May I write?")
                await seat.press("d")
                await until(lambda: second.decisions)
                assert (second.decisions[0].is_allowed, second.decisions[0].option_id) == (False, "n")
                await seat.sees("denied with 'No'")

    run(story())


@at_both_sizes
def test_an_option_is_chosen_by_its_number_and_words_are_a_reply(size: tuple[int, int]) -> None:
    async def story() -> None:
        house = House()
        async with house.serving():
            first = await house.asking("first", "Which colour?", options=COLOURS)
            async with house.board(size) as seat:
                await seat.sees("Which colour?", "1  red", "3  blue", "1-3 choose", "i reply")
                await seat.press("9")
                await seat.sees("it offers 3 answers")
                await seat.press("2")
                await until(lambda: first.decisions)
                assert (first.decisions[0].is_allowed, first.decisions[0].option_id) == (True, "green")
                second = await house.asking("second", "Which port?", options=())
                await seat.needs("second")
                await seat.press("n")
                await seat.is_asked("Which port?")
                await seat.press("i")
                await seat.sees("second: your answer", "enter sends")
                await seat.types("8080 or so")
                await seat.press("enter")
                await until(lambda: second.decisions)
                assert second.decisions[0].text == "8080 or so"

    run(story())


def test_what_is_no_answer_answers_nothing() -> None:
    async def story() -> None:
        house = House()
        async with house.serving():
            yes_no = await house.asking("first", "May I?", options=YES_NO)
            async with house.board() as seat:
                await seat.sees("a approve")
                await seat.press("i")  # words are none
                await seat.sees("that key is no answer to this question")
                seat.app.grace_seconds = 3600.0  # what appears under a finger is not answered by it
                await seat.press("a")
                await seat.sees("this question has only just appeared")
                assert not yes_no.decisions
                seat.app.grace_seconds = 0.0
                await seat.press("a")
                await until(lambda: yes_no.decisions)
                yes_no.say(done())
                colours = await house.asking("second", "Which?", options=COLOURS)
                await seat.needs("second")
                await seat.press("n")
                await seat.is_asked("Which?")
                text = await seat.sees("1-3 choose")
                assert "a approve" not in text
                for key in ("a", "d"):
                    await seat.press(key)
                    await seat.sees("that key is no answer to this question")
                    await seat.press("escape")
                    await seat.misses("that key is no answer")
                assert not colours.decisions
                await seat.press("home" if seat.app.arranged.ids[0] == "ses_first" else "G", "d")
                await seat.sees("no open question here; n: next agent waiting for you")
                await seat.press("escape")
                await seat.misses("nothing is asked here")
                await seat.press("v")
                await seat.sees("no open question here; n: next agent waiting for you")

    run(story())


def test_the_answer_goes_to_the_question_that_is_shown() -> None:
    async def story() -> None:
        house = House()
        async with house.serving():
            asked = await house.asking("first", "May I read?")
            asked.say(ApprovalAsked(request_id="r2", question="May I write?", options=YES_NO))
            async with house.board() as seat:
                await seat.sees("approval 1 of 2", "May I read?")
                await seat.press("]")
                await seat.sees("approval 2 of 2", "May I write?")
                await seat.press("[")
                await seat.sees("approval 1 of 2")
                await seat.press("]")
                await seat.sees("approval 2 of 2")
                await seat.press("d")
                await until(lambda: asked.decisions)
                assert asked.decisions[0].request_id == "r2"

    run(story())


@at_both_sizes
def test_a_prompt_is_sent_and_one_that_waits_is_counted(size: tuple[int, int]) -> None:
    async def story() -> None:
        house = House()
        async with house.serving():
            await house.open("first")
            async with house.board(size) as seat:
                await seat.sees("Nothing was said yet")
                await seat.press("s")
                await seat.sees("first: your prompt")
                await seat.types("hello")
                await seat.press("ctrl+j")
                await seat.types("there")
                await seat.press("enter")
                puppet = await until(lambda: house.puppet("hello\nthere"))
                await seat.sees("hello", "working")
                await seat.press("s")
                await seat.types("and then")
                await seat.press("enter")
                await seat.sees("1 in the queue")
                await seat.press("s")
                await seat.sees("1 in the queue before it")
                await seat.press("escape")
                puppet.say(done("all of it"))
                await seat.sees("all of it")

    run(story())


@pytest.mark.deep
def test_words_that_were_left_are_there_again_for_the_same_session_only() -> None:
    async def story() -> None:
        house = House()
        async with house.serving():
            await house.open("first")
            await house.open("second")
            async with house.board() as seat:
                await seat.selects("first")
                await seat.press("s")
                await seat.types("half of")
                await seat.press("escape")
                await seat.press("down")
                await seat.selects("second")
                await seat.press("s")
                await seat.sees("second: your prompt")
                assert "half of" not in seat.text
                await seat.press("escape", "up")
                await seat.selects("first")
                await seat.press("s")
                await seat.sees("half of")
                await seat.press("enter")
                await until(lambda: house.puppet("half of"))

    run(story())


@at_both_sizes
def test_a_turn_is_interrupted_and_an_agent_stopped_only_after_a_yes(size: tuple[int, int]) -> None:
    async def story() -> None:
        house = House()
        async with house.serving():
            puppet = await house.open("first", "go")
            assert puppet is not None
            async with house.board(size) as seat:
                await seat.sees("working")
                await seat.press("c")
                await seat.sees("interrupt the turn?", "y yes")
                await seat.press("n")
                await seat.sees("cancelled")
                await seat.press("x", "enter")
                await seat.sees("cancelled")
                assert (puppet.interrupts, puppet.stops) == (0, 0)
                await seat.press("c", "y")
                await until(lambda: puppet.interrupts)
                await seat.sees("asked to end the turn")
                await seat.press("x")
                await seat.sees("stop the agent, with all that it started?")
                await seat.press("y")
                await until(lambda: puppet.stops)
                await seat.sees("no agent runs", "interlock start")

    run(story())


@at_both_sizes
def test_pages_come_up_and_are_left_with_escape_and_one_that_cannot_be_asked_for_says_so(size: tuple[int, int]) -> None:
    async def story() -> None:
        house = House()
        async with house.serving():
            await house.asking("first", "May I?", name="Bash", args={"command": "ls"})
            async with house.board(size) as seat:
                await seat.sees("a approve")
                pages = {
                    "w": ("first: why it has this status", "evidence:", "the prompt was accepted"),
                    "P": ("first: process history", "STATE", "running"),
                    "u": ("first: usage", "TURN", "all"),
                    "o": ("first: its terminal", "has no terminal", "interlock logs -f ses_first"),
                    "v": ("first: what it asks", '"command": "ls"'),
                    "?": ("keys", "the session above", "esc closes"),
                }
                for key, words in pages.items():
                    await seat.press(key)
                    await seat.sees(*words)
                    await seat.press("escape")
                    await seat.misses("esc closes, arrows scroll")
                house.port, port = 1, house.port
                await seat.press("u")
                await seat.sees("this could not be asked")
                house.port = port

    run(story())


@at_both_sizes
def test_moving_through_the_list(size: tuple[int, int]) -> None:
    async def story() -> None:
        house = House()
        async with house.serving():
            for title in ("alpha", "beta", "gamma", "delta"):
                await house.open(title)
            async with house.board(size) as seat:
                await seat.selects("alpha")
                for key, name in (
                    ("down", "beta"),
                    ("j", "gamma"),
                    ("k", "beta"),
                    ("up", "alpha"),
                    ("up", "alpha"),
                    ("G", "delta"),
                    ("down", "delta"),
                    ("home", "alpha"),
                    ("end", "delta"),
                    ("home", "alpha"),
                    ("pagedown", "delta"),
                    ("pageup", "alpha"),
                ):
                    await seat.press(key)
                    assert seat.app.called == name, key
                await seat.selects("alpha")
                row = next(at for at, line in enumerate(seat.text.splitlines()) if "gamma" in line)
                await seat.pilot.click(offset=(4, row))
                await seat.selects("gamma")
                await seat.sees("▌· gamma")

    run(story())


@pytest.mark.deep
def test_the_next_who_needs_somebody() -> None:
    async def story() -> None:
        house = House()
        async with house.serving():
            await house.open("calm")
            async with house.board() as seat:
                await seat.selects("calm")
                await seat.press("n")
                await seat.sees("no agent is waiting for you")
                await house.asking("first")
                await house.asking("second")
                await seat.sees("2 need you")
                assert seat.app.called == "calm"  # it stays, though others came before it
                seen = []
                for _ in range(3):
                    await seat.press("n")
                    seen.append(seat.app.called)
                assert seen[0] == seen[2] != seen[1]
                assert {*seen} == {"first", "second"}

    run(story())


@at_both_sizes
def test_a_filter_shows_what_matches_and_says_what_it_hides(size: tuple[int, int]) -> None:
    async def story() -> None:
        house = House()
        async with house.serving():
            await house.open("alpha parser", agent="claude")
            await house.open("beta writer", agent="codex")
            async with house.board(size) as seat:
                await seat.sees("alpha parser", "beta writer")
                await seat.press("/")
                await seat.types("CODEX")
                await seat.press("enter")
                await seat.misses("alpha parser")
                await seat.sees("beta writer", "1 do not match 'CODEX'")
                await seat.selects("beta writer")
                await seat.press("/")
                await seat.types("zzz")
                await seat.press("enter")
                await seat.sees("Nothing to show.", "2 do not match")
                await seat.press("escape")
                await seat.sees("alpha parser", "beta writer")
                await seat.press("/")
                await seat.types("beta")
                await seat.misses("alpha parser")
                await seat.press("escape")
                await seat.sees("alpha parser")

    run(story())


@pytest.mark.deep
def test_those_that_ended_are_shown_when_asked_for() -> None:
    async def story() -> None:
        house = House()
        async with house.serving():
            await house.open("kept")
            await house.open("buried")
            async with house.client() as client:
                task = client.task("ses_buried")
                await task.delete()
            async with house.board() as seat:
                await seat.sees("kept", "1 that ended (e shows them)")
                assert "buried" not in seat.text
                await seat.press("e")
                await seat.sees("buried", "archived")
                await seat.press("e")
                await seat.misses("archived")

    run(story())


@at_both_sizes
def test_the_transcript_has_the_focus_after_tab_and_is_scrolled_by_keys_and_wheel(size: tuple[int, int]) -> None:
    async def story() -> None:
        house = House()
        async with house.serving():
            puppet = await house.open("first", "go")
            assert puppet is not None
            puppet.say(TextArrived(text="\n".join(f"line {at:03}" for at in range(200))))
            async with house.board(size) as seat:
                await seat.sees("line 199")
                await seat.press("tab", "home")
                await seat.sees("line 000", "go")
                await seat.press("pagedown")
                await seat.misses("line 000")
                await seat.press("up", "k")
                puppet.say(TextArrived(text="\nline 200"))
                await until(lambda: "line 200" in str(seat.app.selected and seat.app.selected.messages[-1].text))
                await seat.press("down")
                assert "line 200" not in seat.text  # it stays where somebody reads
                await seat.press("G")
                await seat.sees("line 200")
                puppet.say(TextArrived(text="\nline 201"))
                await seat.sees("line 201")
                for event in (MouseScrollUp, MouseScrollDown):
                    await seat.pilot._post_mouse_events([event], "#transcript", button=0)
                    if event is MouseScrollUp:
                        await seat.misses("line 201")
                await seat.sees("line 201")
                await seat.press("tab", "down")
                assert seat.app.called == "first"

    run(story())


def test_light_and_dark_and_leaving_ends_the_board_and_nothing_else() -> None:
    async def story() -> None:
        house = House()
        async with house.serving():
            puppet = await house.open("first", "go")
            assert puppet is not None
            async with house.board(is_light=True) as seat:
                await seat.selects("first")
                assert seat.app.theme == LIGHT.name
                await seat.press("T")
                assert seat.app.theme == DARK.name
                await seat.press("T")
                assert seat.app.theme == LIGHT.name
                await seat.press("f5")
                await seat.sees("looking again")
                await seat.press("q")
                await until(lambda: seat.app.return_code is not None)
                assert seat.app.return_code == 0
            assert (puppet.interrupts, puppet.stops) == (0, 0)

    run(story())


def test_a_frame_that_is_due_while_the_board_closes_draws_nothing() -> None:
    async def story() -> None:
        house = House()
        async with house.serving():
            await house.open("first")
            async with house.board((200, 50)) as seat:
                await seat.selects("first")
                app = seat.app
            drawn = app.redraws
            app._is_unmounted = False  # the screens are gone before the board hears that it is unmounted
            app._frame()
            assert app.redraws == drawn

    run(story())


@pytest.mark.parametrize("key", ["s", *(pytest.param(key, marks=pytest.mark.deep) for key in ("", "?", "/", "c", "z"))])
def test_ctrl_c_leaves_the_board_and_every_page_of_it(key: str) -> None:
    async def story() -> None:
        house = House()
        async with house.serving():
            await house.open("first")
            async with house.board() as seat:
                await seat.selects("first")
                await seat.press(*([key] if key else ()), "ctrl+c")
                await until(lambda: seat.app.return_code == 0)

    run(story())


def test_who_may_only_look_is_told_so() -> None:
    async def story() -> None:
        house = House(role=AccessRole.OBSERVER)
        async with house.serving():
            asked = await house.asking("first")
            async with house.board() as seat:
                await seat.sees("a approve")
                await seat.press("a")
                await seat.sees("not done:")
                assert not asked.decisions

    run(story())


@pytest.mark.deep
def test_tools_take_a_line_each_and_are_told_apart_from_words() -> None:
    async def story() -> None:
        house = House()
        async with house.serving():
            puppet = await house.open("first", "go")
            assert puppet is not None
            puppet.say(ToolCalled(call_id="c1", name="Read", args={"path": "a.py"}), TextArrived(text="half an answer"))
            async with house.board() as seat:
                text = await seat.sees("tool Read", "path: a.py", "half an answer", "[partial: still being written]")
                assert next(line for line in text.splitlines() if "tool Read" in line).strip().endswith("path: a.py")
                puppet.say(TurnEnded(ending=TurnEnding.ERROR, error_message="the provider is gone"))
                await seat.sees("[partial: the turn did not complete]", "the provider is gone")

    run(story())


def test_every_key_of_the_table_is_bound_and_does_something() -> None:
    for _, keys in KEYS:
        for key in keys:
            assert hasattr(TopApp, f"action_{key.action.partition('(')[0]}"), key
    bound = [name for _, keys in KEYS for key in keys for name in key.keys.split(",")]
    assert len(bound) == len(set(bound))


def test_what_is_done_is_unseen_until_it_was_selected_for_a_moment_or_is_marked() -> None:
    async def story() -> None:
        house = House()
        async with house.serving():
            for title in ("first", "second"):
                puppet = await house.open(title, f"prompt of {title}")
                assert puppet is not None
                puppet.say(done())
            async with house.board((120, 36)) as seat:
                await seat.sees("DONE", "done · unseen")
                await seat.selects("first")
                await seat.sees("IDLE", "DONE", "ready for a prompt")  # the selected one was seen
                await seat.press("up")
                await seat.selects("second")
                await seat.press("m")
                await seat.misses("DONE")
                await seat.press("m")
                await seat.sees("nothing to mark")

    run(story())


def test_an_observer_marks_nothing_by_looking() -> None:
    async def story() -> None:
        house = House(role=AccessRole.OBSERVER)
        async with house.serving():
            puppet = await house.open("first", "prompt of first")
            assert puppet is not None
            puppet.say(done())
            async with house.board() as seat:
                await seat.sees("done · unseen")
                await seat.selects("first")
                await seat.press("m")
                await seat.sees("an observer only looks")
                await seat.sees("done · unseen")

    run(story())


def test_the_queue_is_paused_and_goes_on_the_agent_is_restarted_and_the_session_archived() -> None:
    async def story() -> None:
        house = House()
        async with house.serving():
            puppet = await house.open("first", "go")
            assert puppet is not None
            puppet.say(done())
            async with house.board() as seat:
                await seat.selects("first")
                await seat.press("p")
                await seat.sees("queue paused")
                await seat.press("s")
                await seat.types("later")
                await seat.press("enter")
                await seat.sees("idle · queue paused")
                assert house.puppet("later") is None
                await seat.press("p")
                await until(lambda: house.puppet("later"))
                await seat.press("R")
                await seat.sees("start it again?")
                await seat.press("n")
                await seat.sees("cancelled")
                count = len(house.driver.puppets)
                await seat.press("R", "y")
                await until(lambda: len(house.driver.puppets) > count)
                await seat.press("X")
                await seat.sees("archive it?")
                await seat.press("y")
                await seat.sees("archived; e shows ended sessions")
                await seat.press("e")
                await seat.sees("· first")

    run(story())


def test_enter_opens_what_has_no_terminal_at_full_size() -> None:
    async def story() -> None:
        house = House()
        async with house.serving():
            await house.open("first")
            async with house.board() as seat:
                await seat.selects("first")
                await seat.press("enter")
                await until(lambda: seat.app.is_zoomed)

    run(story())


def test_a_new_session_is_asked_for_on_one_form_that_says_what_is_wrong_and_keeps_what_was_typed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "config.toml"
    agents = ("alpha", "beta", "bravo")
    config.write_text("".join(f'[agents.{name}]\nargv = ["true"]\ndriver = "claude-stream"\n' for name in agents))
    monkeypatch.setenv("INTERLOCK_CONFIG", str(config))
    monkeypatch.setattr(shutil, "which", lambda name, *_, **__: "/bin/true" if name == "true" else None)
    monkeypatch.chdir(tmp_path)

    async def story() -> None:
        house = House()
        async with house.serving(), house.board() as seat:
            await seat.sees("There is no session yet.", "alpha", "1. N starts a session")
            await seat.press("N")
            await seat.sees("new session", "‹alpha›", str(tmp_path)[:50], "‹in this folder›", "enter next")
            await seat.press("right")
            await seat.sees("‹beta›")
            await seat.press("b")
            await seat.sees("‹bravo›")
            await seat.press("b", "left")
            await seat.sees("‹alpha›")
            row = next(at for at, line in enumerate(seat.text.splitlines()) if "‹alpha›" in line)
            column = seat.text.splitlines()[row].index("beta")
            await seat.pilot.click(offset=(column, row))
            await seat.sees("‹beta›")
            await seat.press("tab", "end")
            await seat.types("/nowhere")
            await seat.press("enter")
            await seat.sees("there is no such folder")
            await seat.press("tab", "tab")
            await seat.sees("enter starts it")
            await seat.types("say hello")
            await seat.press("enter")
            await seat.sees("there is no such folder")
            await seat.press("escape")
            await seat.sees("kept: N takes it up again")
            await seat.press("N")
            await seat.sees("‹beta›", "say hello")
            assert seat.app.screen.query_one("#folder", Input).value == f"{tmp_path}/nowhere"
            await seat.press("tab", "ctrl+u")
            await seat.types(str(tmp_path))
            await seat.press("enter")
            await seat.sees("space chooses")
            await seat.press("right", "enter", "enter")
            # The puppets' house has no such driver: the server refuses it, and the form is as it was.
            await seat.sees("not done:")
            await seat.press("N")
            await seat.sees("‹beta›", "‹in a git worktree of its own", "say hello")
            await seat.press("escape")

    run(story())
