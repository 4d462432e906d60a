"""What is done to the log while a server has it: sessions moved into files and back, and room given back."""

from __future__ import annotations

import time

from litestar import post

from interlock.log.archive.moving import MovedSession, restore_session
from interlock.log.archive.vacuum import VacuumStep, vacuum_step
from interlock.log.port import SessionSummary
from interlock.log.sqlite.store import SqliteLog
from interlock.runtime.retention import archive_at_rest
from interlock.server.http.problems import Unfit
from interlock.server.log_watch import store_of
from interlock.server.routes.common import Server, TaskPath, task_of
from interlock.server.state import ServerState
from interlock.vocabulary.ids import SessionId


def _store(server: ServerState) -> SqliteLog:
    store = store_of(server.log)
    if not isinstance(store, SqliteLog):
        raise Unfit("the log of this server is in no database", remedy="ask a server that has one")
    return store


@post("/tasks/{task_id:str}/archive", status_code=200)
async def archive_task(server: Server, task_id: TaskPath) -> MovedSession:
    """Move the events of a task at rest out of the database, into a compressed file. It is read as before."""
    await task_of(server, task_id)
    return await archive_at_rest(_store(server), SessionId(task_id), time.time_ns() // 1_000_000)


@post("/tasks/{task_id:str}/restore", status_code=200)
async def restore_task(server: Server, task_id: TaskPath) -> SessionSummary:
    """Move the events of a task back into the database, as they were."""
    await task_of(server, task_id)
    return await restore_session(_store(server), SessionId(task_id))


@post("/log/vacuum", status_code=200)
async def vacuum_log(server: Server) -> VacuumStep:
    """Give back some of the room that the database does not need any more. Ask again while something is left."""
    return await vacuum_step(_store(server))


ROUTES = (archive_task, restore_task, vacuum_log)
