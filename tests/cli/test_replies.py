"""Reply contracts: what is printed was found in the answer and fits, and everything else is refused with a reason."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.cli.replies import NoReply, json_contract, sentinel_contract
from interlock.vocabulary.errors import UsageError

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
    reply = json_contract(SHAPE, "shape.json").read(answer)
    assert reply.text == '{"bugs":["a","b"]}'
    assert reply.value == {"bugs": ["a", "b"]}


@pytest.mark.parametrize(
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
        json_contract(SHAPE, "shape.json").read(answer)


@pytest.mark.parametrize("schema", ['{"type": "object", "additionalProperties": false}', '{"type": "text"}', "3", "{"])
def test_a_schema_that_is_not_understood_is_refused(schema: str) -> None:
    with pytest.raises(UsageError):
        json_contract(schema, "shape.json")


def test_a_property_may_be_called_as_a_remark_is() -> None:
    contract = json_contract('{"properties": {"title": {"type": "string"}}}', "shape.json")
    assert contract.read('{"title": "x"}').value == {"title": "x"}
    with pytest.raises(NoReply, match=r"\$\.title"):
        contract.read('{"title": 1}')


def test_the_prompt_is_told_of_the_contract() -> None:
    assert json_contract('{"type":"array"}', "f").added_to("List them. \n") == (
        "List them.\n\nAnswer with one JSON value and nothing else: no words around it, no code fence. "
        'It must fit this JSON Schema: {"type":"array"}'
    )
    told = sentinel_contract("w1").added_to("Go")
    assert "<<<w1" in told
    assert "w1>>>" in told


@pytest.mark.parametrize(
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


@pytest.mark.parametrize(
    "answer", ["", "hello", "<<<w\nhello", "hello\nw>>>", "<<<w hello w>>>", "<<<w\n\nw>>>", "say <<<w\nx\nw>>>"]
)
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
