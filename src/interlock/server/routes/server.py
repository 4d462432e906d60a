"""The server itself: that it lives, what it is, which agents it can run, its pool, its figures and its reference."""

from __future__ import annotations

import asyncio

from litestar import Request, Response, get
from litestar.datastructures import State

from interlock.server.http.shapes import AgentDriver, AgentPage, Health, PoolState, Slot
from interlock.server.log_watch import problem_of
from interlock.server.metrics import METRICS_TYPE, collect, render
from interlock.server.routes.common import Server
from interlock.server.settings import server_version
from interlock.server.state import ServerState
from interlock.vocabulary.ids import SessionId
from interlock.vocabulary.wire.requests import PROTOCOL, AccessRole
from interlock.vocabulary.wire.resources import Limits, ServerInfo


@get("/health")
async def get_health(server: Server) -> Health:
    """That the server lives. It needs no token, and tells nothing else."""
    return health_of(server)


def health_of(server: ServerState) -> Health:
    """How the server is."""
    is_recording = not problem_of(server.log)
    return Health(alive=True, ready=server.hub.is_ready, recording=is_recording, version=server_version())


@get("/api/server")
async def get_server(server: Server, request: Request[str, AccessRole, State]) -> ServerInfo:
    """Which server this is, what the caller may do, how much it takes, and what is wrong with its log, if anything."""
    settings = server.settings
    limits = Limits(
        max_request_bytes=settings.max_request_bytes,
        max_rooms=settings.max_rooms,
        max_connections=settings.max_connections,
        requests_per_second=settings.requests_per_second,
        request_burst=settings.request_burst,
        command_seconds=settings.command_seconds,
        heartbeat_seconds=settings.heartbeat_seconds,
    )
    return ServerInfo(
        version=server_version(),
        protocol=PROTOCOL,
        role=request.auth,
        limits=limits,
        log_problem=problem_of(server.log),
    )


@get("/api/agents")
async def list_agents(server: Server) -> AgentPage:
    """Every driver, with what it can do, and every agent of the configuration, with whether it is installed."""
    drivers = sorted(server.runtime.drivers.values(), key=lambda driver: driver.name)
    return AgentPage(
        items=tuple(AgentDriver(name=one.name, kind=one.kind, capabilities=one.capabilities) for one in drivers),
        configured=await asyncio.to_thread(server.agents.lines),
    )


@get("/api/pool")
async def get_pool(server: Server) -> PoolState:
    """How many agents may run at once, which do, and who is next."""
    pool = server.runtime.pool
    return PoolState(
        total=pool.limits.total,
        each=pool.limits.each,
        per_agent=dict(pool.limits.per_agent),
        in_use=tuple(Slot(task_id=SessionId(key), agent=agent) for key, agent in pool.held.items()),
        waiting=tuple(Slot(task_id=SessionId(key), agent=agent) for key, agent in pool.waiting.items()),
    )


@get("/metrics", media_type="text/plain")
async def get_metrics(server: Server) -> Response[str]:
    """Figures for Prometheus."""
    figures = await collect(server.hub, is_recording=not problem_of(server.log))
    return Response(render(figures), media_type=METRICS_TYPE)


ROUTES = (get_health, get_server, list_agents, get_pool, get_metrics)
