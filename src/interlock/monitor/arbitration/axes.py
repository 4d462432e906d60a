"""The two axes in terms of each other: which attention a dialog asks for, and which activities exclude one another.

The words themselves are `Activity` and `Attention` of the vocabulary.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from interlock.screen.assessment import BlockKind
from interlock.vocabulary.states import Activity, Attention

ATTENTION_OF_BLOCK: Final[Mapping[BlockKind, Attention]] = {
    BlockKind.APPROVAL: Attention.APPROVAL,
    BlockKind.QUESTION: Attention.QUESTION,
    BlockKind.PLAN: Attention.PLAN,
    BlockKind.TRUST: Attention.APPROVAL,
    BlockKind.AUTH: Attention.AUTH,
    BlockKind.QUOTA: Attention.QUOTA,
    BlockKind.UPDATE: Attention.QUESTION,
    BlockKind.OTHER: Attention.QUESTION,
}
"""What a dialog asks a person for. One whose kind was not read is asked as `other`."""

_TURN_IS_OPEN: Final[Mapping[Activity, bool]] = {
    Activity.WORKING: True,
    Activity.SETTLING: False,
    Activity.QUIET: False,
}


def turn_is_open(activity: Activity) -> bool | None:
    """Whether a turn runs. None: the activity does not tell, so it contradicts no other.

    Settling and quiet agree: most sources see the turn end and know nothing of its children.
    """
    return _TURN_IS_OPEN.get(activity)
