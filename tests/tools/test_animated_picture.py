"""The animated picture of the README: well-formed, one frame after the other, the first one without animation, too."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from tools.screens import FRAME_SECONDS, STORY, animated

PICTURES = sorted((Path(__file__).parents[2] / "docs" / "pictures").glob("*.svg"))
FRAME = '<svg viewBox="0 0 10 20" xmlns="http://www.w3.org/2000/svg"><text>{}</text></svg>\n'


def test_each_frame_is_shown_for_its_share_of_the_time_and_the_first_one_always_without_animation() -> None:
    root = ET.fromstring(animated([FRAME.format(name) for name in ("one", "two")]))
    style, *groups = root
    assert root.get("viewBox") == "0 0 10 20"
    assert [group.get("style") for group in groups] == ["animation-delay: 0s", f"animation-delay: {FRAME_SECONDS:g}s"]
    assert ["".join(group.itertext()).strip() for group in groups] == ["one", "two"]
    assert style.text is not None
    assert "50.00% { visibility: hidden }" in style.text
    assert ".frame:first-of-type { visibility: visible }" in style.text


@pytest.mark.parametrize("picture", PICTURES, ids=lambda picture: picture.stem)
def test_the_picture_has_every_frame_of_the_story_and_loads_nothing(picture: Path) -> None:
    text = picture.read_text(encoding="utf-8")
    root = ET.fromstring(text)
    assert len([child for child in root if child.get("class") == "frame"]) == len(STORY)
    assert re.findall(r"(?:href|src)=|url\((?!#)|@import", text) == []
