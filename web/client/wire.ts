// Made by web/tools/wire-types.mjs from docs/reference/frames.schema.json. Edits here are overwritten.

export type Json = null | boolean | number | string | readonly Json[] | { readonly [name: string]: Json };

/** What a token may do: look, or look and act. */
export type AccessRole = "observer" | "operator";

/** A request was done. `result` is what it gave: the prompt's id of a send, how a cancel was delivered. */
export interface Ack {
  readonly id: string;
  readonly result: null | ApprovalStanding | Cancelled | PromptStanding | QueueGateStanding | SeenStanding;
  readonly type: "ack";
}

export interface AckResults {
  readonly "approval:decide"?: ApprovalStanding;
  readonly "board:leave"?: null;
  readonly "chat:cancel"?: Cancelled;
  readonly "chat:send"?: PromptStanding;
  readonly ping?: null;
  readonly "queue:edit"?: PromptStanding;
  readonly "queue:gate"?: QueueGateStanding;
  readonly "queue:remove"?: PromptStanding;
  readonly "task:leave"?: null;
  readonly "task:seen"?: SeenStanding;
}

/** A live stream, without its text. */
export interface ActiveStream {
  readonly cursor: number;
  readonly last_activity_at: string;
  readonly stream_id: string;
}

/** The first axis of what a person sees: what the agent is doing. */
export type Activity = "gone" | "quiet" | "settling" | "stalled" | "starting" | "unknown" | "working";

/** What a living agent is doing: the substate of a spawn. */
export type AgentState = "idle" | "responding" | "running_tool" | "thinking";

/** What the agent is seen to do, with the evidence. */
export interface AgentStatusChanged {
  readonly badge: Badge | null;
  readonly status: Status;
  readonly task_id: string;
  readonly tick: number;
  readonly turn_id: string | null;
  readonly type: "agent:status";
  readonly version: number;
}

/** Add `value` to the array at the path, which is made if nothing is there. */
export interface AppendOp {
  readonly op: "append";
  readonly path: readonly (string | number)[];
  readonly value: Json;
}

/** One question. `outcome` is what became of it: the answer, or why there was none. `is_answerable` is false while
 * no server runs the session: the question stands, and there is nobody to take an answer to it. `problem` is why a
 * decision did not reach the agent, and so why the question is open again; `undelivered` is how many did not. */
export interface Approval {
  readonly approval_id: string;
  readonly arguments: Json;
  readonly asked_at: string;
  readonly attention: Attention;
  readonly deadline_at: string | null;
  readonly decided_by: string;
  readonly is_answerable: boolean;
  readonly options: readonly (DialogOption)[];
  readonly outcome: string;
  readonly problem: string;
  readonly question: string;
  readonly session_id: string;
  readonly state: ApprovalState;
  readonly tool: string;
  readonly turn_id: string | null;
  readonly undelivered: number;
}

/** The question is over. */
export interface ApprovalClosed {
  readonly approval: Approval;
  readonly task_id: string;
  readonly tick: number;
  readonly turn_id: string | null;
  readonly type: "approval:closed";
  readonly version: number;
}

/** Answer a question. The verdict is always named; an option, or a text, says more, and must not contradict it.
 * `from_spawn` is the `INTERLOCK_SPAWN_ID` of the process that asks: an agent may not answer its own questions. */
export interface ApprovalDecide {
  readonly approval_id: string;
  readonly data?: Json;
  readonly decision_id?: string;
  readonly from_spawn?: string;
  readonly id: string;
  readonly is_allowed: boolean;
  readonly option?: string;
  readonly task_id: string;
  readonly text?: string;
  readonly type: "approval:decide";
}

/** Somebody answered; the agent has yet to go on. */
export interface ApprovalDecided {
  readonly approval: Approval;
  readonly task_id: string;
  readonly tick: number;
  readonly turn_id: string | null;
  readonly type: "approval:decided";
  readonly version: number;
}

