"""The TOML of a profile. A broken one is refused with its file and the line to mend; nothing else ever comes out."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.screen.assessment import BlockKind, BusinessState
from interlock.screen.conditions import CommandMatches, CursorIs, DraftIs, RegionStands, RowMatches, TitleMatches
from interlock.screen.profile import Pace, Profile, Proof, Versions
from interlock.screen.profile_file import parse_version, read_profile
from interlock.vocabulary.errors import UsageError
from tests.each_row import each_row
from tests.screen.tiny import TINY

HEAD = 'id = "t"\ncli = "t"\ntitle = "T"\n'


def rule(when: str = '[{ match = "x" }]', more: str = "", state: str = "idle") -> str:
    return f'{HEAD}\n[[rule]]\nid = "first"\nstate = "idle"\nwhen = [{{ match = "x" }}]\n\n' + (
        f'[[rule]]\nid = "second"\nstate = "{state}"\n{more}when = {when}\n'
    )


def test_a_whole_profile_is_read() -> None:
    found = read_profile(TINY, "tiny.toml")
    assert (found.id, found.cli, found.title) == ("tiny-1", "tiny", "Tiny")
    assert found.versions == Versions((1, 0), (2, 0))
    assert list(found.regions) == ["screen", "composer", "transcript", "latest", "status", "box"]
    assert [rule.id for rule in found.rules][:2] == ["box.approval", "box.picker"]
    assert found.rules[0].kind is BlockKind.APPROVAL
    assert [rule.proof for rule in found.rules if rule.state is BusinessState.IDLE] == [Proof.WEAK, Proof.STRONG]
    assert found.pace == Pace(0.5, 3.0, 8.0, 2.0)
    assert found.prompts is not None
    assert found.composer is not None


@each_row(
    ("condition", "kind"),
    [
        ('{ match = "x" }', RowMatches),
        ('{ region = "screen", absent = "x", style = { dim = true, fg = ["1", "2"] } }', RowMatches),
        ('{ present = "screen" }', RegionStands),
        ('{ missing = "screen" }', RegionStands),
        ('{ title = "x" }', TitleMatches),
        ('{ title_absent = "x" }', TitleMatches),
        ('{ command = "x" }', CommandMatches),
        ('{ cursor = "hidden", cursor_in = "screen" }', CursorIs),
        ("{ draft = true }", DraftIs),
    ],
)
def test_each_kind_of_condition_is_read(condition: str, kind: type) -> None:
    assert isinstance(read_profile(rule(f"[{condition}]"), "f").rules[1].when[0], kind)


@each_row(
    ("text", "line", "says"),
    [
        ("", 1, "missing required field `id`"),
        (HEAD.replace('"T"', "5"), 3, "Expected `str`, got `int`"),
        (HEAD.replace('id = "t"', 'id = "Not a name"'), 1, "matching regex"),
        (f"{HEAD}colour = 1\n", 4, "unknown field `colour`"),
        (f"{HEAD}\n[colours]\nx = 1\n", 5, "unknown field `colours`"),
        (f"{HEAD}\nid =\n", 5, "not TOML"),
        (f'{HEAD}x = """', 4, "not TOML"),
        (f"{HEAD}x = {'9' * 5000}\n", 5, "not TOML"),
        (f"{HEAD}x = {'[' * 5000}\n", 5, "not TOML"),
        (f'{HEAD}versions = {{ from = "new" }}\n', 4, "'new' is no version"),
        (f'{HEAD}volatile = ["x", "("]\n', 4, "'(' is no regular expression"),
        (f'{HEAD}volatile = ["a{{99999999999999999999}}"]\n', 4, "is no regular expression"),
        (f'{HEAD}volatile = ["x", 1]\n', 4, "Expected `str`, got `int`"),
        (f'{HEAD}version_pattern = "["\n', 4, "is no regular expression"),
        (f"{HEAD}\n[pace]\nidle_hold_seconds = -1\n", 6, "0"),
        (f"{HEAD}\n[pace]\nidle_hold_seconds = 0.1\nhold = 1\n", 7, "unknown field `hold`"),
        (f'{HEAD}prompts = {{ present = "screen" }}\n', 4, "`prompts` names a region and a pattern"),
        (f'{HEAD}prompts = {{ region = "screen", absent = "x" }}\n', 4, "`prompts` names a region and a pattern"),
        (f'{HEAD}\n[composer]\nregion = "nowhere"\n', 5, "no region 'nowhere'"),
        (f'{HEAD}\n[composer]\nregion = "screen"\nmark = "("\n', 5, "is no regular expression"),
        (f'{HEAD}\n[[region]]\nname = "a"\nlast = 1\n\n[[region]]\nname = "a"\nlast = 2\n', 9, "two regions named 'a'"),
        (f'{HEAD}\n[[region]]\nname = "screen"\nlast = 1\n', 5, "two regions named 'screen'"),
        (f'{HEAD}\n[[region]]\nname = "a"\n', 5, "one of start, from, last, above, below"),
        (f'{HEAD}\n[[region]]\nname = "a"\nlast = 1\nstart = "x"\n', 5, "one of start, from, last, above, below"),
        (f'{HEAD}\n[[region]]\nname = "a"\nabove = "b"\n', 5, "stands earlier in the file"),
        (f'{HEAD}\n[[region]]\nname = "a"\nlast = 0\n', 7, ">= 1"),
        (f'{HEAD}\n[[region]]\nname = "a"\nstart = "("\n', 5, "is no regular expression"),
        (f'{HEAD}\n[options.x]\npattern = "x"\n', 5, "(?P<text>...)"),
        (f'{HEAD}\n[options.y]\npattern = "(?P<text>x)"\ncontinued = "x"\n', 5, "(?P<text>...)"),
        (f'{HEAD}\n[options.a]\npattern = "(?P<text>x)"\n\n[options.b]\npattern = "x"\n', 8, "(?P<text>...)"),
        (rule('[{ region = "nowhere", match = "x" }]'), 13, "no region 'nowhere'; the regions are screen"),
        (rule('[{ match = "(" }]'), 13, "is no regular expression"),
        (rule('[{ match = "x", title = "y" }]'), 13, "asks one thing"),
        (rule("[{ }]"), 13, "asks one thing"),
        (rule('[{ match = "x", absent = "y" }]'), 13, "not both"),
        (rule('[{ region = "screen" }]'), 13, "needs `match` or `absent`"),
        (rule('[{ cursor = "blinking" }]'), 13, "visible or hidden"),
        (rule('[{ match = "x", style = { colour = "1" } }]'), 13, "unknown field `colour`"),
        (rule("[{ match = 5 }]"), 13, "got `int`"),
        (rule("[]"), 13, "would hold on every screen"),
        (rule(state="resting"), 12, "Invalid enum value 'resting'"),
        (rule(state="awaiting_operator"), 10, "`kind` belongs to"),
        (rule(more='kind = "approval"\n'), 10, "`kind` belongs to"),
        (rule(state="idle", more="unended = true\n"), 10, "`unended` belongs to"),
        (rule(more='region = "nowhere"\n'), 10, "no region 'nowhere'"),
        (rule(more='options = "none"\n'), 10, "add [options.none]"),
        (rule().replace('id = "second"\n', ""), 10, "missing required field `id`"),
        (f'{HEAD}\n[[ending]]\nid = "e"\nend = "won"\nwhen = [{{ match = "x" }}]\n', 7, "Invalid enum value"),
        (f'{HEAD}\n[[ending]]\nid = "e"\nend = "failed"\nwhen = []\n', 8, "would hold on every screen"),
        (f"{HEAD}\n[[detect]]\nwhen = []\n", 6, "would hold on every screen"),
    ],
)
def test_what_is_wrong_is_said_with_file_and_line(text: str, line: int, says: str) -> None:
    with pytest.raises(UsageError) as refused:
        read_profile(text, "mine.toml")
    assert str(refused.value).startswith(f"mine.toml:{line}: ")
    assert says in str(refused.value)


