"""The sections of the configuration, as data: every key with its type, its range, its default and what it is for.

A default stands here and nowhere else; where another module has one of its own, a test holds the two together.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Final

from msgspec import Meta, Struct, field, structs

from interlock.agents.pool.pool import PoolLimits
from interlock.monitor.policy import MonitorPolicies, MonitorPolicy
from interlock.projections.attention_ledger import DEFAULT_KINDS, NoticeKind
from interlock.runtime.children.tree_limits import TreeLimits
from interlock.runtime.policy import RunPolicy
from interlock.vocabulary.events.registry import Json

OFF: Final = "off"
"""How a limit is switched off: TOML has no word for nothing."""

_YEAR_SECONDS: Final = 31_536_000
Seconds = Annotated[float, Meta(gt=0, le=_YEAR_SECONDS)]
Cap = Annotated[int, Meta(ge=1, le=100_000)]
HostName = Annotated[str, Meta(pattern=r"^[A-Za-z0-9_.:\[\]*-]+$", title="the name or address of a host")]
Origin = Annotated[
    str, Meta(pattern=r"^https?://[A-Za-z0-9_.\[\]:-]+$", title="an origin, such as https://board.example")
]
Url = Annotated[str, Meta(pattern=r"^(https?://[^\s/?#@]+([/?#]\S*)?)?$", title="an http or https URL")]
AgentName = Annotated[str, Meta(pattern=r"^[a-z0-9][a-z0-9-]{0,63}$", title="small letters, digits and dashes")]
VariableName = Annotated[str, Meta(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$", title="the name of a variable")]


class _Section(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table of the file. What a key means is its `description`."""


class ServerSection(_Section, frozen=True):
    """Where the server listens, and by which names it may be called."""

    host: Annotated[HostName, Meta(description="the address to listen on")] = "127.0.0.1"
    port: Annotated[int, Meta(ge=0, le=65535, description="the port; 0 takes any that is free")] = 0
    allowed_hosts: Annotated[tuple[HostName, ...], Meta(description="names beyond those of loopback")] = ()
    allowed_origins: Annotated[tuple[Origin, ...], Meta(description="pages of others that may ask")] = ()


class RunSection(_Section, frozen=True):
    """How patient the runtime is with a session, and what the session may use."""

    turn_budget_seconds: Annotated[Seconds | None, Meta(description="how long a turn may take")] = None
    stall_after_seconds: Annotated[
        Seconds | None, Meta(description="time without progress after which a turn is stalled")
    ] = 120.0
    stall_tool_after_seconds: Annotated[Seconds | None, Meta(description="the same while a tool runs")] = 1800.0
    stalled_is_terminal: Annotated[bool, Meta(description="whether a stalled turn has failed")] = False
    start_seconds: Annotated[Seconds, Meta(description="how long a prompt may go without a sign of a start")] = 120.0
    resubmit_seconds: Annotated[
        Seconds, Meta(description="how long until a prompt that did not arrive is given again")
    ] = 2.0
    resubmit_attempts: Annotated[
        int, Meta(ge=0, le=1000, description="how often a prompt is given before it has failed")
    ] = 5
    interrupt_seconds: Annotated[Seconds, Meta(description="how long each request to end a turn may take")] = 10.0
    confirm_seconds: Annotated[Seconds, Meta(description="how long a decision may go without a sign")] = 15.0
    settle_seconds: Annotated[Seconds, Meta(description="how long background work may hold back a prompt")] = 60.0
    approval_seconds: Annotated[Seconds | None, Meta(description="how long a question may stay open")] = None
    idle_ttl_seconds: Annotated[Seconds | None, Meta(description="idle time after which an agent is stopped")] = None
    max_queued: Annotated[
        Annotated[int, Meta(ge=1, le=1_000_000)] | None, Meta(description="how many prompts may wait")
    ] = 1000
    max_tokens: Annotated[
        Annotated[int, Meta(ge=1, le=2**53)] | None, Meta(description="tokens after which a session takes no prompt")
    ] = None
    max_cost_usd: Annotated[
        Annotated[float, Meta(gt=0, le=1e9)] | None, Meta(description="cost after which a session takes no prompt")
    ] = None

    def policy(self) -> RunPolicy:
        """The same for the runtime."""
        return RunPolicy(**structs.asdict(self))


class SurfaceSection(_Section, frozen=True):
    """How long the screen of an agent in a terminal is watched before something is concluded from it."""

    unknown_to_stalled_timeout_seconds: Annotated[
        float,
        Meta(ge=1, le=86_400, description="time that a screen may say nothing in an open turn, until that is stalled"),
    ] = 30.0
    completion_stability_seconds: Annotated[
        float, Meta(ge=0.1, le=600, description="how long a ready screen must not change before its turn is completed")
    ] = 1.0
    watched_gap_seconds: Annotated[
        float, Meta(ge=0.1, le=600, description="the longest time between two looks that still counts as watched")
    ] = 2.0

    def policy(self) -> MonitorPolicy:
        """The same for the monitor. Whether a stall fails the turn is decided by `run.stalled_is_terminal` alone."""
        return MonitorPolicy(**structs.asdict(self))


