"""Sessions at rest that nobody has to hold: the fold by which they are known, and how its lines are spelled.

A server that starts lists the sessions without such a line, and takes up those alone. Any other is woken by the first
command for it. See decision 0034.
"""

from __future__ import annotations

from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from interlock.log.snapshots import FoldName, FoldSnapshot
from interlock.projections.task.summary import TaskLine
from interlock.projections.task.view import TaskView

_PACKAGE: Final = Path(__file__).resolve().parent.parent
_FOLDING: Final = ("vocabulary", "lifecycle", "projections")
_decoder: Final = msgspec.msgpack.Decoder(TaskLine)


def fold_name(name: str, shape: type[Struct], *, number: int = 1) -> FoldName:
    """A fold whose version changes with the shape of its payload, with `number`, and with the code that folds."""
    made = sha256(f"{name}\n{number}\n".encode())
    made.update(msgspec.json.encode(msgspec.json.schema(shape), order="sorted"))
    made.update(code_digest())
    return FoldName(name, made.hexdigest()[:32])


@cache
def code_digest() -> bytes:
    """A digest of every module that folds are made of. A change of any of them makes every snapshot an old one."""
    made = sha256()
    for path in sorted(one for folder in _FOLDING for one in (_PACKAGE / folder).rglob("*.py")):
        made.update(f"{path.relative_to(_PACKAGE)}\n".encode())
        made.update(path.read_bytes())
    return made.digest()


@cache
def line_fold() -> FoldName:
    """The fold of lines of sessions at rest. Only such sessions have one."""
    return fold_name("line", TaskLine)


def line_snapshot(view: TaskView) -> FoldSnapshot:
    """The line of a view that is at rest."""
    return FoldSnapshot(
        session_id=view.task_id,
        version=view.version,
        payload=msgspec.msgpack.encode(view.line(), order="deterministic"),
    )


def read_line(snapshot: FoldSnapshot) -> TaskLine:
    """What `line_snapshot` wrote. The version of the fold covers its shape."""
    return _decoder.decode(snapshot.payload)
