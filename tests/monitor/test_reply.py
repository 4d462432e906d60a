"""Reply contracts: a reply is found after the submit, and never in the prompt's own echo."""

from __future__ import annotations

from collections.abc import Callable
from textwrap import wrap
from typing import Any, Final

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.monitor.completion import CompletionState, step
from interlock.monitor.observation import ShadowObservation
from interlock.monitor.observer.reply import MAX_REPLY_CHARACTERS, MAX_ROWS, Accepts, json_reply, sentinel_reply
from interlock.monitor.post_submit_evidence import Observer, Submit
from interlock.monitor.results import CompletedResult, ObserverPayload
from interlock.screen.projection import DialogProjection
from interlock.vocabulary.errors import UsageError
from interlock.vocabulary.ids import TurnId
from tests.monitor.surfaces import READY, WORKING, play, screen

BEGIN, END = "<<<REPLY>>>", "<<<DONE>>>"
PROMPT: Final = f"list the tests\n{BEGIN}\nyour answer\n{END}\nand nothing else"
ECHO: Final = f"❯ list the tests\n  {BEGIN}\n  your answer\n  {END}\n  and nothing else"
FRAMED: Final = sentinel_reply(BEGIN, END)
ANY_JSON: Final = json_reply({})
EMPTY: Final = screen("welcome\n❯", composer_rows=[1])


def reply(
    text: str,
    observer: Observer = FRAMED,
    *,
    prompt: str | None = PROMPT,
    baseline: DialogProjection = EMPTY,
    composer_rows: tuple[int, ...] = (),
    prompt_rows: tuple[int, ...] = (),
) -> str | None:
    shown = ShadowObservation(READY.assessment, screen(text, composer_rows, prompt_rows))
    found = observer(shown, Submit(TurnId("turn_1"), baseline, prompt))
    return None if found is None else found.text


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (f"{ECHO}\n\n● {BEGIN}\n  test_a\n  test_b\n  {END}\n\n❯", "test_a\ntest_b"),
        (f"{ECHO}\n\n• {BEGIN}\n\n  def f():\n    pass\n\n  {END}", "def f():\n  pass"),
        (f"{ECHO}\n│ {BEGIN}  │\n│ one  │\n│ two  │\n│ {END} │", "one\ntwo"),
        (f"{BEGIN}\nthe echo scrolled away\n{END}", "the echo scrolled away"),
        (f"and nothing else\n{BEGIN}\nits end did not\n{END}", "its end did not"),
        (f"{BEGIN}\nfirst\n{END}\ntools\n{BEGIN}\nsecond\n{END}", "second"),
        (f"{BEGIN}\nbegun in vain\n{BEGIN}\nbegun again\n{END}", "begun again"),
        (f"{BEGIN}\nclosed twice\n{END}\n{END}", "closed twice"),
    ],
    ids=["bullet", "indented", "framed", "scrolled", "half scrolled", "last", "innermost", "closed twice"],
)
def test_the_rows_between_the_sentinels_are_the_reply(text: str, found: str) -> None:
    assert reply(text) == found


@pytest.mark.parametrize(
    "text",
    [
        "",
        ECHO,
        f"{ECHO}\n● {BEGIN}\n  test_a",
        f"{ECHO}\n● {BEGIN}\n\n  {END}",
        f"{ECHO}\n● I shall write {BEGIN}\n  test_a\n  {END}",
        f"{ECHO}\n● {BEGIN}\n  test_a\n  {END} as told",
        f"● {BEGIN}\n  test_a\n  {END}\n{ECHO}",
        f"● {BEGIN}\n{ECHO}\n● test_a\n  {END}",
        f"{BEGIN}\nyour answer\n{END}\nand nothing else",
        f"❯ list the tests\n{BEGIN}\nyour answer\n{END}\n… +1 line",
        f"{ECHO}\n{ECHO}",
        f"{BEGIN}\n{'x' * (MAX_REPLY_CHARACTERS + 1)}\n{END}",
    ],
    ids=[
        "nothing",
        "echo",
        "open",
        "blank",
        "prose before",
        "prose after",
        "above the prompt",
        "around the prompt",
        "end of the echo",
        "beginning of the echo",
        "queued",
        "too long",
    ],
)
def test_what_is_no_reply_is_not_found(text: str) -> None:
    assert reply(text) is None


