"""The type of an object of the wire in a test, which asks it for whatever is expected there."""

from __future__ import annotations

from typing import Any, TypeAlias

Body: TypeAlias = Any