/** Somebody is asked. */
export interface ApprovalOpened {
  readonly approval: Approval;
  readonly task_id: string;
  readonly tick: number;
  readonly turn_id: string | null;
  readonly type: "approval:opened";
  readonly version: number;
}

/** A question that was answered. */
export interface ApprovalStanding {
  readonly approval_id: string;
  readonly state: ApprovalState;
}

/** Where a question stands. */
export type ApprovalState = "closed" | "decided" | "open";

/** The second axis: whether, and for what, the agent needs a person. `decision` and `held` are said of a badge only:
 * a step of a workflow waits for a decision, and prompts wait behind a closed gate. */
export type Attention = "approval" | "auth" | "decision" | "error" | "held" | "none" | "plan" | "question" | "quota";

/** What a session does, whether it needs a person, and how its last turn ended.
 * 
 * `substate` is said only while it works: what it works at, with the `tool` that it runs and `tool_since`. `outcome`
 * is None while a turn is open or a prompt waits, where an open turn has no owner, and of an adopted agent without a
 * turn of ours; `unknown`: events are lost.
 * `attention` without `needs_person`: it was answered, and has yet to go on. `since`: when this began; of an ended
 * turn, when it ended.
 * `group`: where it stands on a board. `is_seen`: somebody has looked at how the last turn ended, on any device; true
 * where nothing is to be seen. `needs_person`: something is asked, an error is shown, a limit or a failure holds the
 * queue back, or a turn failed and nobody has looked yet.
 * `rank`: the order of a board, the lowest first. `crashes`: how often its process died and was to be started again
 * in the last hour. `is_over`: no server runs it and nothing is left to do. `until`: when the badge changes by itself. */
export interface Badge {
  readonly activity: Activity;
  readonly attention: Attention;
  readonly crashes: number;
  readonly evidence: readonly (Evidence)[];
  readonly group: BoardGroup;
  readonly is_over: boolean;
  readonly is_seen: boolean;
  readonly needs_person: boolean;
  readonly outcome: Outcome | null;
  readonly rank: number;
  readonly since: string | null;
  readonly substate: AgentState | null;
  readonly tool: string;
  readonly tool_since: string | null;
  readonly until: string | null;
}

/** This client was too slow for the board: it joins it again. */
export interface BoardBehind {
  readonly tick: number;
  readonly type: "board:behind";
}

/** Where a session stands on a board, in the order of the board. `done`: its last turn completed, and nobody has
 * looked at it yet; once somebody has, it is `idle`. */
export type BoardGroup = "done" | "ended" | "idle" | "needs_you" | "stuck" | "working";

/** Be told of every task, a line each, and of each line that changes. */
export interface BoardJoin {
  readonly id: string;
  readonly type: "board:join";
}

/** The answer to `board:join`: every task, as of `tick` of the board. */
export interface BoardJoined {
  readonly id: string;
  readonly tasks: readonly (TaskSummary)[];
  readonly tick: number;
  readonly type: "board:joined";
}

/** No more lines. */
export interface BoardLeave {
  readonly id: string;
  readonly type: "board:leave";
}

/** A line of the board is new, or changed. `tick` counts these as a room's frames are counted. */
export interface BoardTask {
  readonly task: TaskSummary;
  readonly tick: number;
  readonly type: "board:task";
}

/** `delivered`: the agent got the request, or needs none any more. How the turn ends is told by its status. Where it
 * is false the turn goes on, and `problem` says what was tried.
 * 
 * `killed`: the agent's process was ended, because the request had no effect and `force` was given.
 * `removed`: prompts that were taken back, where no turn was open. */
export interface Cancelled {
  readonly delivered: boolean;
  readonly killed: boolean;
  readonly problem: string;
  readonly removed: readonly (string)[];
  readonly turn_id: string | null;
}

