"""The control channel of one process: what the agent asks and has not been told, and what its answers to us prove.

Laws:
1. A question is open until its call has a result, the agent takes it back, or the agent has read our answer.
2. The agent reads its input in order. An answer to a request that we wrote after a decision therefore shows that the
   decision was read, also while the tool that it allowed runs on without a word.
3. A request that nobody here can answer is to be refused at once, or the agent waits for ever.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from interlock.agents.observations import TRACE_MAX_CHARACTERS, ApprovalGone, BecameReady, Observation, Warned
from interlock.agents.streams.claude.questions import OpenQuestion, read_question
from interlock.vocabulary.foreign_json import Fields, inner, text

# Ids of our own control requests; the answer to each is an observation.
INITIALIZE: Final = "interlock:initialize"
INTERRUPT: Final = "interlock:interrupt:"
DECIDED: Final = "interlock:decided:"
_MAX_OPEN: Final = 256


class Asking:
    """The open questions, by the agent's own request ids."""

    def __init__(self) -> None:
        self._open: dict[str, OpenQuestion] = {}
        self._refusals: list[str] = []
        self._plan = ""

    def question(self, request_id: str) -> OpenQuestion | None:
        return self._open.get(request_id)

    def take_refusals(self) -> list[str]:
        """The requests to be refused, each told once."""
        taken, self._refusals = self._refusals, []
        return taken

    def plan_written(self, plan: str) -> None:
        """The agent wrote a plan; the question about it does not repeat it."""
        self._plan = plan[:TRACE_MAX_CHARACTERS]

    def request(self, frame: Fields, call_of: Callable[[str], str]) -> list[Observation]:
        """A `control_request` of the agent. `call_of` names the call that started a sub-agent."""
        request_id, request = text(frame, "request_id"), inner(frame, "request")
        subtype = text(request, "subtype")
        if subtype != "can_use_tool" or len(self._open) >= _MAX_OPEN:
            self._refusals.append(request_id)
            return [Warned(kind="unanswerable_request", message=f"the agent asks for {subtype[:64]!r}")]
        agent_id = text(request, "agent_id")
        question = read_question(request_id, request, sub_agent=call_of(agent_id) if agent_id else "", plan=self._plan)
        self._open[request_id] = question
        return [question.asked]

    def response(self, frame: Fields) -> list[Observation]:
        """A `control_response`: the agent answers one of our requests."""
        response = inner(frame, "response")
        request_id, error = text(response, "request_id"), text(response, "error")[:TRACE_MAX_CHARACTERS]
        if request_id.startswith(DECIDED):
            # The request is a mere probe: also a refusal of it was read after the decision.
            return self.close(request_id.removeprefix(DECIDED))
        seen: list[Observation] = [BecameReady()] if request_id == INITIALIZE else []
        if error:
            seen.append(Warned(kind="request_refused", message=f"{request_id[:64]}: {error}"))
        return seen

    def close(self, request_id: str, *, is_answered: bool = True) -> list[Observation]:
        """The question is not open any more, if it was."""
        if self._open.pop(request_id, None) is None:
            return []
        return [ApprovalGone(request_id=request_id, is_answered=is_answered)]

    def call_returned(self, call_id: str) -> list[Observation]:
        """A tool call has its result, so what was asked about it is decided."""
        about = [request_id for request_id, one in self._open.items() if one.asked.call_id == call_id]
        return [gone for request_id in about for gone in self.close(request_id)]

    def turn_ended(self) -> list[Observation]:
        """The agent waits for nothing more in this turn. A question of a background agent outlives it."""
        own = [request_id for request_id, one in self._open.items() if not one.asked.sub_agent]
        return [gone for request_id in own for gone in self.close(request_id, is_answered=False)]

    def end(self) -> list[Observation]:
        """Nobody is there to be answered."""
        return [gone for request_id in list(self._open) for gone in self.close(request_id, is_answered=False)]
