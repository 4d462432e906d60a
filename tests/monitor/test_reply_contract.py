"""Reply contracts: what is printed was found in the answer and fits, and everything else is refused with a reason."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.monitor.observation import Arrival
from interlock.monitor.observer.reply import NoReply, asked_text, contract_of, json_contract, sentinel_contract
from interlock.monitor.results import CompletedResult
from interlock.monitor.tracker import TuiTrackerSession
from interlock.screen.snapshot import Snapshot
from interlock.vocabulary.errors import UsageError
from interlock.vocabulary.events.audit import ReplyContract
from tests.each_row import each_row
from tests.screen.tiny import IDLE, composer, reader

SHAPE = json.dumps(
    {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Bugs",
        "type": "object",
        "required": ["bugs"],
        "properties": {"bugs": {"type": "array", "items": {"type": "string", "description": "one bug"}}},
    }
)


@pytest.mark.parametrize(
    "answer",
    ['{"bugs": ["a", "b"]}', '\n  {"bugs":["a","b"]}\n', 'Here it is:\n```json\n{"bugs": ["a", "b"]}\n```\nDone.'],
)
def test_a_json_reply_that_fits_is_found_bare_or_fenced(answer: str) -> None:
    reply = json_contract(json.loads(SHAPE)).read(answer)
    assert reply.text == '{"bugs":["a","b"]}'
    assert reply.value == {"bugs": ["a", "b"]}


@each_row(
    ("answer", "why"),
    [
        ('{"bugs": "a"}', r"fit the schema at \$\.bugs"),
        ('{"bugs": ["a", 1]}', r"fit the schema at \$\.bugs\[1\]"),
        ("{}", r"fit the schema at \$$"),
        ('Sure: {"bugs": []}', "no JSON value"),
        ('{"bugs": ["a"', "no JSON value"),
        ('```json\n{"bugs": ["a"]}\n```\n```json\nnothing\n```', "no JSON value"),
        ("NaN", "no JSON value"),
        ("  ", "no answer text"),
    ],
)
def test_a_json_reply_that_is_not_as_asked_for_has_a_reason(answer: str, why: str) -> None:
    with pytest.raises(NoReply, match=why):
        json_contract(json.loads(SHAPE)).read(answer)


@pytest.mark.parametrize("schema", ['{"type": "object", "additionalProperties": false}', '{"type": "text"}', "3"])
def test_a_schema_that_is_not_understood_is_refused(schema: str) -> None:
    with pytest.raises(UsageError):
        json_contract(json.loads(schema))


def test_a_property_may_be_called_as_a_remark_is() -> None:
    contract = json_contract({"properties": {"title": {"type": "string"}}})
    assert contract.read('{"title": "x"}').value == {"title": "x"}
    with pytest.raises(NoReply, match=r"\$\.title"):
        contract.read('{"title": 1}')


def test_the_prompt_is_told_of_the_contract() -> None:
    assert json_contract({"type": "array"}).added_to("List them. \n") == (
        "List them.\n\nAnswer with one JSON value and nothing else: no words around it, no code fence. "
        'It must fit this JSON Schema: {"type":"array"}'
    )
    told = sentinel_contract("w1").added_to("Go")
    assert "<<<w1" in told
    assert "w1>>>" in told


@each_row(
    ("answer", "reply"),
    [
        ("<<<w\nhello\nw>>>", "hello"),
        ("I thought about it.\n  <<<w \n a\n\nb\n w>>>\nDone.", " a\n\nb"),
        ("<<<w\nfirst\nw>>>\n<<<w\nlast\nw>>>", "last"),
        ("<<<w\nfirst\nw>>>\n<<<w\n \nw>>>", "first"),
        ("<<<w\nold\n<<<w\nnew\nw>>>", "new"),
        ("<<<w\r\nhello\r\nw>>>\r\n", "hello"),
    ],
)
def test_a_marked_reply_is_the_last_that_is_not_blank(answer: str, reply: str) -> None:
    assert sentinel_contract("w").read(answer).text == reply


@each_row("answer", ["", "hello", "<<<w\nhello", "hello\nw>>>", "<<<w hello w>>>", "<<<w\n\nw>>>", "say <<<w\nx\nw>>>"])
def test_a_reply_that_is_open_blank_or_not_marked_is_none(answer: str) -> None:
    with pytest.raises(NoReply, match="between the lines <<<w and w>>>"):
        sentinel_contract("w").read(answer)


@pytest.mark.parametrize("word", ["", "two words", "a\nb", "x" * 81])
def test_a_sentinel_is_one_plain_word(word: str) -> None:
    with pytest.raises(UsageError, match="cannot be a sentinel"):
        sentinel_contract(word)


@given(st.text(), st.text(), st.text())
def test_whatever_surrounds_a_marked_reply_it_is_found_as_it_is(before: str, text: str, after: str) -> None:
    plain = "".join(sign for sign in text if sign != "\r").strip("\n")
    if not plain.strip() or any("w>>>" in one or "<<<w" in one for one in (before, text, after)):
        return
    assert sentinel_contract("w").read(f"{before}\n<<<w\n{plain}\nw>>>\n{after}").text == plain


def test_a_contract_is_one_of_the_two() -> None:
    assert contract_of(ReplyContract(sentinel="word")).kind == "sentinel"
    assert contract_of(ReplyContract(json_schema={"type": "array"})).kind == "json"
    for wrong in (ReplyContract(), ReplyContract(sentinel="word", json_schema={})):
        with pytest.raises(UsageError, match="is a sentinel or a JSON Schema"):
            contract_of(wrong)
    assert asked_text("Do it.", None) == "Do it."
    assert "<<<word" in asked_text("Do it.", ReplyContract(sentinel="word"))


# The contract as the observer of a turn in a terminal.

CONTRACT = sentinel_contract("w0")
PROMPT = CONTRACT.added_to("do it")
ECHO = (
    "> do it",
    "  Write your final answer between two lines of their own: the line",
    "  <<<w0 before it, and the line",
)
MARKED = ("<<<w0", "forty two", "w0>>>")


def observed(*shown: tuple[float, Snapshot], until: float = 20) -> list[tuple[float, str, str]]:
    """When and by what the turn completed, with a pushed source."""
    session = TuiTrackerSession(reader())
    verdicts = [session.on_snapshot(IDLE, 0, Arrival.PUSHED)]
    verdicts.append(session.on_submit(1, PROMPT, observer=CONTRACT.observer))
    for now, snapshot in (*shown, (until, None)):
        while (due := session.deadline) is not None and due <= now:
            verdicts.append(session.on_timer(due))
        if snapshot is not None:
            verdicts.append(session.on_snapshot(snapshot, now, Arrival.PUSHED))
    ends = [(one.at_seconds, said) for one in verdicts for said in one.outputs if isinstance(said, CompletedResult)]
    return [(at, said.mode_diagnostics.basis.value, said.payload.text if said.payload else "") for at, said in ends]


def at_work(*rows: str) -> Snapshot:
    return composer(*ECHO, *rows, "* Working (3s)")


def test_a_reply_on_a_ready_screen_bypasses_the_window_and_not_the_hold() -> None:
    assert observed((1.2, at_work()), (3, composer(*ECHO, *MARKED))) == [(3.5, "completion_observer", "forty two")]
    assert observed((1.2, at_work()), (3, composer(*ECHO, "no marks"))) == [(4.5, "stability_window", "")]


def test_a_sentinel_in_the_echo_of_the_prompt_completes_nothing() -> None:
    echoed = composer("> do it", "<<<w0", "before it, and the line", "w0>>>", "after it.")
    assert [basis for _, basis, _ in observed((1.2, at_work()), (3, echoed))] == ["stability_window"]


def test_a_whole_reply_in_a_partial_answer_ends_nothing_while_text_still_streams() -> None:
    """What follows it may be another reply, and the last one counts."""
    later = ("more text", "<<<w0", "forty three", "w0>>>")
    found = observed(
        (1.2, at_work()), (2, at_work(*MARKED)), (5, at_work(*MARKED, *later)), (6, composer(*ECHO, *later))
    )
    assert found == [(6.5, "completion_observer", "forty three")]
