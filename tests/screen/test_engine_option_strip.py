"""What an option's text is cut free of."""

from __future__ import annotations

from interlock.screen.options import read_options
from interlock.screen.profile_file import read_profile
from interlock.screen.snapshot import read_snapshot

ROWS = read_snapshot("Go on? (Y)es/(N)o/(D)on't ask [Yes]:", columns=80).rows
TOML = """
id = "t-1"
cli = "t"
title = "T"

[options.answers]
pattern = '(?P<text>\\((?P<key>[A-Z])\\)[a-z]+)'
separator = '/'
{strip}
"""


def texts(strip: str) -> list[tuple[str, str | None]]:
    spec = read_profile(TOML.format(strip=strip), "t.toml").options["answers"]
    return [(option.text, option.key) for option in read_options(spec, ROWS, range(len(ROWS)))]


def test_what_matches_strip_is_cut_out_of_the_text() -> None:
    assert texts("strip = '[()]'") == [("Yes", "Y"), ("No", "N"), ("Don", "D")]


def test_without_strip_the_text_stays_as_it_is() -> None:
    assert texts("") == [("(Y)es", "Y"), ("(N)o", "N"), ("(D)on", "D")]
