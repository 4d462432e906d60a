"""What a spec may say to the model driver, in `options`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from interlock.agents.model import builtin
from interlock.agents.model.attempts import RetryPolicy
from interlock.lifecycle.permissions import Rule, parse_rule
from interlock.lifecycle.stop_conditions import DEFAULT_CONDITIONS, StopCondition
from interlock.vocabulary.errors import UsageError
from interlock.vocabulary.registry import Json


class ModelOptions(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Every option, each with its default.

    `permissions` and `write_policy` are rules of `lifecycle/permissions.py`. `tools` names the built-in tools to offer.
    `settings` go to the provider (`max_tokens`, `temperature`, ...). `stop` are conditions, the first match wins.
    """

    instructions: str = ""
    base_url: str = ""
    tools: tuple[str, ...] = builtin.NAMES
    permissions: tuple[str, ...] = builtin.DEFAULT_RULES
    write_policy: tuple[str, ...] = ()
    stop: tuple[StopCondition, ...] = DEFAULT_CONDITIONS
    retry: RetryPolicy = RetryPolicy()
    settings: dict[str, Json] = {}
    context_window_tokens: Annotated[int, Meta(ge=1)] | None = None

    def rules(self) -> tuple[Rule, ...]:
        return tuple(parse_rule(line) for line in self.permissions)


def read_options(given: Mapping[str, Json]) -> ModelOptions:
    """Read the options of a spec. `UsageError` names the one that is wrong."""
    try:
        options = msgspec.convert(dict(given), ModelOptions)
    except msgspec.ValidationError as wrong:
        known = ", ".join(ModelOptions.__struct_fields__)
        raise UsageError(
            f"an option of the model driver is wrong: {wrong}", remedy=f"the options are {known}"
        ) from wrong
    unknown = sorted(set(options.tools) - set(builtin.NAMES))
    if unknown:
        raise UsageError(f"there is no built-in tool {unknown[0]!r}", remedy=f"there are {', '.join(builtin.NAMES)}")
    return options
