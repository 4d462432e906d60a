"""The server's fold of one task: published events, logged and live, to frames, snapshots and checks.

Laws:
1. A snapshot, with the frames after its tick, stands where a later snapshot stands: in status, messages, stream,
   approvals, queue and state document. A check says what a snapshot would.
2. The status comes from `task_status` and from nothing else, and only a `task:status` frame changes it.
3. What the log says depends on the log alone. Live events show streams and the agent's status, and nothing else.
4. What the classifier refused (late, of another spawn or run) makes no message, ends no stream and closes no question.
5. Ticks count frames without a gap; the version is the `seq` of the last logged event. An event that was folded before
   changes nothing. Whatever comes, nothing here raises.
6. Where no server runs the session, nothing is live, the status of an open turn is `UNKNOWN`, and no question can be
   answered.
7. Where events are lost, the turns that they leave open are `unknown`, and the status of the task is `UNKNOWN` until a
   turn that is known follows. See `lifecycle.turns`.
8. The next event costs the same, however long the history.
"""

from __future__ import annotations

from interlock.projections.task.fold import TaskFold
from interlock.projections.task.message_store import is_page
from interlock.vocabulary.evidence import Moment
from interlock.vocabulary.ids import StreamId
from interlock.vocabulary.wire.approval import Approval
from interlock.vocabulary.wire.frames import Message, RuntimeCheck, StateDocument, TaskSnapshot


class TaskView(TaskFold):
    """Feed it every published event of a session, in order (`add`), and send what that returns to the room."""

    def snapshot(
        self,
        *,
        after_version: int | None = None,
        stream_id: StreamId | None = None,
        cursor: int = 0,
        limit: int = 200,
        now: Moment | None = None,
    ) -> TaskSnapshot:
        """Where the task stands. What does not fit into `limit` messages, or one frame, is to be had as pages."""
        is_whole = after_version is None or after_version > self.version  # of more than we know we know nothing
        messages = () if is_whole else self._messages.since(after_version or 0)
        older: int | None = None
        if is_whole or not is_page(messages, limit):
            is_whole = True
            messages, older = self._messages.page(None, limit)
        stream = self._presenter.live(self.task_id)
        return TaskSnapshot(
            task_id=self.task_id,
            task_status=self.status,
            version=self.version,
            tick=self.tick,
            turn_id=self.turn_id,
            status_updated_at=self.status_updated_at,
            is_whole=is_whole,
            messages=messages,
            history_before=older,
            stream=None if stream is None else stream.piece(stream_id, cursor),
            approvals=self._questions.open,
            queue=self._queue_view,
            agent=self._agent,
            badge=self.summary(now).badge,
            document=self._document.state,
        )

    def check(self) -> RuntimeCheck:
        """Where the task stands, without a body."""
        stream = self._presenter.live(self.task_id)
        return RuntimeCheck(
            task_id=self.task_id,
            task_status=self.status,
            version=self.version,
            turn_id=self.turn_id,
            status_updated_at=self.status_updated_at,
            active_stream=None if stream is None else stream.without_text(),
            tick=self.tick,
        )

    def document(self) -> StateDocument:
        """The session's state document, as of the log's version."""
        state = self._document.state
        return StateDocument(task_id=self.task_id, version=self.version, turn_id=self._document.turn_id, state=state)

    def questions(self) -> tuple[Approval, ...]:
        """Every question that there ever was, oldest first, as it stands."""
        return tuple(self._questions.shown(one) for one in self.approvals.approvals.values())

    def page(self, *, before: int | None = None, limit: int = 100) -> tuple[tuple[Message, ...], int | None]:
        """The newest messages older than `before`, in order, and the cursor of the page before them, if any."""
        return self._messages.page(before, limit)

    def message(self, message_id: int) -> Message | None:
        return self._messages.get(message_id)
