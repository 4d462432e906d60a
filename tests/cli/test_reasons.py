"""Evidence in words: no more than the rule says, and short enough for a row at 80 columns."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from interlock.cli.log import reasons
from interlock.cli.log.reasons import words_of
from interlock.runtime.session import status
from interlock.vocabulary.evidence import EvidenceSource

ROOM = 17


@pytest.mark.parametrize(
    ("source", "rule", "said"),
    [
        ("native_status", "stream.silent", "no output in turn"),
        ("log", "no_process", "no process"),
        ("screen", "composer.ready", "read from screen"),
        ("hook", "hook.stream.silent", "reported by hook"),
        ("oracle", "a.rule.of.tomorrow", "a.rule.of.tomorrow"),
        ("", "", ""),
    ],
)
def test_a_rule_of_ours_has_its_meaning_another_one_its_source(source: str, rule: str, said: str) -> None:
    assert words_of(source, rule) == said


def test_every_source_and_every_rule_of_the_runtime_has_words() -> None:
    assert all(words_of(source.value, "some.rule") != "some.rule" for source in EvidenceSource)
    ours = set(re.findall(r'Activity\.[A-Z]+, "([a-z_.]+)"', Path(status.__file__).read_text(encoding="utf-8")))
    assert len(ours) > 5
    assert ours <= set(reasons._RULES)


def test_words_have_room_in_a_row() -> None:
    said = {*reasons._RULES.values(), *reasons._SOURCES.values()}
    assert [one for one in said if len(one) > ROOM] == []
