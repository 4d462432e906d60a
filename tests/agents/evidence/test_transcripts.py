"""Transcripts of the real Claude Code and Codex: whose prompt, which answer, how it ended; and files as they grow."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.agents.evidence.claude_transcript import ClaudeTranscript
from interlock.agents.evidence.codex_transcript import CodexTranscript
from interlock.agents.evidence.transcript_turns import (
    KEPT_TURNS,
    PromptSeen,
    TranscriptNews,
    TranscriptParser,
    TranscriptTurns,
)
from interlock.agents.evidence.transcripts import TranscriptReader, find_claude_transcript
from interlock.agents.observations import (
    ContextFilled,
    MessageEnded,
    SessionNamed,
    TextArrived,
    ThoughtArrived,
    ToolCalled,
    ToolReturned,
    Traced,
    TurnEnded,
    TurnEnding,
    UsageReported,
    UsageScope,
    Warned,
)

RECORDED: Final = Path(__file__).parents[2] / "recordings" / "transcripts"
PARSERS: Final[dict[str, type[ClaudeTranscript | CodexTranscript]]] = {
    "claude": ClaudeTranscript,
    "codex": CodexTranscript,
}
NATURAL, INTERRUPTED, ERROR = TurnEnding.NATURAL, TurnEnding.INTERRUPTED, TurnEnding.ERROR
COMMON: Final = [
    ("SCN:turn go on", "One.\n\nTwo three.", NATURAL),
    ("SCN:tool", "The tool ran.\n\nIt said hi.", NATURAL),
    ("SCN:fail", "It failed.", NATURAL),
]


def read(name: str) -> tuple[list[TranscriptNews], TranscriptTurns]:
    parser: TranscriptParser = PARSERS[name.partition("-")[0]]()
    news, fold = [], TranscriptTurns()
    for line in (RECORDED / f"{name}.jsonl").read_bytes().splitlines():
        told = parser.feed(line)
        news += told
        fold.add(told)
    return news, fold


def story(fold: TranscriptTurns) -> list[tuple[str, str, TurnEnding | None]]:
    return [(turn.prompts[0], turn.answer, turn.ending) for turn in fold.turns if turn.is_human]


def claude(*lines: Mapping[str, object]) -> tuple[list[TranscriptNews], TranscriptTurns]:
    parser, news, fold = ClaudeTranscript(), [], TranscriptTurns()
    for line in lines:
        news += parser.feed(json.dumps(line).encode())
    fold.add(news)
    return news, fold


def prompt(text: str, name: str = "p1") -> dict[str, object]:
    return {"type": "user", "promptId": name, "message": {"role": "user", "content": text}, "promptSource": "typed"}


def says(text: str, stop: str | None = "end_turn", name: str = "m1") -> dict[str, object]:
    content = [{"type": "text", "text": text}]
    return {"type": "assistant", "message": {"id": name, "content": content, "stop_reason": stop}}


OVER: Final[dict[str, object]] = {"type": "system", "subtype": "turn_duration"}


# What the real ones wrote


def test_turns_of_claude_code_are_told_with_prompt_answer_and_end() -> None:
    _, fold = read("claude-turns")
    assert story(fold) == [
        *COMMON,
        ("SCN:stream", "One.\n\nTwo", INTERRUPTED),
        ("SCN:held", "", INTERRUPTED),
        ("SCN:deny", "", INTERRUPTED),
        ("SCN:ask", "A fine colour.", NATURAL),
        ("SCN:error", "", ERROR),
        ("SCN:queue", "Begun. First is over.", NATURAL),
        ("SCN:second please", "Second is over.", NATURAL),
        ("SCN:agent", "My helper said so.", NATURAL),
        ("SCN:after", "After compaction.", NATURAL),
    ]
    failed = fold.turn_of("SCN:error")
    assert failed is not None
    assert failed.error_message == "API Error: 400 the model is out"
    (own,) = [turn for turn in fold.turns if not turn.is_human]
    assert "<task-notification>" in own.prompts[0]


def test_turns_of_codex_are_told_with_prompt_answer_and_end() -> None:
    _, fold = read("codex-turns")
    assert story(fold) == [
        *COMMON,
        ("SCN:stream", "", INTERRUPTED),
        ("SCN:held", "", INTERRUPTED),
        ("SCN:deny", "", INTERRUPTED),
        ("SCN:error", "", ERROR),
        ("SCN:queue", "Begun. First is over.", NATURAL),
        ("SCN:second please", "Second is over.", NATURAL),
        ("SCN:after", "After compaction.", NATURAL),
    ]
    assert len(fold.turns) == 10  # the compaction is none
    failed = fold.turn_of("SCN:error")
    assert failed is not None
    assert "the model is out" in failed.error_message


def test_a_prompt_that_claude_took_into_a_running_turn_joins_it() -> None:
    _, fold = read("claude-queue")
    assert fold.turns[0].prompts == ("SCN:held", "also this please")
    assert fold.turn_of("also this\n  please") is fold.turns[0]
    assert story(fold)[1:] == [
        ("SCN:two", "Both ran.", NATURAL),
        ("SCN:flaky", "Second try.", NATURAL),
        ("/greet Ann", "Greetings.", NATURAL),
        ("!echo local", "That is all.", NATURAL),
    ]


@pytest.mark.parametrize("name", ["claude-turns", "codex-turns", "claude-queue"])
def test_every_call_has_its_name_its_arguments_and_one_result(name: str) -> None:
    news, fold = read(name)
    called = [one for one in news if isinstance(one, ToolCalled)]
    returned = [one.call_id for one in news if isinstance(one, ToolReturned)]
    assert [one.call_id for one in called] == returned
    assert all(one.name and isinstance(one.args, dict) for one in called)
    assert all(not turn.open_calls for turn in fold.turns)


@pytest.mark.parametrize(("name", "call"), [("claude-turns", "toolu_0003_0"), ("codex-turns", "call_0004_0")])
def test_a_failed_tool_is_an_error(name: str, call: str) -> None:
    (result,) = [one for one in read(name)[0] if isinstance(one, ToolReturned) and one.call_id == call]
    assert result.error is not None
    assert "code 3" in result.error.message


@pytest.mark.parametrize(("name", "call"), [("claude-turns", "toolu_0007_0"), ("codex-turns", "call_0008_0")])
def test_a_refused_tool_is_an_error(name: str, call: str) -> None:
    (result,) = [one for one in read(name)[0] if isinstance(one, ToolReturned) and one.call_id == call]
    assert result.error is not None


@pytest.mark.parametrize(("name", "version"), [("claude-turns", "2.1.325"), ("codex-turns", "0.166.0")])
def test_the_session_is_named_once_and_thoughts_are_told(name: str, version: str) -> None:
    news, _ = read(name)
    (named,) = [one for one in news if isinstance(one, SessionNamed)]
    assert (len(named.native_session_id), named.version) == (36, version)
    assert [one.text for one in news if isinstance(one, ThoughtArrived)] == ["Let me see."]


@pytest.mark.parametrize("name", ["claude-turns", "codex-turns"])
def test_each_model_call_is_counted_once(name: str) -> None:
    lines = [json.loads(line) for line in (RECORDED / f"{name}.jsonl").read_bytes().splitlines()]
    replies = {line["message"]["id"] for line in lines if line["type"] == "assistant" and not line.get("error")}
    records = [line for line in lines if line["type"] == "token_usage_record"]
    used = [one for one in read(name)[0] if isinstance(one, UsageReported)]
    assert len(used) == len(replies) + len(records) > 10
    assert {(one.scope, one.input_tokens) for one in used} == {(UsageScope.CALL, 100)}


def test_codex_tells_how_full_its_context_is() -> None:
    filled = [one for one in read("codex-turns")[0] if isinstance(one, ContextFilled)]
    assert {one.window_tokens for one in filled} == {258400}


@pytest.mark.parametrize("name", ["claude-turns", "codex-turns", "claude-queue"])
def test_nothing_that_was_recorded_is_unknown(name: str) -> None:
    assert [one for one in read(name)[0] if isinstance(one, Traced | Warned)] == []


# What they may write


def test_a_turn_is_open_until_something_says_that_it_is_over() -> None:
    _, fold = claude(prompt("go"), says("Well."))
    assert (fold.turns[0].answer, fold.turns[0].ending) == ("Well.", None)
    _, fold = claude(prompt("go"), says("Well."), prompt("next", "p2"))
    assert [turn.ending for turn in fold.turns] == [NATURAL, None]


@pytest.mark.parametrize("stop", [None, "tool_use", "pause_turn", "something_new"])
def test_an_end_after_a_message_that_is_not_whole_is_silent(stop: str | None) -> None:
    _, fold = claude(prompt("go"), says("Well", stop), OVER)
    assert fold.turns[0].ending is TurnEnding.SILENT


def test_a_full_budget_and_a_refusal_are_no_success() -> None:
    news, _ = claude(prompt("go"), says("Well", "max_tokens"), OVER, prompt("on", "p2"), says("No", "refusal"), OVER)
    ends = [one for one in news if isinstance(one, TurnEnded)]
    assert [(end.ending, end.stop_code) for end in ends] == [(TurnEnding.STOPPED, "token_budget"), (ERROR, "")]


def test_a_childs_lines_are_not_the_answer() -> None:
    child = {"isSidechain": True, "agentId": "a1"}
    result = {"type": "tool_result", "tool_use_id": "c", "content": "x"}
    news, fold = claude(
        prompt("go"),
        says("Mine."),
        {**prompt("look"), **child},
        {**says("The child's.", name="m2"), **child},
        {"type": "user", "message": {"content": [result]}, **child},
        {**says("API Error", name="m3"), "isApiErrorMessage": True, **child},
        {**OVER, **child},
    )
    assert [(turn.prompts, turn.answer, turn.ending) for turn in fold.turns] == [(("go",), "Mine.", None)]
    assert [one.sub_agent for one in news if isinstance(one, MessageEnded)] == ["", "a1"]


def test_the_summary_of_a_compaction_within_a_turn_does_not_end_it() -> None:
    summary = {**prompt("This session is being continued"), "isCompactSummary": True}
    boundary = {"type": "system", "subtype": "compact_boundary"}
    _, fold = claude(prompt("go"), says("First.", "tool_use"), boundary, summary, says("Last.", name="m2"), OVER)
    assert [(turn.prompts, turn.answer, turn.ending) for turn in fold.turns] == [(("go",), "First.\n\nLast.", NATURAL)]


def test_a_person_may_type_the_words_of_an_interrupt() -> None:
    _, fold = claude(prompt("go"), says("Well."), prompt("[Request interrupted by user]", "p2"), says("Really?"))
    assert [turn.ending for turn in fold.turns] == [NATURAL, None]


def test_the_same_words_said_again_are_another_turn(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    lines = [json.dumps(one).encode() + b"\n" for one in (prompt("go"), says("Old."), OVER, prompt("go", "p2"))]
    path.write_bytes(b"".join(lines[:3]))
    reader = TranscriptReader("claude", path)
    reader.poll()
    fence = reader.last_number
    assert reader.turn_of("go", after=fence) is None  # never the answer from before
    path.write_bytes(b"".join(lines))
    reader.poll()
    again = reader.turn_of("go", after=fence)
    assert again is not None
    assert (again.number, again.native_turn_id, again.answer) == (2, "p2", "")


def test_only_the_last_turns_are_kept_and_their_numbers_go_on() -> None:
    _, fold = claude(*(prompt(f"n{number}", f"p{number}") for number in range(100)))
    assert (len(fold.turns), fold.turns[-1].number, fold.last_number) == (KEPT_TURNS, 100, 100)


def test_one_message_on_two_lines_is_one_text() -> None:
    _, fold = claude(prompt("go"), says("One, "), says("two."), says("Three.", name="m2"))
    assert fold.turns[0].answer == "One, two.\n\nThree."


def test_what_was_said_when_the_stream_broke_is_partial() -> None:
    news, _ = claude(prompt("go"), {**says("Hal", None), "isAbortedMidStream": True})
    assert news[1:] == [TextArrived(text="Hal", message_id="m1")]


def test_an_older_codex_that_tells_otherwise_is_understood() -> None:
    counted = {"type": "token_count", "info": {"last_token_usage": {"input_tokens": 3}, "total_token_usage": 1}}
    lines: Sequence[tuple[str, Mapping[str, object]]] = [
        ("event_msg", {"type": "task_started"}),
        ("event_msg", {"type": "user_message", "message": "go"}),
        ("event_msg", {"type": "item_completed", "item": {"type": "UserMessage", "content": [{"text": "go"}]}}),
        ("event_msg", {"type": "error", "message": "out"}),
        ("event_msg", {"type": "task_complete", "last_agent_message": None}),
        ("event_msg", counted),
        ("event_msg", counted),
    ]  # fmt: skip
    parser, fold = CodexTranscript(), TranscriptTurns()
    news = [
        one for kind, payload in lines for one in parser.feed(json.dumps({"type": kind, "payload": payload}).encode())
    ]
    fold.add(news)
    assert [(turn.prompts, turn.ending, turn.error_message) for turn in fold.turns] == [(("go",), ERROR, "out")]
    assert len([one for one in news if isinstance(one, UsageReported)]) == 1


def test_the_late_end_of_another_turn_does_not_end_the_open_one() -> None:
    parser = CodexTranscript()
    events = [
        {"type": "task_started", "turn_id": "b"},
        {"type": "user_message", "message": "go"},
        {"type": "turn_aborted", "turn_id": "a"},
        {"type": "task_complete", "turn_id": "a", "last_agent_message": "old"},
    ]
    news = [
        one for event in events for one in parser.feed(json.dumps({"type": "event_msg", "payload": event}).encode())
    ]
    assert news == [PromptSeen(text="go", native_turn_id="b")]


def test_an_unknown_line_is_traced_once_and_without_what_it_holds() -> None:
    news, _ = claude({"type": "new-thing", "secret": "hunter2"}, {"type": "new-thing"})
    assert news == [Traced(raw="a line of type 'new-thing'")]


LINES = [line for file in sorted(RECORDED.glob("*.jsonl")) for line in file.read_bytes().splitlines()]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=10,
)


@pytest.mark.parametrize("cli", PARSERS)
@given(data=st.data())
def test_no_line_however_spoilt_stops_a_parser(cli: str, data: st.DataObject) -> None:
    parser, fold = PARSERS[cli](), TranscriptTurns()
    for _ in range(data.draw(st.integers(1, 6))):
        line = data.draw(st.sampled_from(LINES))
        match data.draw(st.sampled_from(["cut", "field", "noise", "as it is"])):
            case "cut":
                line = line[: data.draw(st.integers(0, len(line)))]
            case "noise":
                line = data.draw(st.binary(max_size=50))
            case "field":
                fields = json.loads(line)
                spoilt = data.draw(
                    st.sampled_from([fields, *(one for one in fields.values() if isinstance(one, dict))])
                )
                if spoilt:
                    spoilt[data.draw(st.sampled_from(sorted(spoilt)))] = data.draw(JSON)
                line = json.dumps(fields).encode()
            case _:
                pass
        fold.add(parser.feed(line))


# Files as they grow


def lines_of(name: str) -> list[bytes]:
    return (RECORDED / f"{name}.jsonl").read_bytes().splitlines(keepends=True)


@pytest.mark.parametrize("name", ["claude-turns", "codex-turns"])
def test_a_file_that_grows_in_any_pieces_tells_the_same(name: str, tmp_path: Path) -> None:
    whole, path = b"".join(lines_of(name)), tmp_path / "t.jsonl"
    reader = TranscriptReader(name.partition("-")[0], path)
    assert reader.poll() == []
    news: list[TranscriptNews] = []
    with path.open("ab", buffering=0) as file:
        for at in range(0, len(whole), 1013):
            file.write(whole[at : at + 1013])
            news += reader.poll()
    assert news == read(name)[0]
    assert [turn.ending for turn in reader.turns] == [turn.ending for turn in read(name)[1].turns]
    assert reader.poll() == []


def test_a_torn_last_line_waits_for_its_end(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    line = json.dumps(prompt("go")).encode()
    path.write_bytes(line[:20])
    reader = TranscriptReader("claude", path)
    assert reader.poll() == []
    path.write_bytes(line)
    assert reader.poll() == []
    path.write_bytes(line + b"\n")
    assert [type(one) for one in reader.poll()] == [PromptSeen]


@pytest.mark.parametrize("how", ["cut", "replaced", "rewritten", "removed"])
def test_a_file_that_begins_anew_is_told_anew(how: str, tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_bytes(json.dumps(prompt("the first one")).encode() + b"\n")
    reader = TranscriptReader("claude", path)
    reader.poll()
    after = json.dumps(prompt("2")).encode() + b"\n"
    match how:
        case "cut":
            path.write_bytes(after)
        case "rewritten":
            path.write_bytes(after * 9)
        case "replaced":
            (tmp_path / "new").write_bytes(after)
            (tmp_path / "new").rename(path)
        case _:
            path.unlink()
            assert reader.poll() == []
            path.write_bytes(after)
    first, *_ = reader.poll()
    assert isinstance(first, Warned)
    assert first.kind == "transcript_anew"
    assert {turn.prompts[0] for turn in reader.turns} == {"2"}


def test_a_copy_with_more_in_the_place_of_the_file_goes_on(tmp_path: Path) -> None:
    path, first = tmp_path / "t.jsonl", json.dumps(prompt("go")).encode() + b"\n"
    path.write_bytes(first)
    reader = TranscriptReader("claude", path)
    reader.poll()
    (tmp_path / "copy").write_bytes(first + json.dumps(says("Well.")).encode() + b"\n")
    (tmp_path / "copy").rename(path)
    assert [type(one) for one in reader.poll()] == [MessageEnded]
    assert len(reader.turns) == 1


def test_a_line_of_megabytes_is_read_whole(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    text = "x" * (9 * 1024 * 1024)
    path.write_bytes(b"".join(json.dumps(one).encode() + b"\n" for one in (prompt("go"), says(text), OVER)))
    reader = TranscriptReader("claude", path)
    reader.poll()
    assert (len(reader.turns[0].answer), reader.turns[0].ending) == (len(text), NATURAL)


def test_what_is_no_file_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    for path in (tmp_path / "fifo", tmp_path, tmp_path / "none"):
        assert TranscriptReader("claude", path).poll() == []


def test_following_tells_what_comes_later(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"

    async def main() -> None:
        async with asyncio.timeout(100), aclosing(TranscriptReader("claude", path).follow(0.01)) as news:
            path.write_bytes(json.dumps(prompt("go")).encode() + b"\n")
            assert isinstance(await anext(news), PromptSeen)
            with path.open("ab") as file:
                file.write(json.dumps(says("Well.")).encode() + b"\n")
            assert isinstance(await anext(news), MessageEnded)

    asyncio.run(main())


# Finding them


def test_a_transcript_of_claude_is_found_by_session_or_by_folder(tmp_path: Path) -> None:
    project = tmp_path / "projects" / "-home-dev-my-app-v2"
    project.mkdir(parents=True)
    for age, name in enumerate(("new", "old")):
        (project / f"{name}.jsonl").touch()
        os.utime(project / f"{name}.jsonl", (1000 - age, 1000 - age))
    assert find_claude_transcript(tmp_path, "old") == project / "old.jsonl"
    for session in ("*", "../old", "none", "o?d", "[o]ld"):
        assert find_claude_transcript(tmp_path, session) is None
    assert find_claude_transcript(tmp_path / "elsewhere", "old") is find_claude_transcript(tmp_path, "") is None