@each_row(
    ("text", "numbers"),
    [("2.1.0", (2, 1, 0)), ("tool v1.2 (abc)", (1, 2)), ("7", (7,)), ("none", None), ("", None)],
)
def test_the_numbers_of_a_version(text: str, numbers: tuple[int, ...] | None) -> None:
    assert parse_version(text) == numbers


KEYS = st.sampled_from(
    [
        "id",
        "cli",
        "title",
        "versions",
        "volatile",
        "chrome",
        "prompts",
        "composer",
        "pace",
        "region",
        "options",
        "rule",
        "ending",
        "detect",
        "titles",
        "name",
        "start",
        "above",
        "below",
        "from",
        "last",
        "rows",
        "region",
        "match",
        "absent",
        "style",
        "state",
        "when",
        "kind",
        "input",
        "proof",
        "mark",
        "ghosts",
    ]
)
VALUES = st.recursive(
    st.one_of(
        st.sampled_from(["t", "screen", "(", "(?P<text>x)", "idle", "awaiting_operator", "approval", "weak", "1.0"]),
        st.text(st.characters(min_codepoint=32, max_codepoint=126, exclude_characters='"\\'), max_size=8),
        st.integers(-5, 2000),
        st.floats(allow_nan=False, allow_infinity=False),
        st.booleans(),
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(KEYS, inner, max_size=4)),
    max_leaves=6,
)


def toml(value: object) -> str:
    match value:
        case bool():
            return str(value).lower()
        case str():
            return f'"{value}"'
        case list():
            return f"[{', '.join(map(toml, value))}]"
        case dict():
            return "{" + ", ".join(f"{key} = {toml(one)}" for key, one in value.items()) + "}"
        case _:
            return repr(value)


def profile_or_refusal(text: str) -> None:
    said = "f.toml:"
    try:
        assert isinstance(read_profile(text, "f.toml"), Profile)
    except UsageError as refused:
        said = str(refused)
    assert said.startswith("f.toml:")


@pytest.mark.filterwarnings("ignore:Possible")
@given(st.dictionaries(KEYS, VALUES, max_size=6))
def test_any_tables_make_a_profile_or_a_refusal(tables: dict[str, object]) -> None:
    whole = {"id": "t", "cli": "t", "title": "T"} | tables
    profile_or_refusal("\n".join(f"{key} = {toml(value)}" for key, value in whole.items()))


@given(st.text())
def test_any_text_makes_a_profile_or_a_refusal(text: str) -> None:
    profile_or_refusal(text)


@pytest.mark.filterwarnings("ignore:Possible")
@given(st.data())
def test_a_profile_with_a_piece_cut_out_makes_a_profile_or_a_refusal(data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(TINY)))
    end = data.draw(st.integers(start, min(len(TINY), start + 60)))
    profile_or_refusal(TINY[:start] + TINY[end:])