/** What the turns of a session changed so far, as the log counts it: files, each once, and lines, added and removed
 * turn by turn. `unknown_turns`: how many turns have ended of which that is not known. Of a turn that changed more
 * files than its record lists, those that are not listed count as other files. */
export interface ChangeCounts {
  readonly added: number;
  readonly files: number;
  readonly removed: number;
  readonly unknown_turns: number;
}

/** End the open turn; with none open, take back what waits. Answered when the agent got the request to stop.
 * `force`: end the agent's process if its turn does not end when it is asked to; answered when the turn is over. */
export interface ChatCancel {
  readonly force?: boolean;
  readonly id: string;
  readonly task_id: string;
  readonly turn_id?: string | null;
  readonly type: "chat:cancel";
}

/** A stream was ended by somebody. */
export interface ChatCancelled {
  readonly cursor: number;
  readonly message_id: number | null;
  readonly stream_id: string;
  readonly task_id: string;
  readonly tick: number;
  readonly turn_id: string | null;
  readonly type: "chat:cancelled";
  readonly version: number;
}

/** More of a stream's text. */
export interface ChatChunk {
  readonly at: string;
  readonly offset: number;
  readonly stream_id: string;
  readonly task_id: string;
  readonly text: string;
  readonly tick: number;
  readonly turn_id: string | null;
  readonly type: "chat:chunk";
  readonly version: number;
}

/** A stream ended whole: `message_id` holds its text. */
export interface ChatDone {
  readonly cursor: number;
  readonly message_id: number | null;
  readonly stream_id: string;
  readonly task_id: string;
  readonly tick: number;
  readonly turn_id: string | null;
  readonly type: "chat:done";
  readonly version: number;
}

/** A stream broke off. `message_id` holds what was kept of it, if anything was. */
export interface ChatError {
  readonly cursor: number;
  readonly error_kind: string;
  readonly error_message: string;
  readonly message_id: number | null;
  readonly stream_id: string;
  readonly task_id: string;
  readonly tick: number;
  readonly turn_id: string | null;
  readonly type: "chat:error";
  readonly version: number;
}

/** A message is new, or changed. */
export interface ChatMessage {
  readonly message: Message;
  readonly task_id: string;
  readonly tick: number;
  readonly turn_id: string | null;
  readonly type: "chat:message";
  readonly version: number;
}

/** A prompt got this far. */
export interface ChatReceipt {
  readonly prompt_id: string;
  readonly stage: DeliveryStage;
  readonly task_id: string;
  readonly tick: number;
  readonly turn_id: string | null;
  readonly type: "chat:receipt";
  readonly version: number;
}

/** Queue a prompt, durably. The same `prompt_id` with the same words is the same prompt. `reply`: the form that its
 * answer must have; the agent is told so, and `why` says whether the answer has it. */
export interface ChatSend {
  readonly id: string;
  readonly prompt_id?: string | null;
  readonly reply?: ReplyContract | null;
  readonly task_id: string;
  readonly text: string;
  readonly type: "chat:send";
}

/** A stream begins, empty. It takes the place of one that is open. */
export interface ChatStart {
  readonly started_at: string;
  readonly stream_id: string;
  readonly task_id: string;
  readonly tick: number;
  readonly turn_id: string | null;
  readonly type: "chat:start";
  readonly version: number;
}

/** More of what the agent thinks. It is shown live and kept nowhere. */
export interface ChatThought {
  readonly offset: number;
  readonly stream_id: string;
  readonly task_id: string;
  readonly text: string;
  readonly tick: number;
  readonly turn_id: string | null;
  readonly type: "chat:thought";
  readonly version: number;
}

/** The children of a session: how many run, wait in its queue, and ended otherwise than completed or detached. */
export interface ChildCounts {
  readonly ended_badly: number;
  readonly running: number;
  readonly waiting: number;
}

/** Remove the key or the item. An empty path leaves null. */
export interface DeleteOp {
  readonly op: "delete";
  readonly path: readonly (string | number)[];
}

