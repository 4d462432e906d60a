"""Many rows of a table in one test: pytest spends some six milliseconds on a test, which is more than most rows take.

For tests whose every argument is in the table: a fixture would be shared by all rows. A test with a temporary folder,
with a process or with a row that takes a while stays with `pytest.mark.parametrize`.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

Test: TypeAlias = Callable[..., None]


def each_row(
    names: str | Sequence[str],
    values: Iterable[Any],
    *,
    ids: Iterable[str] | Callable[[Any], object] | None = None,
) -> Callable[[Test], Test]:
    """Run a test once for each row, whatever became of the rows before. Written as `pytest.mark.parametrize` is."""
    words = [one.strip() for one in names.split(",")] if isinstance(names, str) else list(names)
    is_single = isinstance(names, str) and len(words) == 1
    given = list(values)
    is_param = [hasattr(row, "marks") for row in given]  # made by `pytest.param`
    assert not any(row.marks for row, is_one in zip(given, is_param, strict=True) if is_one), (
        "a mark needs its own test"
    )
    table = [
        tuple(row.values if is_one else (row,) if is_single else row)
        for row, is_one in zip(given, is_param, strict=True)
    ]
    named = None if ids is None or callable(ids) else list(ids)
    assert table, "a table without a row proves nothing"
    assert all(len(row) == len(words) for row in table), f"each row has to give {words}"
    assert named is None or len(named) == len(table), "each row has to have an id"

    def name_of(at: int) -> str:
        if named is not None:
            return str(named[at])
        if is_param[at] and given[at].id:
            return str(given[at].id)
        return "-".join(str((ids(value) if callable(ids) else None) or repr(value)) for value in table[at])

    def decorate(test: Test) -> Test:
        signature = inspect.signature(test)
        assert set(words) <= set(signature.parameters), f"{test.__name__} does not take {words}"

        @functools.wraps(test)
        def run(*args: object, **others: object) -> None:
            errors = list[Exception]()
            for at, row in enumerate(table):
                try:
                    test(*args, **others, **dict(zip(words, row, strict=True)))
                except Exception as error:
                    error.add_note(f"row {at + 1} of {len(table)}: {name_of(at)}")
                    errors.append(error)
            if len(errors) == 1:
                raise errors[0]
            if errors:
                raise ExceptionGroup(f"{len(errors)} of {len(table)} rows", errors)

        left = [one for name, one in signature.parameters.items() if name not in words]
        run.__signature__ = signature.replace(parameters=left)  # type: ignore[attr-defined]
        return run

    return decorate
