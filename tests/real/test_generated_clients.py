"""Clients that other people's generators make of the server's own OpenAPI document: whole, well typed, and they work.

openapi-typescript and tsc come from npm's registry, openapi-python-client from pip's: which ones, the person's own
settings say. Each is installed once, in a pinned version, into the cache of the agent CLIs.
"""

from __future__ import annotations

import asyncio
import shutil
import sys
from pathlib import Path
from typing import Final

import pytest

from interlock.testing.lab import installs
from interlock.testing.lab.installs import CliPackage
from tests.contract.harness import run
from tests.server.http_harness import OPERATOR, house

pytestmark = pytest.mark.real

TYPESCRIPT: Final = CliPackage("openapi-typescript", "openapi-typescript", "7.13.0", beside=("typescript@5.9.3",))
PYTHON_CLIENT: Final = "openapi-python-client"
PYTHON_VERSION: Final = "0.29.1"
LIMIT_SECONDS: Final = 800.0

# Without optional fields: the compiler refuses `undefined`, so what is always sent must be said to be always there.
USE_TS: Final = """
import type { components, paths } from "./api";

type Sent = paths["/api/tasks/{task_id}/prompts"]["post"]["responses"]["202"]["content"]["application/json"];
type Schemas = components["schemas"];
type Asked = paths["/api/tasks/{task_id}/prompts/{prompt_id}"]["get"]["responses"]["200"];
type Detail = Asked["content"]["application/json"];

export function read(queue: Schemas["QueueView"], asked: Schemas["Approval"], detail: Detail, sent: Sent): string {
  const flags: boolean[] = [queue.is_open, asked.is_answerable];
  const status: Schemas["TaskStatus"] | null = ({} as Schemas["RuntimeCheck"]).task_status;
  const cursor: Schemas["TaskScreen"]["cursor"] = [0, 1];
  const position: number | null = detail.position;
  return `${flags} ${status} ${cursor} ${position} ${sent.prompt_id}`;
}
"""
# No hooks: they would call formatters that are not there. A log in lines is no type that it knows.
CONFIG: Final = "post_hooks: []\ncontent_type_overrides:\n  application/x-ndjson: application/octet-stream\n"
USE_PY: Final = """
import importlib, pkgutil, sys

import generated
for found in pkgutil.walk_packages(generated.__path__, "generated."):
    importlib.import_module(found.name)

from generated import AuthenticatedClient
from generated.api.prompts import get_prompt, send_prompt
from generated.api.tasks import get_task, open_task
from generated.models import OpenTask, PromptDetail, Problem, SendPrompt

url, token = sys.argv[1:]
with AuthenticatedClient(base_url=url, token=token) as client:
    opened = open_task.sync(client=client, body=OpenTask(agent="puppet", driver="puppet"))
    sent = send_prompt.sync(opened.task_id, client=client, body=SendPrompt(text="go", prompt_id="prm_a"))
    detail = get_prompt.sync(opened.task_id, "prm_a", client=client)
    assert isinstance(detail, PromptDetail), detail
    task = get_task.sync(opened.task_id, client=client)
    assert task.summary.is_supervised is True and task.queue.is_open is True
    refused = get_prompt.sync(opened.task_id, "none", client=client)
    assert isinstance(refused, Problem) and refused.code == "not_found", refused
    print(sent.prompt_id, detail.text)
"""


async def call(*command: str | Path, cwd: Path) -> str:
    """What a program prints; it must succeed, in time."""
    process = await asyncio.create_subprocess_exec(
        *map(str, command), cwd=cwd, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    try:
        async with asyncio.timeout(LIMIT_SECONDS):
            told, _ = await process.communicate()
    except TimeoutError:
        process.kill()
        raise
    assert process.returncode == 0, told.decode()
    return told.decode()


@pytest.mark.timeout(900)
def test_openapi_typescript_makes_types_that_the_compiler_takes(tmp_path: Path) -> None:
    generator = installs.install(TYPESCRIPT)

    async def story() -> None:
        async with house() as server:
            document = (await server.stranger.get("/api/openapi.json")).content
        (tmp_path / "openapi.json").write_bytes(document)
        (tmp_path / "use.ts").write_text(USE_TS, encoding="utf-8")
        await call(generator, "openapi.json", "-o", "api.d.ts", cwd=tmp_path)
        await call(generator.parent / "tsc", "--noEmit", "--strict", "use.ts", "api.d.ts", cwd=tmp_path)

    run(story(), LIMIT_SECONDS)


async def python_generator() -> Path:
    """Where the programs of the generator are. Its own program is what pip puts there last."""
    cache = installs.cache_folder()
    home = cache / f"{PYTHON_CLIENT}-{PYTHON_VERSION}"
    if not (home / "bin" / PYTHON_CLIENT).exists():
        cache.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(home, ignore_errors=True)
        await call(sys.executable, "-m", "venv", home, cwd=cache)
        wanted = f"{PYTHON_CLIENT}=={PYTHON_VERSION}"
        await call(home / "bin" / "python", "-m", "pip", "install", "--quiet", wanted, cwd=cache)
    return home / "bin"


@pytest.mark.timeout(900)
def test_openapi_python_client_makes_a_client_that_talks_to_a_server(tmp_path: Path) -> None:
    async def story() -> str:
        programs = await python_generator()
        async with house() as server:
            document = (await server.stranger.get("/api/openapi.json")).content
            (tmp_path / "openapi.json").write_bytes(document)
            (tmp_path / "config.yaml").write_text(CONFIG, encoding="utf-8")
            (tmp_path / "use.py").write_text(USE_PY, encoding="utf-8")
            source = ("--path", "openapi.json", "--meta", "none", "--config", "config.yaml")
            told = await call(programs / PYTHON_CLIENT, "generate", *source, "--output-path", "generated", cwd=tmp_path)
            assert "WARNING" not in told, told
            return await call(programs / "python", "use.py", server.url, OPERATOR, cwd=tmp_path)

    assert run(story(), LIMIT_SECONDS).split() == ["prm_a", "go"]