class PoolSection(_Section, frozen=True):
    """How many agents may run at once."""

    total: Annotated[Cap | None, Meta(description="the cap for all together")] = None
    each: Annotated[Cap | None, Meta(description="the cap for each agent that per_agent does not name")] = None
    per_agent: Annotated[dict[AgentName, Cap | None], Meta(description="the cap for one agent")] = {}

    def limits(self) -> PoolLimits:
        """The same for the pool."""
        return PoolLimits(**structs.asdict(self))


class TreeSection(_Section, frozen=True):
    """How large a tree of sessions may grow: what a session starts as its children, and what these start."""

    max_depth: Annotated[int, Meta(ge=0, le=100, description="levels of children below a session; 0 allows none")] = 3
    max_running: Annotated[Cap, Meta(description="children of one session that run at once; more wait")] = 6
    max_open: Annotated[Cap, Meta(description="children of one session that run or wait")] = 100
    max_children: Annotated[Cap, Meta(description="children that one tree may ever have, with all that ended")] = 1_000

    def limits(self) -> TreeLimits:
        """The same for the owner of children."""
        return TreeLimits(**structs.asdict(self))


class EnvironmentSection(_Section, frozen=True):
    """What an agent's process gets beside what its driver passes on: in a terminal a short list, else all of ours."""

    take: Annotated[
        tuple[VariableName, ...],
        Meta(description="variables to take over from ours; agents that are built in take their own keys and folders"),
    ] = ()
    set: Annotated[dict[VariableName, str], Meta(description="variables and their values; never shown")] = {}


class AgentSection(_Section, frozen=True):
    """One agent: the program, and how it is driven."""

    driver: Annotated[str, Meta(min_length=1, description="the driver, unless a mode is asked for")] = "terminal"
    argv: Annotated[tuple[str, ...], Meta(description="the program with your own arguments")] = ()
    stream_driver: Annotated[str, Meta(description="the driver for --stream; blank: there is none")] = ""
    acp_argv: Annotated[tuple[str, ...], Meta(description="the program in its ACP mode; empty: it has none")] = ()
    model: Annotated[str, Meta(description="the model; blank: as the agent itself is set up")] = ""
    cwd: Annotated[str, Meta(description="its folder; blank: the one where the command is given")] = ""
    options: Annotated[dict[str, Json], Meta(description="the options of `driver`; other drivers get none")] = {}
    environment: EnvironmentSection = EnvironmentSection()
    run: RunSection = RunSection()
    surface: SurfaceSection = SurfaceSection()


PER_AGENT: Final = ("run", "surface")
"""The tables of the file that an agent may have too: what it does not say there holds for it from the table."""


class WorkspaceSection(_Section, frozen=True):
    """What is recorded of the files that an agent works on."""

    record_trees: Annotated[
        bool, Meta(description="keep the git work tree of an agent at the start and end of each turn")
    ] = True


class WorktreeSection(_Section, frozen=True):
    """What a git worktree gets when it is made for a session: `interlock run --worktree`."""

    copy: Annotated[
        tuple[str, ...], Meta(description="files that git ignores, to copy into it, such as .env: no patterns")
    ] = ()
    disposable: Annotated[
        tuple[str, ...],
        Meta(description="what git ignores and can be made again, such as node_modules: no loss when it is removed"),
    ] = ()
    setup: Annotated[tuple[str, ...], Meta(description="a program to run in it first, without a shell")] = ()
    setup_seconds: Annotated[float, Meta(gt=0, le=86_400, description="how long that program may take")] = 600.0
    link: Annotated[
        tuple[str, ...], Meta(description="like copy, but links to the originals, which all worktrees then share")
    ] = ()
    teardown: Annotated[
        tuple[str, ...],
        Meta(description="a program to run in it before it is removed, by name or absolute path; 10 minutes at most"),
    ] = ()
    submodules: Annotated[
        bool, Meta(description="check its submodules out, from what your folder has of them: nothing is fetched")
    ] = False


class NotifySection(_Section, frozen=True):
    """Who is told when an agent needs a person."""

    bell: Annotated[bool, Meta(description="ring the bell of `interlock top`'s terminal")] = True
    desktop: Annotated[bool, Meta(description="show it on the desktop, or by the terminal")] = False
    command: Annotated[tuple[str, ...], Meta(description="a program to run, without a shell; JSON on its stdin")] = ()
    webhook: Annotated[Url, Meta(description="where to POST it as JSON; redirects are not followed")] = ""
    ntfy: Annotated[Url, Meta(description="a topic of an ntfy server, such as one of your own, to POST it to")] = ""
    link: Annotated[Url, Meta(description="a page of yours about a session, sent along; `{session}` is its id")] = ""
    kinds: Annotated[tuple[NoticeKind, ...], Meta(description="what is told")] = DEFAULT_KINDS
    quiet_seconds: Annotated[
        float, Meta(ge=0, le=3600, description="how long a question must stand before it is told")
    ] = 2.0


