"""What every route of one server shares."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field

from interlock.log.port import Log
from interlock.runtime.config.sections import Config
from interlock.runtime.runtime import Runtime
from interlock.server.browser.login_store import LoginStore
from interlock.server.browser.tickets import Tickets
from interlock.server.commands.children import ChildCommands
from interlock.server.commands.commands import Commands
from interlock.server.commands.configured import ConfiguredAgents
from interlock.server.commands.workflows import WorkflowCommands
from interlock.server.http.access import Tokens
from interlock.server.live.hub import Hub
from interlock.server.live.searching import TranscriptSearch
from interlock.server.settings import ServerSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerState:
    """One server. `hub` holds the rooms and what is known of each task."""

    runtime: Runtime
    log: Log
    hub: Hub
    commands: Commands
    children: ChildCommands
    workflows: WorkflowCommands
    search: TranscriptSearch
    tokens: Tokens
    settings: ServerSettings
    logins: LoginStore = field(default_factory=LoginStore)
    tickets: Tickets = field(default_factory=lambda: Tickets(time.monotonic))
    agents: ConfiguredAgents = field(default_factory=lambda: ConfiguredAgents(Config(), os.environ))