/** How far a prompt got. `unknown`: it was being written when the writer died. `not_delivered`: provably not. */
export type DeliveryStage = "accepted" | "not_delivered" | "queued" | "started" | "typed" | "unknown";

/** One of the answers that a dialog offers. It is chosen by its text, never by its number. */
export interface DialogOption {
  readonly id: string;
  readonly kind: string;
  readonly label: string;
}

/** One reason to believe a verdict. `seq` points into the log; `where` names a file, a row or a field. */
export interface Evidence {
  readonly at: string | null;
  readonly rule: string;
  readonly seq: number | null;
  readonly source: EvidenceSource;
  readonly where: string;
}

/** The rungs of the evidence ladder, best first, then the log itself. */
export type EvidenceSource = "exit" | "hook" | "log" | "native_file" | "native_status" | "operator" | "pane_title" | "screen" | "silence";

/** The first frame of a connection. A client that hears nothing for three heartbeats takes it for dead. `at`: the
 * server's clock. `build`: of the page that the server has; where it is another than before, a newer page is there. */
export interface Hello {
  readonly at: string | null;
  readonly build: string;
  readonly heartbeat_seconds: number;
  readonly max_frame_bytes: number;
  readonly protocol: number;
  readonly role: AccessRole;
  readonly server: string;
  readonly type: "hello";
}

/** Add `amount` to the number at the path. */
export interface IncrementOp {
  readonly amount: number | number;
  readonly op: "increment";
  readonly path: readonly (string | number)[];
}

/** Whether an agent's process lives, and in what shape. */
export type Lifecycle = "idle" | "killed" | "spawning" | "working";

/** Put each key of `value` into the object at the path, which is made if nothing is there. Not recursive. */
export interface MergeObjectOp {
  readonly op: "merge_object";
  readonly path: readonly (string | number)[];
  readonly value: { readonly [name: string]: Json };
}

/** One entry of a transcript. `stream_id`: the stream whose whole text this is, and whose place it takes.
 * 
 * `label` says in words what a text is not: whole, confirmed or verified. A clean answer has none. `is_verified` is
 * false for text that was read off a screen. `delivery`: `unknown` or `not_delivered`, of a prompt of which it is
 * not certain that the agent received it. `error_kind`: of an end, or of a tool that failed.
 * 
 * Of role `tool`: `kind` and `item_id` say what it is (a call id, a subagent id, a workflow id, or `workflow/step`),
 * `name` what it is called, `text` what it was asked, on one line. `detail` is what came of it: output, error,
 * summary, or the question of a call that waits; of a long one its beginning and its end, while `detail_length` counts
 * the code points of the whole. `child_session_id` is the session of a child. */
export interface Message {
  readonly at: string;
  readonly child_session_id: string | null;
  readonly delivery: DeliveryStage | null;
  readonly detail: string;
  readonly detail_length: number;
  readonly error_kind: string;
  readonly is_verified: boolean;
  readonly item_id: string;
  readonly kind: ToolKind | null;
  readonly label: string;
  readonly message_id: number;
  readonly name: string;
  readonly next_actions: readonly (NextAction)[];
  readonly prompt_id: string | null;
  readonly role: Role;
  readonly status: MessageStatus;
  readonly stream_id: string | null;
  readonly text: string;
  readonly turn_id: string | null;
  readonly version: number;
}

/** How far to trust a message. A server says neither `streaming` nor `interrupted`: the first is text that still
 * grows, the second is live text that broke off, of which no message has come yet.
 * 
 * `partial`: kept of a turn that failed. `cancelled`: of one that a person ended. `waiting`, `running`: of tools. */
export type MessageStatus = "cancelled" | "completed" | "failed" | "interrupted" | "partial" | "running" | "streaming" | "timed_out" | "unknown" | "waiting";

/** One piece of advice. `command` is complete as it stands, or empty where only a person can decide. */
export interface NextAction {
  readonly command: string;
  readonly kind: NextActionKind;
}