class Colour(StrEnum):
    """When to use colours."""

    AUTO = "auto"
    ALWAYS = "always"
    NEVER = "never"


class Theme(StrEnum):
    """For which background colours are chosen."""

    AUTO = "auto"
    DARK = "dark"
    LIGHT = "light"


class UiSection(_Section, frozen=True):
    """How things look."""

    colour: Annotated[Colour, Meta(description="when to use colours; NO_COLOR wins")] = Colour.AUTO
    theme: Annotated[Theme, Meta(description="the background that colours are chosen for")] = Theme.AUTO


def _taking(*names: str) -> EnvironmentSection:
    return EnvironmentSection(take=names)


_ANTHROPIC: Final = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL")
_OPENAI: Final = ("OPENAI_API_KEY", "OPENAI_BASE_URL")
_GEMINI: Final = ("GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_GEMINI_BASE_URL", "GOOGLE_CLOUD_PROJECT")
_CLINE: Final = ("CLINE_API_KEY", "CLINE_PROVIDER", "CLINE_MODEL", "CLINE_DIR")
_COPILOT: Final = ("COPILOT_HOME", "COPILOT_MODEL", "COPILOT_PROVIDER_BASE_URL", "COPILOT_PROVIDER_API_KEY")

BUILTIN_AGENTS: Final = {
    "claude": AgentSection(
        argv=("claude",),
        stream_driver="claude-stream",
        acp_argv=("claude-code-acp",),
        environment=_taking(*_ANTHROPIC, "CLAUDE_CODE_OAUTH_TOKEN", "CLAUDE_CONFIG_DIR"),
    ),
    "codex": AgentSection(
        argv=("codex",), stream_driver="codex-app-server", environment=_taking(*_OPENAI, "CODEX_API_KEY", "CODEX_HOME")
    ),
    "gemini": AgentSection(
        argv=("gemini",),
        stream_driver="gemini-stream",
        acp_argv=("gemini", "--acp"),
        environment=_taking(*_GEMINI, "GOOGLE_APPLICATION_CREDENTIALS"),
    ),
    "qwen": AgentSection(
        argv=("qwen",),
        stream_driver="qwen-stream",
        acp_argv=("qwen", "--acp"),
        environment=_taking(*_OPENAI, "OPENAI_MODEL", "DASHSCOPE_API_KEY"),
    ),
    "opencode": AgentSection(
        argv=("opencode",),
        stream_driver="opencode-serve",
        acp_argv=("opencode", "acp"),
        environment=_taking(*_ANTHROPIC, *_OPENAI, *_GEMINI, "OPENCODE_CONFIG"),
    ),
    "kimi": AgentSection(
        argv=("kimi",), acp_argv=("kimi", "acp"), environment=_taking(*_OPENAI, "KIMI_API_KEY", "KIMI_CODE_HOME")
    ),
    "continue": AgentSection(
        argv=("cn",), environment=_taking(*_ANTHROPIC, *_OPENAI, "CONTINUE_API_KEY", "CONTINUE_GLOBAL_DIR")
    ),
    "copilot": AgentSection(
        argv=("copilot",),
        acp_argv=("copilot", "--acp"),
        environment=_taking("COPILOT_GITHUB_TOKEN", "GH_TOKEN", "GITHUB_TOKEN", *_COPILOT),
    ),
    "cline": AgentSection(
        argv=("cline",), acp_argv=("cline", "--acp"), environment=_taking(*_ANTHROPIC, *_OPENAI, *_CLINE)
    ),
    "droid": AgentSection(
        argv=("droid",), acp_argv=("droid", "exec", "--output-format", "acp"), environment=_taking("FACTORY_API_KEY")
    ),
    "pi": AgentSection(argv=("pi",), stream_driver="pi-rpc", environment=_taking(*_ANTHROPIC, *_OPENAI, *_GEMINI)),
}
"""What is known of each agent without a line of configuration."""


class Config(_Section, frozen=True):
    """The whole configuration, every value in its place."""

    server: ServerSection = ServerSection()
    run: RunSection = RunSection()
    surface: SurfaceSection = SurfaceSection()
    pool: PoolSection = PoolSection()
    tree: TreeSection = TreeSection()
    agents: dict[AgentName, AgentSection] = field(default_factory=lambda: dict(BUILTIN_AGENTS))
    workspace: WorkspaceSection = WorkspaceSection()
    worktree: WorktreeSection = WorktreeSection()
    notify: NotifySection = NotifySection()
    ui: UiSection = UiSection()

    def monitor_policies(self) -> MonitorPolicies:
        """The waits over every agent's screen, each agent's own before the general ones."""
        own = {name: agent.surface.policy() for name, agent in self.agents.items() if agent.surface != self.surface}
        return MonitorPolicies(self.surface.policy(), own)
