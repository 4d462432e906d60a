"""The server's figures in Prometheus' text format, from the folds of the log and from the hub.

Laws:
1. A figure that nobody reported is left out, and is never shown as zero.
2. Counters come from the log, so that they survive a restart; only what is of connections begins anew.
3. Labels are states and reasons out of closed sets. Nothing that a person or an agent wrote is in here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from interlock.projections.task.summary import TaskTally
from interlock.projections.usage import Usage
from interlock.server.live.hub import Hub
from interlock.vocabulary.wire.badge import Badge
from interlock.vocabulary.wire.frames import TaskSummary

METRICS_TYPE: Final = "text/plain; version=0.0.4"
_NO_STATUS: Final = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """One metric with its samples, by the value of `label`; without a label, there is one."""

    name: str
    kind: str
    help: str
    label: str = ""
    samples: Mapping[str, float] = field(default_factory=dict)


async def collect(hub: Hub, *, is_recording: bool) -> tuple[Family, ...]:
    """Everything there is to tell, now. Of a task at rest its line says it all, and no log is read."""
    told = [one async for one in hub.tallies()]
    lines, tallies = [line for line, _ in told], [tally for _, tally in told]
    return (
        *_of_tasks(lines, tallies),
        *_of_spawns(tallies),
        *_of_usage([one.usage for one in tallies]),
        *_of_server(hub, is_recording=is_recording),
    )


def _of_tasks(lines: Sequence[TaskSummary], tallies: Sequence[TaskTally]) -> Iterable[Family]:
    statuses = Counter(line.task_status.value if line.task_status else _NO_STATUS for line in lines)
    badges = [line.badge for line in lines if line.badge is not None]
    turns = _sum({state.value: count for state, count in one.turns.items()} for one in tallies)
    yield Family(name="interlock_tasks", kind="gauge", help="Tasks by status.", label="status", samples=statuses)
    yield from _of_badges(badges)
    alone = sum(not line.is_supervised for line in lines)
    yield _one("interlock_tasks_unsupervised", "gauge", "Tasks that no server runs.", alone)
    yield Family(name="interlock_turns", kind="gauge", help="Turns by state.", label="state", samples=turns)
    yield _one("interlock_approvals_open", "gauge", "Questions that wait.", sum(line.open_approvals for line in lines))
    yield _one("interlock_prompts_queued", "gauge", "Prompts that wait.", sum(line.queued for line in lines))
    yield _one("interlock_log_events_total", "counter", "Events of all tasks.", sum(line.version for line in lines))


def _of_badges(badges: list[Badge]) -> Iterable[Family]:
    """What the boards show, counted."""
    needs = sum(badge.needs_person for badge in badges)
    yield _one("interlock_tasks_need_person", "gauge", "Tasks that wait for a person.", needs)
    attentions = Counter(badge.attention.value for badge in badges)
    activities = Counter(badge.activity.value for badge in badges)
    outcomes = Counter(badge.outcome.value if badge.outcome else _NO_STATUS for badge in badges)
    for name, counts in (("attention", attentions), ("activity", activities), ("outcome", outcomes)):
        yield Family(
            name=f"interlock_tasks_by_{name}", kind="gauge", help=f"Tasks by {name}.", label=name, samples=counts
        )
    crashes = sum(badge.crashes for badge in badges)
    yield _one("interlock_restarts_last_hour", "gauge", "Restarts of agents in the last hour.", crashes)


def _sum(counts: Iterable[Mapping[str, int]]) -> Counter[str]:
    total: Counter[str] = Counter()
    for one in counts:
        total.update(one)
    return total


def _of_spawns(tallies: Sequence[TaskTally]) -> Iterable[Family]:
    ended = _sum(one.spawns_ended for one in tallies)
    told = "Lives of agents that ended, by reason."
    yield Family(name="interlock_spawns_ended_total", kind="counter", help=told, label="reason", samples=ended)
    not_ended = sum(one.spawns_not_ended for one in tallies)
    yield _one("interlock_spawns_not_ended", "gauge", "Lives of agents of which the log has no end.", not_ended)


def _of_usage(totals: list[Usage]) -> Iterable[Family]:
    tokens: dict[str, float] = {}
    for kind in ("input", "output", "cached_input"):
        known = [count for one in totals if (count := getattr(one, f"{kind}_tokens")) is not None]
        if known:
            tokens[kind] = sum(known)
    told = "Tokens that were reported, by kind."
    yield Family(name="interlock_tokens_total", kind="counter", help=told, label="kind", samples=tokens)
    costs = [one.cost_usd for one in totals if one.cost_usd is not None]
    if costs:
        yield _one("interlock_cost_usd_total", "counter", "Cost that was reported.", sum(costs))
    silent = sum(one.turns_without_report for one in totals)
    yield _one("interlock_turns_without_usage", "gauge", "Turns that are not in these figures.", silent)


def _of_server(hub: Hub, *, is_recording: bool) -> Iterable[Family]:
    yield _one("interlock_ready", "gauge", "Whether the server is at the end of its log.", hub.is_ready)
    yield _one("interlock_recording", "gauge", "Whether the log takes what happens now.", is_recording)
    yield _one("interlock_connections", "gauge", "Clients that are connected.", hub.connections)
    yield _one("interlock_frames_sent_total", "counter", "Frames sent since the start.", hub.traffic.frames_sent)
    yield _one("interlock_bytes_sent_total", "counter", "Bytes of frames sent since the start.", hub.traffic.bytes_sent)
    yield _one("interlock_times_behind_total", "counter", "How often a client fell behind.", hub.rooms.times_behind)


def _one(name: str, kind: str, told: str, value: float) -> Family:
    return Family(name=name, kind=kind, help=told, samples={"": value})


def render(families: Iterable[Family]) -> str:
    """The text of some metrics. One without samples is left out whole."""
    lines: list[str] = []
    for family in families:
        if family.samples:
            lines += [f"# HELP {family.name} {family.help}", f"# TYPE {family.name} {family.kind}"]
            lines += [_sample(family, value, figure) for value, figure in sorted(family.samples.items())]
    return "\n".join(lines) + "\n"


def _sample(family: Family, value: str, figure: float) -> str:
    labels = f'{{{family.label}="{_escaped(value)}"}}' if family.label else ""
    spelled = str(int(figure)) if figure == int(figure) else repr(figure)
    return f"{family.name}{labels} {spelled}"


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