/** The kinds of advice that a record may carry. */
export type NextActionKind = "ask_operator" | "attach" | "decide" | "diagnose_session" | "explain_turn" | "inspect_child" | "inspect_log" | "raise_timeout" | "reduce_scope" | "rerun_child" | "retry_steps" | "send_again" | "use_partial_result" | "wait_again";

/** How the last turn of a session ended. `new`: there never was a prompt. `unknown`: events of it are lost. */
export type Outcome = "done" | "failed" | "interrupted" | "new" | "partial" | "timed_out" | "unknown";

/** Are you there? For a client that wants an answer; a pong tells the server that the client is. */
export interface Ping {
  readonly id: string;
  readonly type: "ping";
}

/** What went wrong, in the form of RFC 9457, with what to do next. `code` is one word for programs. */
export interface Problem {
  readonly code: string;
  readonly detail: string;
  readonly instance: string;
  readonly next_actions: readonly (NextAction)[];
  readonly remedy: string;
  readonly retry_after_seconds: number | null;
  readonly status: number;
  readonly title: string;
  readonly type: string;
}

/** Where a prompt stands, and how far it is known to have got. */
export interface PromptStanding {
  readonly prompt_id: string;
  readonly stage: DeliveryStage;
  readonly state: PromptState;
}

/** Where one prompt stands. */
export type PromptState = "dispatched" | "queued" | "removed";

/** The queue, whole. */
export interface QueueChanged {
  readonly queue: QueueView;
  readonly task_id: string;
  readonly tick: number;
  readonly turn_id: string | null;
  readonly type: "queue:changed";
  readonly version: number;
}

/** Edit a queued prompt. */
export interface QueueEdit {
  readonly id: string;
  readonly prompt_id: string;
  readonly task_id: string;
  readonly text: string;
  readonly type: "queue:edit";
}

/** Whether prompts may leave the queue now. */
export interface QueueGateStanding {
  readonly is_open: boolean;
}

/** A prompt that waits. */
export interface QueueItem {
  readonly prompt_id: string;
  readonly text: string;
}

/** Remove a queued prompt. */
export interface QueueRemove {
  readonly id: string;
  readonly prompt_id: string;
  readonly task_id: string;
  readonly type: "queue:remove";
}

/** Hold back what waits, or let it go. */
export interface QueueSetGate {
  readonly id: string;
  readonly is_open: boolean;
  readonly reason?: string;
  readonly task_id: string;
  readonly type: "queue:gate";
}

/** What waits to be sent, in order. Behind a closed gate nothing leaves, for `gate_reason`. `waits_for`: what keeps
 * the next prompt, or the one that is on its way, from an agent that is ready: a draft that a person left.
 * `is_paused`: a person closed the gate; a gate that a limit or a failure closed is not paused. */
export interface QueueView {
  readonly gate_reason: string;
  readonly is_open: boolean;
  readonly is_paused: boolean;
  readonly waiting: readonly (QueueItem)[];
  readonly waits_for: string;
}

/** A request was not done, and why. `id` is blank where it could not even be read. */
export interface Refused {
  readonly id: string;
  readonly problem: Problem;
  readonly type: "refused";
}

/** The form that the answer to a prompt must have: text between two lines that are made of the word `sentinel`, or a
 * JSON value that fits `json_schema`. One of the two. */
export interface ReplyContract {
  readonly json_schema?: Json;
  readonly sentinel?: string;
}

export type Request = TaskJoin | TaskResume | TaskLeave | TaskSeen | BoardJoin | BoardLeave | ChatSend | ChatCancel | QueueEdit | QueueRemove | QueueSetGate | ApprovalDecide | Ping;

/** What a message is. `end`: how a turn ended that left no clean answer. `commentary`: text that is no answer. */
export type Role = "answer" | "commentary" | "end" | "tool" | "user";

/** Where a task stands, never with a body. It says what a join at the same moment would say. `tick`: the last frame
 * that the room was told; 0 where the server does not say. */
