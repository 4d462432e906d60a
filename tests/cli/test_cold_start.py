"""A cold start pays for the command that was asked for, and for nothing else."""

from __future__ import annotations

import json

import pytest

from tests.cli.harness import python

HEAVY = {"httpx", "websockets", "litestar", "textual", "reactivex", "acp", "pydantic_ai"}
NOT_FOR_JSON = {"rich", "asyncio", "markdown_it", "pygments", "importlib.metadata", "subprocess"}


def modules_after(code: str) -> set[str]:
    """What a fresh interpreter has imported after `code`, as it says itself on stderr."""
    done = python(f"import json, sys\n{code}\nsys.stderr.write(json.dumps(sorted(sys.modules)))")
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stderr))


@pytest.mark.parametrize("args", [["machines", "--json"], ["machines"]])
def test_a_piped_list_of_machines_needs_no_heavy_module(args: list[str]) -> None:
    loaded = modules_after(f"from interlock.cli import main\nassert main({args!r}) == 0")
    assert not loaded & (HEAVY | NOT_FOR_JSON)


def test_the_first_help_page_does_not_even_need_the_parser() -> None:
    loaded = modules_after("from interlock.cli import main\nassert main(['--help']) == 0")
    assert not loaded & (HEAVY | NOT_FOR_JSON | {"cyclopts", "msgspec"})


def test_importing_the_package_is_light() -> None:
    assert not modules_after("import interlock") & (HEAVY | NOT_FOR_JSON | {"cyclopts"})