def test_the_composer_and_the_messages_of_the_user_hold_no_reply() -> None:
    text = f"● hello\n{BEGIN}\nmine\n{END}\n❯"
    assert reply(text) == "mine"
    assert reply(text, composer_rows=(1, 2, 3)) is None
    assert reply(text, composer_rows=(3,)) is None
    assert reply(text, prompt_rows=(1, 2, 3)) is None
    assert reply(text, prompt_rows=(0,)) == "mine"


def test_a_prompt_typed_again_in_the_composer_hides_no_reply() -> None:
    text = f"{BEGIN}\nmine\n{END}\n❯ do it"
    assert reply(text, prompt="do it", composer_rows=(3,)) == "mine"
    assert reply(text, prompt="do it") is None


def test_the_end_of_a_prompt_at_the_top_opens_nothing() -> None:
    prompt = f"the last row is {END}, the first one is\n{BEGIN}"
    assert reply(f"  {BEGIN}\n● I would rather not\n  {END}", prompt=prompt) is None
    assert reply(f"  {BEGIN}\n● {BEGIN}\n  well\n  {END}", prompt=prompt) == "well"


def test_without_a_known_prompt_nothing_is_found() -> None:
    assert reply(f"{BEGIN}\nmine\n{END}", prompt=None) is None


def test_what_the_baseline_shows_is_old_however_it_is_wrapped_now() -> None:
    old = f"● {BEGIN}\n  one two\n  {END}"
    baseline = screen(f"{old}\n❯")
    again = f"{old}\n{ECHO}\n● {BEGIN}\n  one two\n  {END}"
    assert reply(old, baseline=baseline) is None
    assert reply(f"● {BEGIN}\n  one\n  two\n  {END}", baseline=baseline) is None
    assert reply(again, baseline=baseline) == "one two"
    assert reply(f"{old}\n{ECHO}\n● {BEGIN}\n  three\n  {END}", baseline=baseline) == "three"


def test_an_old_delimiter_opens_nothing() -> None:
    baseline = screen(f"● {BEGIN}\n  cut off\n❯")
    assert reply(f"● {BEGIN}\n  cut off\n● so\n  {END}", baseline=baseline) is None
    assert reply(f"● {BEGIN}\n  cut off\n● {BEGIN}\n  so\n  {END}", baseline=baseline) == "so"


@pytest.mark.parametrize("pair", [("", "b"), (" a", "b"), ("a", "b\nc"), ("a", "a"), ("❯ ", "b"), ("│", "b")])
def test_a_sentinel_is_one_line_of_text_and_there_are_two(pair: tuple[str, str]) -> None:
    with pytest.raises(UsageError) as refused:
        sentinel_reply(*pair)
    assert refused.value.remedy


# JSON.


class Verdict(msgspec.Struct, forbid_unknown_fields=True):
    status: str
    tests: list[int] = []


class Other(msgspec.Struct):
    pass


SHAPE: Final[dict[str, Any]] = {"type": "object", "required": ["status"], "properties": {"status": {"type": "string"}}}
PRETTY: Final = '● {\n    "status": "ok",\n    "tests": [\n      1\n    ]\n  }'