export interface RuntimeCheck {
  readonly active_stream: ActiveStream | null;
  readonly status_updated_at: string | null;
  readonly task_id: string;
  readonly task_status: TaskStatus | null;
  readonly tick: number;
  readonly turn_id: string | null;
  readonly version: number;
}

/** Whether somebody has looked at how the newest turn ended. True also where no turn has ended. */
export interface SeenStanding {
  readonly is_seen: boolean;
  readonly task_id: string;
  readonly turn_id: string | null;
}

/** The server goes away. What it had accepted is kept; come back after `retry_after_seconds`, and some chance. */
export interface ServerClosing {
  readonly reason: string;
  readonly retry_after_seconds: number;
  readonly type: "server:closing";
}

export type ServerFrame = Hello | Ack | Refused | TaskJoined | BoardJoined | BoardTask | BoardBehind | TaskBehind | ServerClosing | ChatStart | ChatChunk | ChatThought | ChatDone | ChatError | ChatCancelled | ChatMessage | ChatReceipt | QueueChanged | StatePatched | TaskStatusChanged | AgentStatusChanged | TaskBadgeChanged | ApprovalOpened | ApprovalDecided | ApprovalClosed;

/** Put `value` at the path. An empty path replaces the document. */
export interface SetOp {
  readonly op: "set";
  readonly path: readonly (string | number)[];
  readonly value: Json;
}

/** The state document changed by these ops, in order; `source` made them. A client that missed one joins again. */
export interface StatePatched {
  readonly ops: readonly (SetOp | DeleteOp | AppendOp | MergeObjectOp | IncrementOp)[];
  readonly source: string;
  readonly task_id: string;
  readonly tick: number;
  readonly turn_id: string | null;
  readonly type: "state:patched";
  readonly version: number;
}

/** What a person should see now: both axes, with proof. `idle_at`: when an agent that is not used is stopped.
 * 
 * `substate` and `lifecycle` are those of its process; None: not known. `tool` is the tool that it runs, and runs
 * longest where it runs several, `tool_since` when that was called; both only with the substate `running_tool`. */
export interface Status {
  readonly activity: Activity;
  readonly attention: Attention;
  readonly evidence: readonly (Evidence)[];
  readonly idle_at: string | null;
  readonly lifecycle: Lifecycle | null;
  readonly substate: AgentState | null;
  readonly tool: string;
  readonly tool_since: string | null;
}

/** A live stream: its text from `offset` on, up to `cursor`. */
export interface StreamPiece {
  readonly cursor: number;
  readonly last_activity_at: string;
  readonly offset: number;
  readonly started_at: string;
  readonly stream_id: string;
  readonly text: string;
  readonly turn_id: string | null;
}

/** What a person is shown of the task changed, and neither its status nor that of its agent did. */
export interface TaskBadgeChanged {
  readonly badge: Badge;
  readonly task_id: string;
  readonly tick: number;
  readonly turn_id: string | null;
  readonly type: "task:badge";
  readonly version: number;
}

/** This client was too slow for a room, and frames up to `tick` were not sent to it: it resumes from what it has. */
export interface TaskBehind {
  readonly task_id: string;
  readonly tick: number;
  readonly type: "task:behind";
  readonly version: number;
}

/** Enter the room of a task, and be told where it stands. With `after_version`, only messages that changed after it:
 * name the version of a snapshot that was read. After frames, use `task:resume`. */
export interface TaskJoin {
  readonly after_version?: number | null;
  readonly id: string;
  readonly task_id: string;
  readonly type: "task:join";
}

/** The answer to a join or a resume. */
export interface TaskJoined {
  readonly id: string;
  readonly snapshot: TaskSnapshot;
  readonly type: "task:joined";
}

/** Leave the room. */
export interface TaskLeave {
  readonly id: string;
  readonly task_id: string;
  readonly type: "task:leave";
}

