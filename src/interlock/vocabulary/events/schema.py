"""JSON Schema of the vocabulary, for other languages and for validators."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from interlock.vocabulary.events.envelope import AnyEvent

SCHEMA_DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"


def json_schema() -> dict[str, Any]:
    """One document that describes every event, told apart by `type`."""
    (reference,), definitions = msgspec.json.schema_components([AnyEvent], ref_template="#/$defs/{name}")
    for definition in definitions.values():
        definition.get("properties", {}).pop("unknown_fields", None)  # ours, never on the wire
    return {"$schema": SCHEMA_DIALECT, "title": "Interlock event", **reference, "$defs": definitions}
