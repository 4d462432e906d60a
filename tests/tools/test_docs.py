"""The generated pages: the same each time, and a difference never goes unnoticed."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import msgspec
import pytest

from interlock.lifecycle.table import Edge, Machine
from interlock.vocabulary.events.registry import DECLARATIONS
from tests.docs.running import generated_pages
from tools import docs


class Door(StrEnum):
    OPEN = "open"
    SHUT = "shut"


def door() -> Machine[Door, None]:
    return Machine(
        name="door",
        title="A door | or a gate",
        states=Door,
        initial=Door.OPEN,
        edges=(Edge(Door.OPEN, "shut", Door.SHUT),),
        laws="A door.\n\n    Laws:\n    1. It shuts.\n    ",
        commands=frozenset({"shut"}),
        terminal=frozenset({Door.SHUT}),
    )


def test_a_machine_page_has_laws_diagram_matrix_and_edges() -> None:
    text = docs.machine_page("door", (door(), door()))
    assert text.startswith(f"{docs.MARKER}\n\n# door\n\nA door.\n\nLaws:\n1. It shuts.")
    assert text.count("It shuts.") == 1
    assert "```mermaid\nstateDiagram-v2\n" in text
    assert "| `shut` | command | shut | refused |" in text
    assert "| open | `shut` |  | shut |" in text


def test_the_index_escapes_what_would_break_its_table() -> None:
    assert "| [door](door.md) | A door \\| or a gate | 2 | 1 | 1 |" in docs.index_page({"door": (door(),)})


def test_the_events_page_names_every_type_and_field() -> None:
    text = docs.events_page(DECLARATIONS)
    assert DECLARATIONS
    for one in DECLARATIONS.values():
        assert f"\n## {one.type}\n" in text
        assert all(f"| `{field.encode_name}` |" in text for field in msgspec.structs.fields(one.payload))


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (str, "str"),
        (Any, "any JSON"),
        (int | None, "int or null"),
        (tuple[str, ...], "list of str"),
        (dict[str, int], "map to int"),
        (Annotated[int, msgspec.Meta(ge=1)], "int, at least 1"),
        (Annotated[str, msgspec.Meta(min_length=1)], "str, not empty"),
        (Door, "one of `open`, `shut`"),
    ],
)
def test_types_in_words(kind: object, words: str) -> None:
    assert docs.type_name(kind) == words


def test_an_unknown_shape_of_type_is_refused() -> None:
    with pytest.raises(TypeError, match="cannot put"):
        docs.type_name(type[str])


def test_check_sees_missing_stale_and_extra_pages(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = generated_pages()
    monkeypatch.setattr(docs, "pages", lambda: made)  # they take seconds to make, and are the same each time
    assert docs.main(["--check"], tmp_path) == 1
    assert "missing: docs/machines/README.md" in capsys.readouterr().err

    assert docs.main([], tmp_path) == 0
    assert docs.main(["--check"], tmp_path) == 0
    capsys.readouterr()

    (tmp_path / "machines" / "README.md").write_text("edited")
    (tmp_path / "machines" / "gone.md").write_text(f"{docs.MARKER}\n")
    (tmp_path / "reference" / "by-hand.md").write_text("a person's page")
    assert docs.main(["--check"], tmp_path) == 1
    assert capsys.readouterr().err.splitlines() == [
        "stale: docs/machines/README.md",
        "extra: docs/machines/gone.md",
        "The generated pages do not match the code. To mend them: make docs",
    ]

    assert docs.main([], tmp_path) == 0
    assert docs.main(["--check"], tmp_path) == 0
    assert not (tmp_path / "machines" / "gone.md").exists()
    assert (tmp_path / "reference" / "by-hand.md").exists()


def test_the_pages_are_the_same_each_time() -> None:
    assert docs.pages() == generated_pages()


def test_a_wrong_argument_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert docs.main(["--chekc"]) == 2
    assert "usage:" in capsys.readouterr().err
