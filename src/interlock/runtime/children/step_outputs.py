"""Looks at the files that steps declare: as facts that decide, and as text for the steps that come after."""

from __future__ import annotations

import codecs
import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from io import BufferedReader
from pathlib import Path
from stat import S_ISREG
from typing import Final

import msgspec

from interlock.lifecycle.children.checkpoint import OutputFact
from interlock.lifecycle.children.workflow_plan import StepOutput
from interlock.lifecycle.children.workflow_step import StepEvidence
from interlock.lifecycle.plans.templates import MAX_INSERTED, ShownOutput, StepShown
from interlock.runtime.children.step_places import diff_text
from interlock.vocabulary.events.codec import can_be_kept
from interlock.vocabulary.events.registry import Json
from interlock.vocabulary.ids import StepId

_MAX_JSON_BYTES: Final = 10_000_000
_MAX_CHARACTER_BYTES: Final = 4


def look_at(folder: Path, output: StepOutput) -> OutputFact:
    """What is found at the path of an output, below the folder of the workflow."""
    root = folder.resolve()
    path = (root / output.path).resolve()
    if not path.is_relative_to(root):
        return OutputFact(output=output, problem=f"{output.path} leads out of the folder of the workflow")
    try:
        found = path.stat()
        if not S_ISREG(found.st_mode):
            return OutputFact(output=output, problem=f"{output.path} is no regular file")
        is_json = output.type == "json"
        if is_json and found.st_size > _MAX_JSON_BYTES:
            return OutputFact(output=output, problem=f"{output.path} has more than {_MAX_JSON_BYTES} bytes")
        with _regular(path) as stream:
            digest = hashlib.file_digest(stream, "sha256").hexdigest()
            stream.seek(0)
            content = stream.read(_MAX_JSON_BYTES) if is_json else None
    except OSError as error:
        return OutputFact(output=output, problem=f"{output.path}: {error.strerror or error}")
    written_at = datetime.fromtimestamp(found.st_mtime, UTC)
    return OutputFact(output=output, written_at=written_at, size_bytes=found.st_size, sha256=digest, content=content)


def _regular(path: Path) -> BufferedReader:
    """A regular file, to be read. What it was replaced by since, such as a pipe, is not waited for: `OSError`."""
    stream = os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb")
    if not S_ISREG(os.fstat(stream.fileno()).st_mode):
        stream.close()
        raise OSError(f"{path} is no regular file")
    return stream


def text_output(output: StepOutput, claim: Json) -> OutputFact:
    """The text that a checkpoint of this attempt holds, by the name of the output."""
    given = claim.get("outputs") if isinstance(claim, dict) else None
    text = given.get(output.name) if isinstance(given, dict) else None
    if not isinstance(text, str) or not text.strip():
        return OutputFact(output=output, problem=f"the checkpoint has no text {output.name!r} in its field `outputs`")
    data = text.encode("utf-8", "replace")
    digest = hashlib.sha256(data).hexdigest()
    return OutputFact(output=output, written_at=datetime.now(UTC), content=data, size_bytes=len(data), sha256=digest)


def commit_output(output: StepOutput, *, is_changed: bool) -> OutputFact:
    """Whether there is work of which a commit can be made."""
    if not is_changed:
        return OutputFact(output=output, problem="nothing was changed: there is nothing to commit")
    return OutputFact(output=output, written_at=datetime.now(UTC))


def output_json(fact: OutputFact, commit: str = "") -> Json:
    """What is recorded of an output that is there."""
    if fact.output.type == "commit":
        return {"name": fact.output.name, "commit": commit}
    if fact.output.type == "text":
        return {"name": fact.output.name, "text": (fact.content or b"").decode("utf-8", "replace")}
    return {"name": fact.output.name, "path": fact.output.path, "bytes": fact.size_bytes, "sha256": fact.sha256}


