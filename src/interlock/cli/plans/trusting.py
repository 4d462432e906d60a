"""`interlock plan trust`: a person says that a plan may run, as it stands now."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from msgspec import structs

from interlock.cli import output
from interlock.cli.exit_codes import ExitCode
from interlock.cli.home import HomeOption, JsonFlag
from interlock.cli.plans.finding import PlanArgument
from interlock.cli.rules.files import FolderOption, home_of
from interlock.cli.rules.standing import refuse_agents
from interlock.runtime.config.plan_files import find_plan
from interlock.runtime.rules.keeper import read_standing, write_standing


def trust(
    plan: PlanArgument,
    /,
    *,
    forget: Annotated[bool, Parameter(negative="", help="Stop trusting it.")] = False,
    cwd: FolderOption = None,
    home: HomeOption = None,
    json: JsonFlag = False,
) -> int:
    """Let a plan of a project run, as it stands now. A changed file is not trusted."""
    refuse_agents()
    found = find_plan(plan, os.environ, Path(cwd or Path.cwd()))
    folder = home_of(home)
    standing = read_standing(folder)
    trusted = {path: digest for path, digest in standing.trusted.items() if path != str(found.path)}
    if not forget:
        trusted[str(found.path)] = found.digest
    write_standing(folder, structs.replace(standing, trusted=trusted))
    if json:
        output.print_json({"path": str(found.path), "digest": found.digest, "is_trusted": found.is_own or not forget})
    else:
        output.print_text(f"{'not trusted any more' if forget else 'trusted'}: {found.path}, {found.digest[:12]}")
    return ExitCode.COMPLETED