/** As a join, with nothing that is known already. `version`: the highest of any frame or snapshot of this task.
 * Messages of that version come again, since one version may have several frames, and the connection may have ended
 * between them; older messages that did not change are left out. Of the stream `stream_id` no text before `cursor`. */
export interface TaskResume {
  readonly cursor?: number;
  readonly id: string;
  readonly stream_id?: string | null;
  readonly task_id: string;
  readonly type: "task:resume";
  readonly version: number;
}

/** Somebody looked at how a turn ended: on every board it is seen from now on. `turn_id`: the turn that was looked
 * at; without it, the newest. A turn that is open, or is not the newest any more, is not marked. */
export interface TaskSeen {
  readonly id: string;
  readonly task_id: string;
  readonly turn_id?: string | null;
  readonly type: "task:seen";
}

/** All that a client needs to stand where the server stands, at one version and one tick.
 * 
 * `is_whole`: forget every message known before. `history_before`: older messages than these are to be had as pages,
 * with this as their cursor. `approvals` are those that are open. `document` is the session's state document. */
export interface TaskSnapshot {
  readonly agent: Status | null;
  readonly approvals: readonly (Approval)[];
  readonly badge: Badge | null;
  readonly document: Json;
  readonly history_before: number | null;
  readonly is_whole: boolean;
  readonly messages: readonly (Message)[];
  readonly queue: QueueView;
  readonly status_updated_at: string | null;
  readonly stream: StreamPiece | null;
  readonly task_id: string;
  readonly task_status: TaskStatus | null;
  readonly tick: number;
  readonly turn_id: string | null;
  readonly version: number;
}

/** What clients call the state of a session. None at all (null): no prompt was ever accepted. `UNKNOWN`: a turn
 * began, and nobody can say how it stands, because no server runs it or events of it are lost. */
export type TaskStatus = "CANCELLED" | "CANCELLING" | "COMPLETED" | "DELETE" | "FAILED" | "PENDING" | "PENDING_CONFIRMATION" | "RUNNING" | "UNKNOWN";

/** The status of the task, the turn that it is of (`turn_id`), and when the log says that it changed. */
export interface TaskStatusChanged {
  readonly badge: Badge | null;
  readonly status_updated_at: string | null;
  readonly task_id: string;
  readonly task_status: TaskStatus | null;
  readonly tick: number;
  readonly turn_id: string | null;
  readonly type: "task:status";
  readonly version: number;
}

/** One line of a board. `question` is what it asks for, `called_with` the tool and the arguments that it asks for,
 * cut where they are very long, `approval_id` that question's name, `asks` what it is about and
 * `asked_at` since when it is open, `since` when what it shows began. `undelivered`:
 * how many decisions on that question did not reach the agent, `question_problem` why the last one did not.
 * `turn_state` is that of the turn, and finer than the status: half an answer is no other failure. `held`: why the
 * prompts that wait are not sent; blank where they are, or none waits. `waits_for`: what keeps a prompt from an agent
 * that is ready, such as a person's draft; the prompt goes on by itself. `ending`: why the turn did not complete or is
 * not known, in words on one line; blank where it completed, or has not ended. `is_paused`: a person holds the prompts
 * back, and no limit or failure does. `seen_turn_id`: the last turn whose end somebody has looked at. `folder` and
 * `model` are those that the session was opened with; where the agent named its model, `model` is that. `cost_usd`:
 * what its turns cost, as far as that was reported, and `max_cost_usd` the budget at which its queue is held, if it
 * has one. `context_tokens`: how much the newest model call was given, as far as that was reported. `parent_id`: the
 * session that this one is a child of, or a copy of where its `depth` is 0; `root_id`: the root of the tree that it is
 * a child in, and `children` counts its own. `waits_below`: how many of those below it, at any depth, wait for a
 * person; `workflow`: the one that it runs or began, the open one first, and null where it has none. `is_adopted`: a
 * person started its agent, and what it did before is not known. `decided_by_rule`: how many of its questions rules
 * answered. `worktree`: the git worktree that was made for it, if one was. `changes`: what its turns changed so far,
 * null where no tree was recorded; `branch`: the branch of its folder when a tree was last recorded.
 * 
 * `is_supervised` is false where no server runs the session: then its status is what the log can prove, and no more.
 * `crashed_at`: when its process died and was to be started again, newest last, a few of them. `badge` is what a
 * person is shown of all this; a server always sends it. */
