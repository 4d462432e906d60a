"""Children and workflows through a real server, by every door and every kind of agent: nothing but proof makes a
completion, on every surface that shows one."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest

from tests.bodies import Body
from tests.cli.fleet import Fleet
from tests.cli.serving import until
from tests.gauntlet.doors import (
    AGENTS,
    BEGINS,
    STARTS,
    TELL,
    end_of_child,
    fleet_of_all_kinds,
    plan_name,
    write_plans,
)
from tests.gauntlet.ways import ANSWER

pytestmark = pytest.mark.deep
each_way = pytest.mark.parametrize("way", AGENTS)
CHILDREN = {"answer": "completed", "break": "failed", "hang": "timed_out"}
LATE_SECONDS = 3.0
EXIT_CODES = {"completed": 0, "partial": 3, "failed": 1, "held": 6}


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    with fleet_of_all_kinds(tmp_path_factory.mktemp("doors") / "served") as one:
        write_plans(one)
        yield one


def parent_of(fleet: Fleet, name: str) -> str:
    """A session of the lead that has answered once."""
    session = fleet.lead(name)
    fleet.ended(session)
    return session


def diagnosed(fleet: Fleet, session: str) -> Body:
    return json.loads(fleet.cli("debug", "diagnose", session, "--json").stdout)


@each_way
@pytest.mark.parametrize("deed", CHILDREN)
@pytest.mark.parametrize("door", STARTS)
def test_a_child_ends_as_its_own_log_proves_it_on_every_surface(fleet: Fleet, way: str, door: str, deed: str) -> None:
    parent = parent_of(fleet, f"parent-{way}-{door}-{deed}")
    STARTS[door](fleet, parent, AGENTS[way], TELL[way](deed), LATE_SECONDS if deed == "hang" else 100.0)
    child, wanted = end_of_child(fleet, parent), CHILDREN[deed]
    assert child["status"] == wanted, child
    assert (child["summary"] == ANSWER) is (wanted == "completed")
    facts = [one["data"]["status"] for one in fleet.log(parent) if one["type"] == "subagent_event"]
    assert facts.count(wanted) == 1
    assert facts[-1] == wanted
    shown = json.loads(fleet.cli("show", parent, "--json").stdout)["children"]
    assert [one["status"] for one in shown] == [wanted]
    assert wanted.replace("_", " ") in fleet.cli("show", parent).stdout
    (drawn,) = re.findall(r"^subagent .*\[(.+)\]$", fleet.cli("logs", parent).stdout, re.MULTILINE)
    assert (drawn == "completed") is (wanted == "completed"), drawn
    summary = fleet.served.task(parent)["summary"]
    assert summary["children"] == {"running": 0, "waiting": 0, "ended_badly": int(wanted != "completed")}
    assert diagnosed(fleet, parent)["ok"] is True
    if child["task_id"] is not None and wanted != "completed":
        own = fleet.served.task(child["task_id"])["summary"]
        assert own["task_status"] != "COMPLETED"


@each_way
@pytest.mark.parametrize("item", EXIT_CODES)
@pytest.mark.parametrize("door", BEGINS)
def test_a_workflow_is_completed_by_proof_alone_on_every_surface(fleet: Fleet, way: str, door: str, item: str) -> None:
    workflow = BEGINS[door](fleet, plan_name(way, item))
    done = fleet.cli("plan", "wait", workflow, "--timeout", "100")
    assert done.returncode == EXIT_CODES[item], (done.stdout, done.stderr)
    standing = json.loads(fleet.served.api.ask_raw("GET", f"/api/workflows/{workflow}"))
    assert standing["status"] == item
    summary = fleet.served.task(f"ses_{workflow}")["summary"]
    assert summary["workflow"]["status"] == item
    assert summary["workflow"]["ready"] == sum(one["state"] == "checkpoint_ready" for one in standing["steps"])
    assert summary["badge"]["needs_person"] is (item == "held")
    assert f"is {item}" in fleet.cli("why", f"ses_{workflow}").stdout
    assert diagnosed(fleet, f"ses_{workflow}")["ok"] is True
    if summary["parent_id"] is not None:  # a model began it: its own line does not read plainly done
        above = until(lambda: _told_of(fleet, summary["parent_id"], item), "the line above says how it stands")
        assert above["waits_below"] == int(item == "held")
        assert above["task_status"] == "COMPLETED"
        listed = fleet.cli("ps", "--all", "--tree").stdout
        assert (f"plan {item}" in listed) or item == "completed"
    if item == "held":
        assert fleet.cli("plan", "answer", workflow, "ask", "go").returncode == 0
        assert fleet.cli("plan", "wait", workflow, "--timeout", "100").returncode == 0


def _told_of(fleet: Fleet, session: str, item: str) -> Body | None:
    summary: Body = fleet.served.task(session)["summary"]
    return summary if summary["workflow"] and summary["workflow"]["status"] == item else None