@pytest.mark.parametrize(
    "accepts", [SHAPE, Verdict, dict[str, str | list[int]], lambda value: value.get("status") == "ok"]
)
def test_json_is_accepted_by_schema_by_type_and_by_function(accepts: Accepts) -> None:
    found = reply(f"{ECHO}\n\n{PRETTY}\n\n❯", json_reply(accepts))
    assert found is not None
    assert msgspec.json.decode(found) == {"status": "ok", "tests": [1]}
    assert reply('{"other": 1}', json_reply(accepts)) is None


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('{"status": "ok"}', '{"status": "ok"}'),
        ('prose\n\n{"status":\n"ok"}\n\nmore prose', '{"status":\n"ok"}'),
        ('● {"status": "it is all\n  right"}', '{"status": "it is all right"}'),
        ('│ {"status": "ok",   │\n│  "tests": [1, 2]} │', '{"status": "ok",\n "tests": [1, 2]}'),
        ('```json\n{"status": "ok"}\n```', '{"status": "ok"}'),
        ('{"status": "a"}\n\n{"status": "b"}\n\n{"other": 1}', '{"status": "b"}'),
        ('┃  {"status": "ok"}\n┃\n╹▀▀▀', '{"status": "ok"}'),
        ('● Done.\n● {"status": "ok"}\n● [1]', '{"status": "ok"}'),
    ],
    ids=["row", "rows", "wrapped string", "framed", "fenced", "last that fits", "side frame", "bullets"],
)
def test_json_stands_in_a_paragraph_of_its_own(text: str, found: str) -> None:
    assert reply(f"{ECHO}\n\n{text}", json_reply(SHAPE)) == found


def test_a_token_cut_by_a_wrap_is_joined_where_the_value_asks_for_it() -> None:
    exact = json_reply({"properties": {"status": {"const": "partial_failed"}}})
    assert reply('{"status": "partial_\nfailed"}', exact) == '{"status": "partial_failed"}'


@pytest.mark.parametrize(
    "text",
    [
        'I answer {"status": "ok"}',
        '{"status": "ok"} is the answer',
        '{"status": "ok"',
        '● {\n    "inner": [\n      {"status": "ok"},',
        '{"items": [\n{"status": "ok"},\n{"status": "no"}',
        "[x] a task",
        "{not json}",
        "[" * 5000 + "]" * 5000,
        '{"status": NaN}',
        '{"status": "\ud800"}',
        "42",
    ],
    ids=["prose", "prose after", "open", "inner", "inner row", "task", "braces", "deep", "nan", "surrogate", "scalar"],
)
def test_what_is_no_json_reply_is_not_found(text: str) -> None:
    assert reply(f"{ECHO}\n\n{text}", ANY_JSON) is None


def test_a_json_example_in_the_prompt_is_no_reply() -> None:
    example = 'answer like this:\n\n{"status": "ok",\n "tests": []}\n\nplease'
    for shown in (f"❯ {example}", '{"status": "ok",\n "tests": []}\n\nplease', '{"status":\n"ok", "tests":\n[]}'):
        assert reply(shown, ANY_JSON, prompt=example) is None
    assert reply(f'❯ {example}\n\n● {{"status": "no"}}', ANY_JSON, prompt=example) == '{"status": "no"}'


def test_json_that_the_baseline_shows_is_old() -> None:
    baseline = screen('● {"status": "ok"}\n❯')
    assert reply('{"status":\n"ok"}', ANY_JSON, baseline=baseline) is None
    assert reply('{"status": "ok"}\n\n{"status": "ok"}', ANY_JSON, baseline=baseline) == '{"status": "ok"}'


def test_json_may_stand_between_sentinels() -> None:
    framed = json_reply(SHAPE, begin=BEGIN, end=END)
    text = f'{ECHO}\n\n{{"status": "not this"}}\n\n● {BEGIN}\n  {{"status": "two\n  words"}}\n  {END}'
    assert reply(text, framed) == '{"status": "two words"}'
    with pytest.raises(UsageError, match="no sentinel"):
        json_reply(SHAPE, begin=BEGIN)


def test_a_type_that_cannot_be_decoded_is_refused() -> None:
    with pytest.raises(UsageError, match="cannot be decoded"):
        json_reply(list[Verdict | Other])