export interface TaskSummary {
  readonly agent: string;
  readonly approval_id: string;
  readonly asked_at: string | null;
  readonly asks: Attention;
  readonly badge: Badge | null;
  readonly branch: string;
  readonly called_with: string;
  readonly changes: ChangeCounts | null;
  readonly children: ChildCounts;
  readonly context_tokens: number | null;
  readonly cost_usd: number | null;
  readonly crashed_at: readonly (string)[];
  readonly decided_by_rule: number;
  readonly depth: number;
  readonly driver: string;
  readonly ending: string;
  readonly folder: string;
  readonly held: string;
  readonly is_adopted: boolean;
  readonly is_paused: boolean;
  readonly is_supervised: boolean;
  readonly last_at: string | null;
  readonly live: Status | null;
  readonly max_cost_usd: number | null;
  readonly model: string;
  readonly open_approvals: number;
  readonly opened_at: string | null;
  readonly parent_id: string | null;
  readonly question: string;
  readonly question_problem: string;
  readonly queued: number;
  readonly root_id: string | null;
  readonly seen_turn_id: string | null;
  readonly since: string | null;
  readonly status_updated_at: string | null;
  readonly task_id: string;
  readonly task_status: TaskStatus | null;
  readonly title: string;
  readonly turn_id: string | null;
  readonly turn_state: TurnState | null;
  readonly undelivered: number;
  readonly version: number;
  readonly waits_below: number;
  readonly waits_for: string;
  readonly workflow: WorkflowCounts | null;
  readonly worktree: TaskWorktree | null;
}

/** The worktree that was made for a session. `phase` is what was done with it last; `problem` why it is not as it
 * should be. `base` is the commit that it began from, `target` the branch that it is to be merged into (blank where
 * the base was no branch), `repository` the git directory that all worktrees share, `source` the folder that the
 * session was begun from, `port` the first of ten ports that are its own. `merged`: the commit of its branch that was
 * merged last; blank: none was. */
export interface TaskWorktree {
  readonly base: string;
  readonly branch: string;
  readonly merged: string;
  readonly path: string;
  readonly phase: WorktreePhase;
  readonly port: number;
  readonly problem: string;
  readonly repository: string;
  readonly source: string;
  readonly target: string;
}

/** What is drawn like a tool: something that was set to work and ends one way or another. */
export type ToolKind = "step" | "subagent" | "tool" | "workflow";

/** How a turn stands. Two are readings and never a record: `abandoned`, of an open turn whose owner is known to be
 * dead, and `unknown`, of a turn of which events are lost. */
export type TurnState = "abandoned" | "completed" | "failed" | "interrupted" | "partial_failed" | "running" | "timed_out" | "unknown" | "waiting";

/** How a workflow stands: `ready` of its `total` steps are proven, `held` wait for a person's decision. */
export interface WorkflowCounts {
  readonly held: number;
  readonly id: string;
  readonly ready: number;
  readonly status: WorkflowState;
  readonly total: number;
}

/** How a workflow stands. The seed's second spellings are read as the first. */
export type WorkflowState = "completed" | "failed" | "held" | "partial" | "running" | "timed_out";

/** What is done with a git worktree. An intent (`planned`, `merging`, `removing`) stands in the log before anything
 * is done for it, and what became of it after. */
export type WorktreePhase = "created" | "failed" | "merged" | "merging" | "planned" | "removed" | "removing";
