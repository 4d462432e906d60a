"""The conductor under any sequence of commands, agents, deadlines and deaths: its laws hold at every step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from hypothesis import event as note
from hypothesis import given
from hypothesis import strategies as st

from interlock.agents import observations as seen
from interlock.agents.observations import Observation, TurnEnding, UsageScope
from interlock.agents.port import Capabilities
from interlock.lifecycle.turns import TurnRecord, fold_turns, turn_states
from interlock.monitor.arbitration.agent_status import Standing
from interlock.runtime.policy import RunPolicy
from interlock.runtime.recovery import missing_ends
from interlock.runtime.session.effects import Append, DecideForAgent, InterruptAgent, SpawnAgent, SubmitPrompt
from interlock.runtime.session.inputs import (
    AgentNotStarted,
    AgentStarted,
    AnswerQuestion,
    CancelTurnInput,
    Command,
    Decided,
    EditQueuedPrompt,
    InterruptOutcome,
    Observed,
    RemovePrompt,
    SetGate,
    StartAgentInput,
    StopAgentInput,
    Submitted,
)
from interlock.runtime.session_fold import SessionFold
from interlock.vocabulary.events.audit import DeliveryReceipt, DeliveryStage
from interlock.vocabulary.events.conversation import ToolError, UserMessage
from interlock.vocabulary.events.envelope import Event, new_event
from interlock.vocabulary.evidence import NO_PROGRESS, EvidenceSource
from interlock.vocabulary.ids import EventId, PromptId, RunId, SessionId, SpawnId, TurnId
from interlock.vocabulary.states import Activity, Attention, DriverKind, ExitReason, TurnState
from tests.runtime.conducting import Stage

POLICY = RunPolicy(
    turn_budget_seconds=50,
    stall_after_seconds=20,
    start_seconds=15,
    resubmit_attempts=3,
    confirm_seconds=5,
    settle_seconds=30,
    approval_seconds=25,
    idle_ttl_seconds=40,
    max_tokens=500,
)
SPOKEN: tuple[Observation, ...] = (
    seen.BecameReady(),
    seen.SessionNamed(native_session_id="native"),
    seen.PromptReached(stage=DeliveryStage.ACCEPTED),
    seen.PromptReached(stage=DeliveryStage.STARTED),
    seen.TextArrived(text="some words "),
    seen.TextArrived(text="of a child", sub_agent="child"),
    seen.TextVoided(),
    seen.MessageEnded(text="a whole message"),
    seen.MessageEnded(text="  "),
    seen.ThoughtArrived(text="hm"),
    seen.ToolCalled(call_id="c1", name="ls"),
    seen.ToolCalled(call_id="c2", name="rm", args={"path": "x"}),
    seen.ToolReturned(call_id="c1", output="files"),
    seen.ToolReturned(call_id="c2", error=ToolError(kind="denied", message="no")),
    seen.ApprovalAsked(request_id="r1", call_id="c1", name="ls", question="may I?"),
    seen.ApprovalAsked(request_id="r2", question="which?"),
    seen.ApprovalGone(request_id="r1"),
    seen.ApprovalGone(request_id="r2", is_answered=False),
    seen.ChildrenChanged(open=frozenset({"shell"})),
    seen.ChildrenChanged(open=frozenset()),
    seen.UsageReported(scope=UsageScope.TURN, input_tokens=200, output_tokens=100),
    seen.RetryBegun(message="again", attempt=1),
    seen.ChannelLost(message="gone"),
    seen.Progressed(source=EvidenceSource.SCREEN, rule="screen.new_text"),
    seen.ToolsSeen(open=(("t1", "Bash"),)),
    seen.ToolsSeen(open=()),
    seen.Warned(kind="odd"),
    seen.Traced(raw="?"),
    *(seen.TurnEnded(ending=ending) for ending in TurnEnding),
    seen.TurnEnded(ending=TurnEnding.NATURAL, text="the answer"),
    seen.Exited(code=0),
    seen.Exited(signal=9),
    seen.Exited(code=1, is_stale_resume=True),
    *(
        seen.StandingSeen(standing=Standing(activity=activity, attention=attention))
        for activity in (Activity.WORKING, Activity.QUIET, Activity.STALLED, Activity.UNKNOWN)
        for attention in (Attention.NONE, Attention.APPROVAL)
    ),
)
MOVES = st.one_of(
    st.sampled_from(SPOKEN),
    st.sampled_from(SPOKEN),
    st.sampled_from(
        ["send", "send", "edit", "remove", "cancel", "stop", "start", "open", "close", "allow", "deny",
         "grant", "grant", "grant", "refuse", "hopeless", "submit", "submit", "submit", "lose", "unsure", "tell",
         "mumble", "hesitate", "crash", "adopt", "adopt", "impostor"]
    ),
    st.sampled_from([0.5, 2.0, 6.0, 16.0, 26.0, 61.0]),
)  # fmt: skip
ORDERS: dict[str, Command] = {
    "cancel": CancelTurnInput(),
    "stop": StopAgentInput(reason=ExitReason.STOPPED),
    "start": StartAgentInput(),
    "open": SetGate(is_open=True),
    "close": SetGate(is_open=False),
}
IMPOSTOR = SpawnId("spn_impostor")
AGENTS = st.sampled_from(
    [
        (DriverKind.STREAM, Capabilities()),
        (DriverKind.STREAM, Capabilities(is_one_shot=True, can_interrupt=False)),
        (DriverKind.TERMINAL, Capabilities(owns_text=False, outlives_runtime=True)),
    ]
)


class Play:
    """A stage with a world around it that answers as it is told to, or does not."""

    def __init__(self, kind: DriverKind, capabilities: Capabilities) -> None:
        self.kind = kind
        self.stage = Stage(POLICY, kind=kind, capabilities=capabilities)
        self.log: list[Event] = []
        self.prompts = 0
        self.seen_acts = 0
        self.pending: list[SpawnAgent | SubmitPrompt | DecideForAgent | InterruptAgent] = []
        self.given: Counter[PromptId] = Counter()
        self.lost: Counter[PromptId] = Counter()
        self.ended: dict[TurnId, TurnRecord] = {}

    def move(self, move: Observation | str | float) -> None:
        if isinstance(move, float):
            self.stage.wait(move)
        elif isinstance(move, str):
            self._act(move)
        elif self.stage.conductor.agent is not None:
            spawn_id = self.stage.conductor.agent.spawn_id
            assert spawn_id is not None
            self.stage.hear(Observed(spawn_id=spawn_id, seen=move))
        self._look()

    def _act(self, move: str) -> None:
        stage, book = self.stage, self.stage.conductor.book
        waiting = [prompt.prompt_id for prompt in book.queue.prompts.values()]
        match move:
            case "send":
                self.prompts += 1
                stage.send(f"prompt {self.prompts}", f"p{self.prompts}")
            case "edit" if waiting:
                stage.order(EditQueuedPrompt(prompt_id=waiting[-1], text="edited"))
            case "remove" if waiting:
                stage.order(RemovePrompt(prompt_id=waiting[-1]))
            case _ if move in ORDERS:
                stage.order(ORDERS[move])
            case "allow" | "deny":
                for approval_id in list(stage.conductor.questions.questions)[:1]:
                    stage.order(AnswerQuestion(approval_id=approval_id, is_allowed=move == "allow"))
            case "crash" | "adopt":
                self._crash(is_adopted=move == "adopt" and stage.capabilities.outlives_runtime)
            case "impostor":
                stage.hear(AgentStarted(spawn_id=IMPOSTOR, capabilities=stage.capabilities))
            case _:
                self._reply(move)

    def _reply(self, move: str) -> None:
        if not self.pending:
            return
        asked = self.pending.pop(0)
        match asked:
            case SpawnAgent(spawn_id=spawn_id):
                if move in ("refuse", "hopeless"):
                    failed = AgentNotStarted(spawn_id=spawn_id, message="no", is_hopeless=move == "hopeless")
                    self.stage.hear(failed)
                else:
                    self.stage.hear(AgentStarted(spawn_id=spawn_id, capabilities=self.stage.capabilities))
            case SubmitPrompt(prompt):
                stages = {"lose": DeliveryStage.NOT_DELIVERED, "unsure": DeliveryStage.UNKNOWN}
                stage = stages.get(move, DeliveryStage.TYPED)
                self.lost[prompt.prompt_id] += stage is DeliveryStage.NOT_DELIVERED
                self.stage.hear(Submitted(prompt_id=prompt.prompt_id, stage=stage, message="because"))
            case DecideForAgent(decision):
                problem = "lost" if move in ("mumble", "hesitate") else ""
                self.stage.hear(Decided(request_id=decision.request_id, problem=problem, is_unknown=move == "hesitate"))
            case InterruptAgent():
                self.stage.hear(InterruptOutcome(problem="" if move != "mumble" else "lost"))

    def _crash(self, *, is_adopted: bool) -> None:
        """The runtime dies, another one starts and settles what was left; or finds the agent again, if it lives."""
        stage = self.stage
        self.log += stage.events
        session_id = SessionId("ses_stage")
        book = SessionFold.of(session_id, self.log)
        spawn, turn = book.spawn, book.turn
        is_adopted = is_adopted and spawn is not None
        ends = [] if is_adopted else missing_ends(book, "the runtime died", RunId("run_x"), stage.now.at)
        for number, data in enumerate(ends):
            event = new_event(
                data,
                id=EventId(f"evt_r{len(self.log)}_{number}"),
                session_id=session_id,
                ts=stage.now.at,
                turn_id=None if turn is None else turn.turn_id,
                spawn_id=None if spawn is None else spawn.spawn_id,
                seq=book.version + 1,
            )
            self.log.append(event)
            book.add(event)
        again = Stage(POLICY, kind=self.kind, capabilities=stage.capabilities, book=book, seconds=stage.seconds)
        again._numbers = stage._numbers
        self.stage, self.seen_acts, self.pending = again, 0, []
        if is_adopted and spawn is not None:
            again.spawn_id = spawn.spawn_id
            again.started(is_adopted=True)
        again.wait(0)
        again.hear_timer()

    @property
    def events(self) -> list[Event]:
        return [*self.log, *self.stage.events]

    def _look(self) -> None:
        """Every law that can be seen from outside."""
        self._look_at_acts()
        assert fold_turns(self.events).findings == [], "our own log contradicts itself"
        for record in turn_states(self.events):
            if record.turn_id in self.ended:
                assert record.state is self.ended[record.turn_id].state, "a terminal turn changed"
            elif record.state.is_terminal:
                self.ended[record.turn_id] = record
                note(record.state.value)
        status = self.stage.conductor.status
        if status.evidence and status.evidence[0].rule == NO_PROGRESS:
            assert status.activity is Activity.STALLED
            assert self.stage.conductor.open_turn is not None, "a stall without a turn"
        self._compare_books()

    def _look_at_acts(self) -> None:
        written, arrived = _dispatched(self.log), _arrived(self.log)
        for index, act in enumerate(self.stage.acts):
            if isinstance(act, Append):
                written |= _dispatched(act.events)
                arrived |= _arrived(act.events)
            if index < self.seen_acts:
                continue
            if isinstance(act, SubmitPrompt):
                assert act.prompt.prompt_id in written, "a prompt was given to the agent before it was in the log"
                assert act.prompt.prompt_id not in arrived, "a prompt that did arrive was given again"
                self.given[act.prompt.prompt_id] += 1
            if isinstance(act, SpawnAgent):
                assert not any(isinstance(one, SpawnAgent) for one in self.pending), "two agents for one session"
            if isinstance(act, SpawnAgent | SubmitPrompt | DecideForAgent | InterruptAgent):
                self.pending.append(act)
        self.seen_acts = len(self.stage.acts)
        for prompt_id, times in self.given.items():
            assert times <= 1 + self.lost[prompt_id], "a prompt that may have arrived was given again"

    def _compare_books(self) -> None:
        told, kept = SessionFold.of(SessionId("ses_stage"), self.events), self.stage.conductor.book
        assert (told.turn_id, told.turn, told.queue.prompts) == (kept.turn_id, kept.turn, kept.queue.prompts)
        assert (told.dialogs.open, told.native) == (kept.dialogs.open, kept.native)
        conductor = self.stage.conductor
        assert (kept.turn is None) == (conductor.open_turn is None), "an open turn that nobody watches"
        is_asked = conductor.questions.open_count > 0
        assert kept.turn is None or (kept.turn.state is TurnState.WAITING) == is_asked, "a turn waits for nothing"
        assert conductor.agent is None or conductor.agent.spawn_id != IMPOSTOR, "an agent that nobody started"

    def heal(self) -> None:
        """Whatever came before: the agent ends, time passes, and no turn is open any more."""
        for _ in range(6):
            self.move("stop")
            self.move(seen.Exited(signal=15))
            if self.pending:
                self._reply("grant")
        self.stage.wait(1000)
        assert self.stage.conductor.agent is None or self.stage.conductor.open_turn is None

    def drain(self) -> None:
        """Whatever came before: with an agent that behaves, every prompt that waits is sent."""
        for _ in range(6 * self.prompts + 12):
            if not self.stage.conductor.book.queue.waiting:
                return
            agent = self.stage.conductor.agent
            if agent is not None and agent.stop_reason is not None:
                self.move(seen.Exited(signal=15))
            self.move("open")
            self.move("start")
            while self.pending:
                self._reply("grant")
                self._look()
            for request_id in ("r1", "r2"):
                self.move(seen.ApprovalGone(request_id=request_id))
            self.move(seen.ChildrenChanged(open=frozenset()))
            self.move(seen.StandingSeen(standing=Standing(activity=Activity.QUIET)))
            self.move(seen.BecameReady())
            self.move(seen.TurnEnded(ending=TurnEnding.NATURAL, text="the answer"))
            if self.stage.capabilities.is_one_shot and self.stage.conductor.book.prompt_id is not None:
                self.move(seen.Exited(code=0))
        raise AssertionError("a prompt that nothing holds back is not sent")


def _dispatched(events: Iterable[Event]) -> set[PromptId]:
    return {one.data.prompt_id for one in events if isinstance(one.data, UserMessage) and one.data.prompt_id}


def _arrived(events: Iterable[Event]) -> set[PromptId]:
    receipts = [one.data for one in events if isinstance(one.data, DeliveryReceipt)]
    return {one.prompt_id for one in receipts if one.stage in (DeliveryStage.ACCEPTED, DeliveryStage.STARTED)}


# Most of what can go wrong goes wrong in a turn.
BEGINNINGS = st.sampled_from([["send"], ["send", "grant", seen.BecameReady(), "submit", seen.TextArrived(text="a ")]])


@given(AGENTS, BEGINNINGS, st.lists(MOVES, min_size=5, max_size=40))
def test_every_law_of_the_conductor_holds_at_every_step(
    agent: tuple[DriverKind, Capabilities],
    beginning: list[Observation | str | float],
    moves: list[Observation | str | float],
) -> None:
    play = Play(*agent)
    for move in (*beginning, *moves):
        play.move(move)
    play.drain()
    play.heal()
    open_turns = [record for record in turn_states(play.events) if record.state is TurnState.RUNNING]
    assert len(open_turns) <= 1