# As an observer, and on any screen.


def test_a_reply_completes_a_candidate_at_once_and_rides_on_the_result() -> None:
    turn = Submit(TurnId("turn_1"), EMPTY, PROMPT, FRAMED)
    answered = ShadowObservation(READY.assessment, screen(f"{ECHO}\n● {BEGIN}\n  test_a\n  {END}\n❯", [8]))
    start, _ = step(CompletionState(), turn, 0)
    _, said = play(step, start, [(0, WORKING), (3, answered)], until=3)
    completed = said[-1][1]
    assert isinstance(completed, CompletedResult)
    assert (completed.at_seconds, completed.payload) == (3, ObserverPayload("sentinel_reply", "test_a"))


def test_of_a_huge_screen_only_the_end_is_read() -> None:
    filler = "\n".join(f"row {number} {{" for number in range(20 * MAX_ROWS))
    assert reply(f"{filler}\n{BEGIN}\nfound\n{END}") == "found"
    assert reply(f"{BEGIN}\nlost\n{END}\n{filler}") is None
    assert reply(f'{filler}\n\n{{"a": 1}}', ANY_JSON) == '{"a": 1}'


def soft(text: str, width: int) -> list[str]:
    return wrap(text, width, break_long_words=True, drop_whitespace=True) or [""]


def hard(text: str, width: int) -> list[str]:
    return [text[at : at + width] for at in range(0, len(text), width)] or [""]


WRAPS: Final = st.sampled_from([soft, hard])
FRAMES: Final = st.sampled_from(["❯ {}", "  {}", "> {}", "│ {} │", "┃  {}", "{}", "● {}"])
WORDS: Final = st.text(st.sampled_from('ab{}[]>|•1",: '), max_size=12)
LINES: Final = st.lists(WORDS | st.sampled_from([BEGIN, END, '{"a": 1}', "[1]"]), min_size=1, max_size=10)


def drawn(lines: list[str], width: int, wrap_row: Callable[[str, int], list[str]], frame: str) -> list[str]:
    return [frame.format(row) for line in lines for row in wrap_row(line, width)]


@given(LINES, st.integers(4, 40), WRAPS, FRAMES, st.integers(0, 40), st.integers(0, 40))
def test_the_echo_of_a_prompt_is_never_a_reply(
    lines: list[str], width: int, wrap_row: Callable[[str, int], list[str]], frame: str, first: int, cut: int
) -> None:
    """However it is wrapped and framed, and whether its beginning or its end is off the screen."""
    echo = drawn(lines, width, wrap_row, frame)
    text = "\n".join(echo[first : len(echo) - cut if cut < len(echo) else None])
    prompt = "\n".join(lines)
    assert reply(text, FRAMED, prompt=prompt) is None
    assert reply(text, ANY_JSON, prompt=prompt) is None


@given(LINES, st.integers(12, 40), WRAPS, st.sampled_from(["❯ {}", "  {}", "> {}", "┃  {}"]))
def test_a_reply_below_the_echo_is_found(
    lines: list[str], width: int, wrap_row: Callable[[str, int], list[str]], frame: str
) -> None:
    echo = drawn(["do this:", *lines], width, wrap_row, frame)
    text = "\n".join([*echo, "", f"● {BEGIN}", "  mine", f"  {END}", "", "❯"])
    assert reply(text, FRAMED, prompt="\n".join(["do this:", *lines])) == "mine"


@given(st.text(), st.text(), st.sets(st.integers(0, 20)))
def test_any_text_is_taken(text: str, prompt: str, numbers: set[int]) -> None:
    for observer in (FRAMED, ANY_JSON, sentinel_reply("a", "b")):
        reply(text, observer, prompt=prompt, composer_rows=tuple(numbers))
        reply(text, observer, prompt=prompt, prompt_rows=tuple(numbers))
