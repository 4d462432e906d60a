"""What the commands of plans are given: a plan by its path or name, values of parameters, and whether it is trusted."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from interlock.cli.rules.files import home_of
from interlock.runtime.config import plan_files
from interlock.runtime.config.plan_files import PROJECT_PLANS, FoundPlan
from interlock.vocabulary.errors import UsageError

PlanArgument = Annotated[
    str, Parameter(help=f"A plan file, or the name of one in {PROJECT_PLANS} or in your configuration folder.")
]
ParamOption = Annotated[
    list[str] | None,
    Parameter(name="--param", negative="", help="The value of a parameter, as NAME=VALUE. May be repeated."),
]


def is_trusted(home: Path | None, plan: FoundPlan) -> bool:
    """Whether a plan may run: it is the user's own, or trusted as it stands now."""
    return plan_files.is_trusted(home_of(home), plan)


def require_trust(home: Path | None, plan: FoundPlan) -> None:
    """Raise `UsageError` for a plan that no person trusts as it stands now."""
    plan_files.require_trust(home_of(home), plan)


def params_of(given: Sequence[str] | None) -> dict[str, str]:
    """The values of `--param NAME=VALUE`, each parameter once."""
    values: dict[str, str] = {}
    for one in given or ():
        name, sign, value = one.partition("=")
        if not sign or not name:
            raise UsageError(f"--param {one!r} is no NAME=VALUE", remedy="write --param NAME=VALUE")
        if name in values:
            raise UsageError(f"--param {name} is given twice", remedy="give it once; a list is written a,b,c")
        values[name] = value
    return values
