"""Answer what is asked by rule, in every session, and leave the rest to a person.

    interlock up
    python examples/gatekeeper.py

Tools that only read are allowed, a few commands are refused, everything else stays open. Who decided is in the log.
"""

from __future__ import annotations

import asyncio
import re
import sys

from interlock import Approval, InterlockError, UsageError, connect_async
from interlock.vocabulary.states import Attention

READS = {"read", "grep", "glob", "search", "ls"}
NEVER = re.compile(r"rm -rf|git push|curl .*\| *sh")


def decide(question: Approval) -> bool | None:
    """Yes, no, or None for what a rule should not decide."""
    if question.attention is not Attention.APPROVAL:
        return None
    if NEVER.search(str(question.arguments)):
        return False
    return True if question.tool.lower() in READS else None


async def main() -> None:
    decided: set[str] = set()
    async with connect_async() as client:
        async for line in client.board():  # each session once, then each one that changed
            if not line.open_approvals:
                continue
            for question in await client.approvals():
                verdict = None if question.approval_id in decided else decide(question)
                if verdict is None:
                    continue
                decided.add(question.approval_id)
                try:
                    await client.task(question.session_id).decide(question.approval_id, is_allowed=verdict)
                except UsageError as late:  # somebody was faster, or the agent gave up
                    print(f"{question.session_id}  {late}", flush=True)
                else:
                    answer = "allowed" if verdict else "refused"
                    print(f"{question.session_id}  {answer}: {question.question} {question.arguments}", flush=True)


if __name__ == "__main__":
    try:
        asyncio.run(main())
    except KeyboardInterrupt:
        pass
    except InterlockError as error:
        sys.exit(str(error))
