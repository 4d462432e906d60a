"""A program that is killed in the midst of its children: `python -m tests.cli.children_left_behind HOME AGENT KIND`.

One child is in a turn that waits, the other has its prompt in its queue and no place in the pool. It says so in a line.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from interlock.agents.drivers import builtin_drivers
from interlock.agents.pool.pool import PoolLimits
from interlock.agents.port import AgentSpec
from interlock.lifecycle.children.workflow_plan import StepSpec, WorkflowSpec
from interlock.log.sqlite.store import SqliteLog
from interlock.runtime.children.subagents import Subagents
from interlock.runtime.children.workflows import Workflows
from interlock.runtime.runtime import Runtime
from interlock.vocabulary.ids import SessionId, StepId, WorkflowId

PARENT = SessionId("ses_parent")
BUSY, DEPLOY = "gate never", "say deployed"


async def main(home: Path, agent: str, kind: str) -> None:
    spec = AgentSpec(agent="scripted", driver="claude-stream", argv=(agent,), cwd=str(home.parent))
    async with await SqliteLog.open(home) as log:
        runtime = Runtime(log, builtin_drivers(home), limits=PoolLimits(total=1))
        async with runtime, Subagents(runtime, log) as subagents, Workflows(runtime, subagents, log) as workflows:
            await runtime.open_session(spec, title="parent", session_id=PARENT)
            if kind == "workflow":
                steps = tuple(StepSpec(id=StepId(name), task=task) for name, task in (("a", BUSY), ("b", DEPLOY)))
                await workflows.begin(PARENT, WorkflowSpec(id=WorkflowId("wf_1"), steps=steps), lambda _: spec)
            else:
                await subagents.start(PARENT, spec, BUSY)
                await subagents.start(PARENT, spec, DEPLOY)
            async with runtime.watch() as published:
                while not _is_staged(runtime):
                    await anext(published)
            sys.stdout.write("staged\n")
            sys.stdout.flush()
            await asyncio.Event().wait()


def _is_staged(runtime: Runtime) -> bool:
    books = [runtime.supervisor(one).book for one in runtime.sessions if one != PARENT]
    return len(books) == 2 and sorted((book.turn is not None, len(book.queue.waiting)) for book in books) == [
        (False, 1),
        (True, 0),
    ]


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2], sys.argv[3]))
