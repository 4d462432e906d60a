"""Figures for Prometheus: from the log, in its format, and never invented."""

from __future__ import annotations

import re

from interlock.server.metrics import Family, render
from tests.contract.harness import run
from tests.server.http_harness import house
from tests.server.test_routes_insight import USED, one_turn

LINE = re.compile(r'^(# (HELP|TYPE) interlock_\w+ .+|interlock_\w+(\{\w+="[^"]*"\})? -?\d+(\.\d+)?(e-?\d+)?)$')


def figures(text: str) -> dict[str, float]:
    return {
        name: float(value)
        for name, _, value in (line.rpartition(" ") for line in text.splitlines() if not line.startswith("#"))
    }


def test_the_figures_of_a_server() -> None:
    async def story() -> None:
        async with house() as server:
            empty = (await server.observer.get("/metrics")).text
            assert "interlock_tokens_total" not in empty
            assert "interlock_cost_usd_total" not in empty
            await one_turn(server, "ses_a", USED)
            await one_turn(server, "ses_b")
            task_id = await server.open("ses_c")
            await server.operator.put(f"/api/tasks/{task_id}/queue/gate", json={"is_open": False})
            await server.operator.post(f"/api/tasks/{task_id}/prompts", json={"text": "x"})
            await server.operator.post("/api/tasks/ses_b/stop")
            answer = await server.observer.get("/metrics")
            assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
            assert all(LINE.match(line) for line in answer.text.splitlines()), answer.text
            told = figures(answer.text)
            assert told['interlock_tasks{status="COMPLETED"}'] == 2
            assert told['interlock_tasks{status="PENDING"}'] == 1
            assert told['interlock_turns{state="completed"}'] == 2
            assert told["interlock_prompts_queued"] == 1
            assert told["interlock_approvals_open"] == 0
            assert told['interlock_spawns_ended_total{reason="stopped"}'] == 1
            assert told["interlock_spawns_not_ended"] == 1
            assert told['interlock_tokens_total{kind="input"}'] == 10
            assert told["interlock_cost_usd_total"] == 0.25
            assert told["interlock_turns_without_usage"] == 1
            assert told["interlock_ready"] == 1
            assert told["interlock_log_events_total"] == sum(view.version for view in server.state.hub.views.values())
            assert "hello" not in answer.text

    run(story())


def test_the_format() -> None:
    odd = Family(name="interlock_x", kind="gauge", help="X.", label="of", samples={'a"b\\c\n': 1.5, "b": 2})
    assert render([odd]) == (
        '# HELP interlock_x X.\n# TYPE interlock_x gauge\ninterlock_x{of="a\\"b\\\\c\\n"} 1.5\ninterlock_x{of="b"} 2\n'
    )
    assert render([Family(name="interlock_y", kind="gauge", help="Y.")]) == "\n"
