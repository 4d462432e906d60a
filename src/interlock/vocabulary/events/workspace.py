"""Events about the files that an agent works on: which tree there was when a turn began, and when it ended, and which
git worktree was made for a session."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from msgspec import Struct

from interlock.vocabulary.errors import ContractError
from interlock.vocabulary.events.conversation import Count, Name
from interlock.vocabulary.events.registry import Audience, Payload, declare
from interlock.vocabulary.ids import PromptId, SessionIdField, TurnId


class WorkspacePhase(StrEnum):
    """When a tree was taken: before a turn could do anything, or after its end."""

    START = "start"
    END = "end"


class FileChange(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A file that differs from the tree before. `change` is A(dded), D(eleted), M(odified) or T(ype changed). Lines are
    absent where they cannot be counted. `before` and `after`: the hashes of its content (sha256 in a manifest), blank
    where it was not there, is not known, or where trees tell them."""

    path: Name
    change: str
    added: Count | None = None
    removed: Count | None = None
    before: str = ""
    after: str = ""


class WorkspaceKind(StrEnum):
    """What a record rests on: a tree of git that is kept, or a list of hashes of a folder without git."""

    TREE = "tree"
    MANIFEST = "manifest"


class FileReviewAct(StrEnum):
    """What a person did with a file that a turn changed. `discarding`: it is about to be put back; what came of it
    follows, as `discarded` or as `kept`. `sent_back`: the agent was asked to change it again."""

    ACCEPTED = "accepted"
    SENT_BACK = "sent_back"
    DISCARDING = "discarding"
    DISCARDED = "discarded"
    KEPT = "kept"


@declare("workspace_changed", Audience.AUDIT)
class WorkspaceChanged(Payload, frozen=True, kw_only=True):
    """The work tree of a session at one edge of a turn. `tree` is kept by `commit` in `repository`; blank: there is
    none, and `problem` says why.

    `files` are those that differ from the tree `base`: for an end the turn's own start, for a start the last tree of
    this session (its opening, or its turn before), as far as this server saw one. At most 200 are listed; `file_count`,
    `added` and `removed` are of all of them. `late`: files that changed after that edge of the turn, before they were
    looked at, so that their change may be on either side of it. `not_kept`: paths whose content is not in the tree,
    each with its reason. `shared_with`: sessions that had a turn in the same work tree meanwhile. `main_root`: for the
    end of a turn in a linked worktree, the main checkout of its repository, if that was looked at, and `main_changed`
    what changed there since the turn began, by whom is not known (at most 200 are listed); `main_files` has their
    hashes, as git gives them: one that changed right after the start of the turn has none of before.

    A `manifest` is of a folder without git, and recorded at the end of a turn only if files changed or something is in
    doubt: `base` and `manifest` are the hashes of the list of files at its start and at its end, and nothing is kept.
    """

    turn_id: TurnId
    phase: WorkspacePhase
    root: str = ""
    repository: str = ""
    branch: str = ""
    head: str = ""
    tree: str = ""
    commit: str = ""
    base: str = ""
    files: tuple[FileChange, ...] = ()
    file_count: Count = 0
    added: Count = 0
    removed: Count = 0
    late: tuple[str, ...] = ()
    not_kept: tuple[str, ...] = ()
    shared_with: tuple[SessionIdField, ...] = ()
    main_root: str = ""
    main_changed: tuple[str, ...] = ()
    main_files: tuple[FileChange, ...] = ()
    problem: str = ""
    kind: WorkspaceKind = WorkspaceKind.TREE
    manifest: str = ""

    def __post_init__(self) -> None:
        if not (self.tree or self.manifest or self.problem):
            raise ContractError("a workspace_changed without a tree says why it has none")


class WorktreePhase(StrEnum):
    """What is done with a git worktree. An intent (`planned`, `merging`, `removing`) stands in the log before anything
    is done for it, and what became of it after."""

    PLANNED = "planned"
    CREATED = "created"
    FAILED = "failed"
    MERGING = "merging"
    MERGED = "merged"
    REMOVING = "removing"
    REMOVED = "removed"


INTENTS: Final = frozenset({WorktreePhase.PLANNED, WorktreePhase.MERGING, WorktreePhase.REMOVING})
"""Phases that something must follow. Where nothing does, whoever was to do it died."""


@declare("worktree_changed", Audience.AUDIT)
class WorktreeChanged(Payload, frozen=True, kw_only=True):
    """What happened to the git worktree that was made for a session. Each event tells all of it: the folder `path`, its
    `branch`, the commit `base` that it began from, and `target`, the branch that it is to be merged into (blank where
    the base was no branch). `repository` is the git directory that all worktrees share, `source` the folder from which
    the session was begun. `port`: the first of ten that are its own.

    `copy` are the ignored files that were to be copied, `link` those that were to be linked, and `setup` the command
    that was to be run in it, if any; `teardown` is run there before it is removed. `submodules`: they are checked out.
    `disposable`: what git ignores and is no loss when it is removed, by name or by path.
    `before` and `after`: the commits of the branch that a merge is into, `head`: the commit of the worktree's branch,
    `checkout`: the work tree that has the target checked out. `kept`: refs and folders where something was kept.
    `problem`: why it is not as it should be.
    """

    phase: WorktreePhase
    path: Name
    branch: Name
    base: Name
    repository: Name
    source: str = ""
    target: str = ""
    port: Count = 0
    copy: tuple[str, ...] = ()
    disposable: tuple[str, ...] = ()
    setup: tuple[str, ...] = ()
    link: tuple[str, ...] = ()
    teardown: tuple[str, ...] = ()
    submodules: bool = False
    head: str = ""
    before: str = ""
    after: str = ""
    checkout: str = ""
    kept: tuple[str, ...] = ()
    problem: str = ""

    @property
    def variables(self) -> dict[str, str]:
        """What a program that runs in it is told by its environment."""
        return {
            "INTERLOCK_WORKTREE": self.path,
            "INTERLOCK_REPO": self.source,
            "INTERLOCK_BRANCH": self.branch,
            "INTERLOCK_BASE": self.base,
            "INTERLOCK_PORT": str(self.port),
        }


@declare("file_reviewed", Audience.AUDIT)
class FileReviewed(Payload, frozen=True, kw_only=True):
    """Somebody reviewed what a turn did to one file, which is what differs between `tree_before` and `tree_after`. Of a
    discarded file `commit` keeps the content, and `problem` says why one was kept. `prompt_id`: the prompt by which it
    was sent back."""

    turn_id: TurnId
    path: Name
    act: FileReviewAct
    tree_before: str = ""
    tree_after: str = ""
    commit: str = ""
    prompt_id: PromptId | None = None
    problem: str = ""
    decided_by: str = ""
