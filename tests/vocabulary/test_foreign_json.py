"""Lines of JSON that somebody else wrote, and what is made of them."""

from __future__ import annotations

import pytest

from interlock.vocabulary.events.conversation import MAX_COUNT
from interlock.vocabulary.events.registry import Json
from interlock.vocabulary.foreign_json import MAX_DEPTH, TOO_DEEP, amount, as_text, count, decode_object


@pytest.mark.parametrize(
    ("line", "value"),
    [
        (b'{"a": "\\ud83d"}', {"a": "\ufffd"}),
        (b'{"a": "\\ud83d\\ude00"}', {"a": "\U0001f600"}),
        (b'{"\\udc00": [{"b": "x\\udc00y"}]}', {"\ufffd": [{"b": "x\ufffdy"}]}),
        (b'{"a": "\xff"}', {"a": "\ufffd"}),
        (b'{"a": 123456789012345678901234567890}', {"a": "123456789012345678901234567890"}),
        (b'{"a": 1e999, "b": "1234567890123456789"}', {"a": "1e999", "b": "1234567890123456789"}),
        (b'{"a": 12, "a": 13}', {"a": 13}),
        (b'{"a\\u0000": "x\\u0000y"}', {"a\ufffd": "x\ufffdy"}),
        (b'{"a": "\\ud83d\\ude00\\ud83d", "b": [1]}', {"a": "\U0001f600\ufffd", "b": [1]}),
    ],
)
def test_an_object_is_read_though_part_of_it_cannot_be_kept(line: bytes, value: Json) -> None:
    assert decode_object(line) == value


@pytest.mark.parametrize("line", [b"", b"[1]", b"7", b"null", b'{"a": NaN}', b'{"a":' * 5000, b'{"a": 1'])
def test_what_is_no_object_is_none(line: bytes) -> None:
    assert decode_object(line) is None


@pytest.mark.parametrize("value", [True, -1, 1.5, "7", None, [1]])
def test_only_a_whole_number_of_things_is_a_count(value: Json) -> None:
    assert count(value) is None


@pytest.mark.parametrize("value", [True, -0.5, "7", None, 1e300])
def test_only_a_quantity_is_an_amount(value: Json) -> None:
    assert amount(value) is None


def test_a_value_that_is_too_deep_to_be_shown_is_named_as_that() -> None:
    deep: Json = None
    for _ in range(100_000):
        deep = [deep]
    assert as_text(deep) == "(nested too deeply)"


def test_a_figure_that_the_log_cannot_hold_is_a_missing_one() -> None:
    assert count(MAX_COUNT) == MAX_COUNT
    assert count(MAX_COUNT + 1) is None


def test_what_is_nested_too_deeply_for_the_log_is_a_note() -> None:
    found = decode_object(b'{"a": ' + b"[" * 90 + b"]" * 90 + b', "b": "kept"}')
    assert found is not None
    assert found["b"] == "kept"
    deep, levels = found["a"], 0
    while isinstance(deep, list):
        deep, levels = deep[0], levels + 1
    assert (deep, levels) == (TOO_DEEP, MAX_DEPTH - 1)


def test_many_brackets_that_are_not_deep_are_kept() -> None:
    assert decode_object(b'{"a": [' + b"[]," * 90 + b"[]]}") == {"a": [[]] * 91}


def test_text_is_read_as_well() -> None:
    assert decode_object('{"a": "\ud83d"}') == {"a": "\ufffd\ufffd\ufffd"}
