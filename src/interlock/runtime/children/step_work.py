"""The part of a step that we do ourselves: its command, its checks, and the look at its outputs.

Laws:
1. A command runs without a shell and without input, in the folder of the workflow, and gets little of our environment
   and none of our secrets. Its exit code is its evidence. It leaves no process, however it ends, and also when its
   workflow does; what outlives our own process is ended by the next one of the same home (`stop_leftovers`).
2. A step with checks or outputs is ready if they hold, and not otherwise: `lifecycle.children.checkpoint` decides.
   What the agent claims can only take that back. Where proofs are asked for, a claim names its attempt, or is none.
3. A step of a child with neither of them is at most `partial` where proofs are asked for (`is_strict`): words alone
   prove nothing.
4. Where the end of a step was caused by the end of our own process, nothing is known of its work: a person decides.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Final

from msgspec import structs

from interlock.agents.git.snapshot import TreeSnapshot, TreeSnapshots
from interlock.agents.processes.command import CommandEnd, minimal_environment, run_command
from interlock.agents.processes.identity import read_table
from interlock.agents.processes.stopping import stop_tree
from interlock.lifecycle.children.checkpoint import (
    ChangedFiles,
    CheckFact,
    OutputFact,
    StepFacts,
    bound_checkpoint,
    checkpoint_id,
    missing_proofs,
)
from interlock.lifecycle.children.retry_causes import cause_of
from interlock.lifecycle.children.workflow import WorkflowRecord
from interlock.lifecycle.children.workflow_plan import StepSpec
from interlock.lifecycle.children.workflow_step import StepEvidence, step_evidence_from_child
from interlock.lifecycle.plans.templates import StepShown
from interlock.runtime.children.step_outputs import commit_output, joined, look_at, output_json, shown_by, text_output
from interlock.runtime.children.step_places import PLACE_ERRORS, PlaceLook, StepPlace
from interlock.runtime.children.step_prompts import round_prompt
from interlock.vocabulary.events.conversation import SubagentEvent
from interlock.vocabulary.events.registry import Json
from interlock.vocabulary.ids import SPAWN_ID_VARIABLE, SessionId, SpawnId, StepId, WorkflowId
from interlock.vocabulary.states import StepState, SubagentState

NOT_CHECKED: Final = "claimed_not_checked"
SERVER_ENDED: Final = "server_ended"
STEP_MARK: Final = "stp_"
_ENDED_WITH_US: Final = frozenset({"closed_before_start", "abandoned", "partial_abandoned", "delivery_unknown"})
_MAX_WORDS: Final = 4_000
_MOST_NAMED: Final = 5
_CLOCK_SLACK: Final = timedelta(milliseconds=20)  # the times of files are those of the last tick of the kernel


@dataclass(frozen=True, slots=True, kw_only=True)
class StepWork:
    """The work of the steps of one workflow. `timeout_ms` is that of the whole, for steps without their own."""

    parent: SessionId
    workflow_id: WorkflowId
    home_id: str
    folder: Path
    timeout_ms: int
    is_strict: bool = False
    snapshots: TreeSnapshots = field(default_factory=TreeSnapshots)

    def mark_of(self, step_id: StepId) -> SpawnId:
        """What every process of a step carries in its environment."""
        named = f"{self.parent}\n{self.workflow_id}\n{step_id}"
        return SpawnId(f"{mark_of_home(self.home_id)}{sha256(named.encode()).hexdigest()[:32]}")

    async def run(self, step: StepSpec, began_at: datetime, place: StepPlace | None = None) -> StepEvidence:
        """Run the command of a step, then look at what proves it."""
        place = place or StepPlace(folder=self.folder)
        try:
            end = await self._command(step, step.run, place)
        except OSError as error:
            return StepEvidence(state=StepState.FAILED, reason="cannot_be_run", summary=str(error))
        words, elapsed_ms = end.output[-_MAX_WORDS:], round(end.seconds * 1000)
        if end.exit_code is None:
            return StepEvidence(
                state=StepState.TIMED_OUT,
                reason="timeout",
                summary=words,
                timeout_ms=self._timeout_ms(step),
                elapsed_ms=elapsed_ms,
                cause="timeout",
            )
        if end.exit_code != 0:
            reason = f"exit_code_{end.exit_code}"
            cause = "crash" if end.exit_code < 0 else ""  # ended by a signal
            return StepEvidence(
                state=StepState.FAILED, reason=reason, summary=words, elapsed_ms=elapsed_ms, cause=cause
            )
        ran: Json = {"argv": list(step.run), "exit_code": 0, "elapsed_ms": elapsed_ms}
        proof: dict[str, Json] = {"proof": "exit_code", "run": ran}
        words = words or f"{step.run[0]} exited 0"
        return await self._proven(
            step, began_at, words, proof, ChangedFiles(doubt="the files of commands are not looked at"), place
        )

    async def judge(
        self,
        step: StepSpec,
        fact: SubagentEvent,
        began_at: datetime,
        changed: ChangedFiles,
        place: StepPlace | None = None,
    ) -> StepEvidence | None:
        """What the end of its child makes of a step; None while the child is open."""
        if self.is_strict:
            ours = bound_checkpoint(fact.checkpoint, checkpoint_id(fact.subagent_id, fact.attempt))
            fact = structs.replace(fact, checkpoint=ours)
        claimed = step_evidence_from_child(fact)
        if claimed is None:
            return None
        if fact.status is not SubagentState.COMPLETED:
            lost = self._needs_decision(fact) if fact.reason in _ENDED_WITH_US else claimed
            is_touched = fact.child_session_id is not None
            return None if lost is None else replace(lost, cause=cause_of(fact), is_touched=is_touched)
        is_claim = claimed.state is StepState.CHECKPOINT_READY
        if not step.checks and not step.outputs:
            if self.is_strict and is_claim:
                return _as_partial(claimed)
            return claimed
        if not is_claim and claimed.reason != "no_explicit_checkpoint":
            return claimed
        proof: dict[str, Json] = {"proof": "checked", "claim": fact.checkpoint}
        place = place or StepPlace(folder=self.folder)
        return await self._proven(step, began_at, claimed.summary, proof, changed, place)

    def _needs_decision(self, fact: SubagentEvent) -> StepEvidence | None:
        if not self.is_strict:
            return step_evidence_from_child(fact)
        why = f"{SERVER_ENDED}: its child is {fact.status.value} ({fact.reason})"
        return StepEvidence(
            state=StepState.NEEDS_ORCHESTRATOR, reason=why, summary=fact.summary, next_actions=fact.next_actions
        )

    async def _proven(
        self,
        step: StepSpec,
        began_at: datetime,
        summary: str,
        proof: dict[str, Json],
        changed: ChangedFiles,
        place: StepPlace,
    ) -> StepEvidence:
        look = PlaceLook(place, self.folder, self.snapshots, f"{self.workflow_id}.{step.id}")
        seen = await self._seen(step, look, changed)
        outputs = await self._look(step, place, proof.get("claim"), look, seen)
        checks = [await self._check(step, argv, place) for argv in step.checks]
        facts = StepFacts(
            began_at=began_at - _CLOCK_SLACK,
            outputs=outputs,
            checks=tuple(fact for fact, _ in checks),
            after=await self._look(step, place, proof.get("claim"), look, seen) if checks else outputs,
            changed=changed,
            changed_by_checks=await self._changed_by_checks(step, look, seen),
        )
        told: dict[str, Json] = {"checks": [one for _, one in checks]}
        told["write_set"] = f"not checked: {changed.doubt}" if changed.doubt else "checked"
        missing = missing_proofs(step, facts)
        commit = ""
        if place.root is not None and seen is not None and not missing:
            commit, problem = await self._keep(step, look, seen)
            missing = (problem,) if problem else ()
        told["outputs"] = [output_json(fact, commit) for fact in outputs if not fact.problem]
        told |= {} if place.root is None else {"tree": {**place.json, "commit": commit}}
        if changed.main:
            return _escaped(summary, changed.main, told)
        if missing:
            return _unproven(step, summary, missing, told, again=round_prompt(step, missing, checks))
        checkpoint: Json = {"status": StepState.CHECKPOINT_READY.value, **proof, **told}
        words = summary.strip() or "its checks passed and its outputs are there"
        return StepEvidence(state=StepState.CHECKPOINT_READY, summary=words, checkpoint=checkpoint)

    async def _seen(self, step: StepSpec, look: PlaceLook, changed: ChangedFiles) -> TreeSnapshot | None:
        """The tree before the checks; None: others work in it, too, or it is in no repository."""
        if look.place.root is None and (not self.is_strict or not step.checks or changed.doubt):
            return None
        return await asyncio.to_thread(look.tree)

    async def _changed_by_checks(self, step: StepSpec, look: PlaceLook, seen: TreeSnapshot | None) -> tuple[str, ...]:
        if seen is None or not step.checks:
            return ()
        after = await asyncio.to_thread(look.tree)
        return ("all of them",) if after is None else await asyncio.to_thread(look.changed, seen.tree, after.tree)

    async def _keep(self, step: StepSpec, look: PlaceLook, seen: TreeSnapshot) -> tuple[str, str]:
        """The commit of its work, or why there is none."""
        is_on_branch = any(output.type == "commit" for output in step.outputs)
        message = f"Work of step {step.id} of {self.workflow_id}"
        try:
            return await asyncio.to_thread(look.keep, seen, message, is_on_branch=is_on_branch), ""
        except PLACE_ERRORS as error:
            return "", f"its work cannot be kept: {str(error) or type(error).__name__}"

    async def _look(
        self, step: StepSpec, place: StepPlace, claim: Json, look: PlaceLook, seen: TreeSnapshot | None
    ) -> tuple[OutputFact, ...]:
        found = []
        for output in step.outputs:
            if output.type == "text":
                found.append(text_output(output, claim))
            elif output.type == "commit":
                is_changed = seen is not None and bool(
                    await asyncio.to_thread(look.changed, place.base, seen.tree) if place.base else ()
                )
                found.append(commit_output(output, is_changed=is_changed))
            else:
                found.append(await asyncio.to_thread(look_at, place.folder, output))
        return tuple(found)

    async def shown(self, record: WorkflowRecord) -> dict[StepId, StepShown]:
        """What the steps that are ready have to show to templates."""
        ready = [(one.id, one.evidence) for one in record.steps if one.state is StepState.CHECKPOINT_READY]
        found = {
            step_id: await asyncio.to_thread(shown_by, self.folder, evidence)
            for step_id, evidence in ready
            if evidence is not None
        }
        for step in record.spec.steps:
            if step.is_expanded and step.id in found:
                items = [one.id for one in record.spec.steps if one.id.startswith(f"{step.id}:")]
                found[step.id] = joined(found, items)
        return found

    async def _check(self, step: StepSpec, argv: tuple[str, ...], place: StepPlace) -> tuple[CheckFact, Json]:
        """Run one check: how it ended, and what is recorded of it."""
        told: dict[str, Json] = {"argv": list(argv)}
        try:
            end = await self._command(step, argv, place)
        except OSError as error:
            problem = f"it cannot be run: {error}"
            return CheckFact(argv=argv, exit_code=None, problem=problem), {**told, "problem": problem}
        told |= {"exit_code": end.exit_code, "elapsed_ms": round(end.seconds * 1000)}
        problem = "it took too long" if end.exit_code is None else ""
        words = {} if end.exit_code == 0 else {"output": end.output[-_MAX_WORDS:]}
        return CheckFact(argv=argv, exit_code=end.exit_code, problem=problem), {**told, **words}

    async def _command(self, step: StepSpec, argv: tuple[str, ...], place: StepPlace) -> CommandEnd:
        mark = self.mark_of(step.id)
        own = {SPAWN_ID_VARIABLE: mark, "INTERLOCK_WORKFLOW": self.workflow_id, "INTERLOCK_STEP": step.id}
        environment = {**minimal_environment(), **place.variables, **own}
        running = asyncio.create_task(
            asyncio.to_thread(run_command, argv, place.folder, environment, self._timeout_ms(step) / 1000)
        )
        try:
            return await asyncio.shield(running)
        finally:
            # Also where we are cancelled: then this ends the command, and the thread with it.
            await asyncio.shield(asyncio.create_task(self._end(running, mark)))

    async def _end(self, running: asyncio.Task[CommandEnd], mark: SpawnId) -> None:
        await stop_tree(None, mark)
        await asyncio.wait([running])

    def _timeout_ms(self, step: StepSpec) -> int:
        return step.timeout_ms or self.timeout_ms


def mark_of_home(home_id: str) -> str:
    """How the marks begin of every command that a server of this home runs."""
    return f"{STEP_MARK}{home_id}_"


async def stop_leftovers(home_ids: Iterable[str]) -> None:
    """End what a process that died left running of the commands and checks of these homes."""
    prefixes = tuple(mark_of_home(one) for one in home_ids if one)
    table = await asyncio.to_thread(read_table)
    found = {mark for seen in table.values() for mark in seen.spawn_ids if mark.startswith(prefixes)}
    for mark in found:
        await stop_tree(None, SpawnId(mark))


def _as_partial(claimed: StepEvidence) -> StepEvidence:
    return StepEvidence(
        state=StepState.PARTIAL,
        reason=NOT_CHECKED,
        summary=claimed.summary or "its agent says that it is done",
        checkpoint=claimed.checkpoint,
        next_actions=claimed.next_actions,
    )


def _escaped(summary: str, paths: tuple[str, ...], told: dict[str, Json]) -> StepEvidence:
    """Who wrote there is not known: a person looks."""
    reason = (
        f"main_checkout_changed: {', '.join(paths[:_MOST_NAMED])} changed there while it worked in a tree of its own"
    )
    checkpoint: Json = {"status": StepState.NEEDS_ORCHESTRATOR.value, "proof": "missing", **told}
    return StepEvidence(state=StepState.NEEDS_ORCHESTRATOR, reason=reason, summary=summary, checkpoint=checkpoint)


def _unproven(
    step: StepSpec, summary: str, missing: tuple[str, ...], told: dict[str, Json], *, again: str
) -> StepEvidence:
    """What an agent said can be used still; of a command that did not do its work there is nothing."""
    state = StepState.FAILED if step.run or not summary.strip() else StepState.PARTIAL
    checkpoint: Json = {"status": state.value, "proof": "missing", "missing": list(missing), **told}
    reason = f"unproven: {'; '.join(missing)}"
    return StepEvidence(
        state=state, reason=reason, summary=summary, checkpoint=checkpoint, again="" if step.run else again
    )
