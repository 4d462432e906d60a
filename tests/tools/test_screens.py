"""The tool that makes the pictures: what it shows is a real board, and a picture loads nothing from elsewhere."""

from __future__ import annotations

import asyncio
import re

import pytest

from tools.screen_scenes import APPROVAL, AT_TERMINAL, SCENES
from tools.screens import EMPTY, GONE, SHOTS, open_all, own_fonts, place, run_ps, serving, take, take_last


def test_a_picture_has_no_fonts_from_elsewhere() -> None:
    svg = '<style>@font-face { src: url("https://cdn/x.woff"); } text { font-family: Fira Code }</style>'
    assert "url" not in own_fonts(svg)
    assert "DejaVu Sans Mono" in own_fonts(svg)


def test_every_shot_has_a_name_of_its_own_and_says_what_must_be_seen() -> None:
    shots = (*SHOTS, GONE, EMPTY)
    assert len({shot.name for shot in shots}) == len(shots)
    assert all(shot.words for shot in shots)
    titles = {scene.title for scene in SCENES}
    assert all(shot.title in titles for shot in shots if shot.title)


@pytest.mark.deep
def test_the_board_is_pictured_full_and_empty_and_without_its_server() -> None:
    chosen = [scene for scene in SCENES if scene.title in (APPROVAL, AT_TERMINAL)]
    with place() as inner, serving(inner) as server:
        empty = asyncio.run(take(server.home, [EMPTY], (80, 24), is_light=True))
        asyncio.run(open_all(server.home, inner, chosen))
        shots = [shot for shot in SHOTS if shot.name in ("board", "terminal", "why", "keys")]
        taken = asyncio.run(take(server.home, shots, (80, 24), is_light=False))
        taken |= asyncio.run(take_last(server.home, GONE, [(80, 24), (70, 20)], server.end))
        server.begin()
        printed = run_ps(server.home, 80, 24)
    assert list(empty) == ["top-empty-80x24-light"]
    gone = [f"top-gone-{size}-{look}" for size in ("80x24", "70x20") for look in ("dark", "light")]
    assert list(taken) == [*(f"top-{name}-80x24-dark" for name in ("board", "terminal", "why", "keys")), *gone]
    for picture in (*empty.values(), *taken.values(), printed):
        assert not re.search(r"url\((?!#)|https?://(?!www\.w3\.org|www\.textualize)", picture.svg)
        assert all(len(line) <= 80 for line in picture.text.splitlines())
    assert "Ask for something" in taken["top-terminal-80x24-dark"].text
    assert APPROVAL[:8] in printed.text