def items_of(folder: Path, checkpoint: Json, name: str) -> tuple[str, ...]:
    """The items of a JSON list that a step proved, each as text. `ValueError` where it is not the same any more."""
    told = checkpoint if isinstance(checkpoint, dict) else {}
    tree, outputs = told.get("tree"), told.get("outputs")
    root = Path(str(tree["folder"])) if isinstance(tree, dict) else folder
    listed = outputs if isinstance(outputs, list) else []
    output = next((one for one in listed if isinstance(one, dict) and one.get("name") == name), None)
    if output is None:
        raise ValueError(f"there is no output {name!r}")
    with _regular(root / str(output.get("path"))) as stream:
        data = stream.read(_MAX_JSON_BYTES + 1)
    if hashlib.sha256(data).hexdigest() != output.get("sha256"):
        raise ValueError(f"{output.get('path')} has changed since it was proven")
    items: object = msgspec.json.decode(data)
    if not isinstance(items, list):
        raise ValueError(f"{output.get('path')} is no list")
    texts = tuple(one if isinstance(one, str) else msgspec.json.encode(one).decode() for one in items)
    if not can_be_kept(list(texts)):
        raise ValueError(f"{output.get('path')} has an item with a character that is no text")
    return texts


def joined(shown: Mapping[StepId, StepShown], items: Sequence[StepId]) -> StepShown:
    """What the steps of items have to show together."""
    known = {item: shown[item] for item in items if item in shown}
    names = dict.fromkeys(name for one in known.values() for name in one.outputs)
    outputs = {name: _joined({item: one.outputs.get(name) for item, one in known.items()}) for name in names}
    summary = "\n".join(f"{item}: {one.summary}" for item, one in known.items())
    return StepShown(summary, outputs, _joined({item: one.diff for item, one in known.items()}))


def _joined(each: Mapping[StepId, ShownOutput | None]) -> ShownOutput:
    place = "; ".join(f"{item}: {one.place}" for item, one in each.items() if one is not None)
    texts = [f"{item}:\n{one.text}" for item, one in each.items() if one is not None and one.text is not None]
    is_whole = len(texts) == sum(one is not None for one in each.values())
    return ShownOutput(place, "\n".join(texts) if is_whole else None)


def shown_by(folder: Path, evidence: StepEvidence) -> StepShown:
    """What a ready step has to show to the templates of later steps: its words, and its outputs as they are now."""
    checkpoint = evidence.checkpoint
    tree = checkpoint.get("tree") if isinstance(checkpoint, dict) else None
    if not isinstance(tree, dict) or not tree.get("commit"):
        return StepShown(evidence.summary, dict(_shown_outputs(folder.resolve(), checkpoint)))
    root, base, commit = Path(str(tree["folder"])), str(tree["base"]), str(tree["commit"])
    shown = ShownOutput(f"see it with `git diff {base} {commit}`", diff_text(folder, base, commit))
    return StepShown(evidence.summary, dict(_shown_outputs(root.resolve(), checkpoint)), shown)


def _shown_outputs(root: Path, checkpoint: Json) -> Iterator[tuple[str, ShownOutput]]:
    recorded = checkpoint.get("outputs") if isinstance(checkpoint, dict) else None
    for one in recorded if isinstance(recorded, list) else ():
        name, path = (one.get("name"), one.get("path")) if isinstance(one, dict) else (None, None)
        plain = (one.get("commit") or one.get("text")) if isinstance(one, dict) else None
        if isinstance(name, str) and isinstance(plain, str):
            yield name, ShownOutput("it is in the log of the workflow", plain)
        if isinstance(name, str) and isinstance(path, str) and (root / path).resolve().is_relative_to(root):
            yield name, ShownOutput(f"it is in the file {root / path}", _text_of(root / path))


def _text_of(path: Path) -> str | None:
    """The beginning of a file, enough to see that it is too long; None: it is no text."""
    try:
        with _regular(path) as stream:
            data = stream.read((MAX_INSERTED + 1) * _MAX_CHARACTER_BYTES)
        return codecs.getincrementaldecoder("utf-8")().decode(data)
    except (OSError, UnicodeDecodeError):
        return None
