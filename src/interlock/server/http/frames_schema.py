"""The JSON Schema of what goes over the socket: frames of either side, and the `result` of the ack to each request.

Law: a request that neither has a result here nor an answer of its own stops the build of the page that lists them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from interlock.server.http.shapes import QueueGateStanding
from interlock.vocabulary.events.schema import SCHEMA_DIALECT
from interlock.vocabulary.wire.frames import RuntimeCheck
from interlock.vocabulary.wire.requests import (
    ApprovalDecide,
    BoardLeave,
    ChatCancel,
    ChatSend,
    Ping,
    QueueEdit,
    QueueRemove,
    QueueSetGate,
    Request,
    ServerFrame,
    TaskLeave,
    TaskSeen,
)
from interlock.vocabulary.wire.resources import ApprovalStanding, Cancelled, PromptStanding, SeenStanding
from interlock.vocabulary.wire.schema import require_every_field

RESULTS: Final[Mapping[type[msgspec.Struct], type | None]] = {
    TaskLeave: None,
    BoardLeave: None,
    Ping: None,
    ChatSend: PromptStanding,
    ChatCancel: Cancelled,
    QueueEdit: PromptStanding,
    QueueRemove: PromptStanding,
    QueueSetGate: QueueGateStanding,
    TaskSeen: SeenStanding,
    ApprovalDecide: ApprovalStanding,
}
"""The `result` of the ack to each request that has no answer of its own."""


def frames_schema() -> dict[str, Any]:
    """One document: a frame of either side, with all that is in it by name."""
    roots: dict[str, Any] = {"ServerFrame": ServerFrame, "Request": Request, "RuntimeCheck": RuntimeCheck}
    results = {kind.__name__: kind for kind in RESULTS.values() if kind is not None}
    wanted = {**roots, **results}
    references, definitions = msgspec.json.schema_components(list(wanted.values()), ref_template="#/$defs/{name}")
    found = dict(zip(wanted, references, strict=True))
    require_every_field(definitions, [found[name] for name in wanted if name != "Request"])
    named = {name: found[name] for name in roots if name not in definitions}
    definitions["Ack"]["properties"]["result"] = {
        "anyOf": [{"type": "null"}, *({"$ref": f"#/$defs/{name}"} for name in sorted(results))]
    }
    by_request = {
        str(asked.__struct_config__.tag): {"type": "null"} if kind is None else {"$ref": f"#/$defs/{kind.__name__}"}
        for asked, kind in RESULTS.items()
    }
    # Not a frame: one property for each request that an ack answers, with the schema of its `result`.
    by_tag = {"type": "object", "properties": by_request, "additionalProperties": False}
    return {
        "$schema": SCHEMA_DIALECT,
        "title": "Interlock frames",
        "anyOf": [{"$ref": "#/$defs/ServerFrame"}, {"$ref": "#/$defs/Request"}],
        "$defs": {**definitions, **named, "AckResults": by_tag},
    }
