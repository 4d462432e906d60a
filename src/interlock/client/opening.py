"""What to ask a server to start: an agent by its name, as the configuration of this user says.

Law: nothing is asked for that could not work here. A program that is not installed and a folder that is not there are
refused before a session is opened.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from interlock.vocabulary.errors import MissingAgent, UsageError
from interlock.vocabulary.wire.resources import AskedWorktree, OpenTask

if TYPE_CHECKING:
    from interlock.agents.port import AgentSpec
    from interlock.runtime.config.agent_choice import Mode
    from interlock.runtime.config.sections import WorktreeSection

_MODEL: Final = "model"
# How each is usually installed. For others, whoever configured them knows.
NPM_PACKAGES: Final = {
    "claude": "@anthropic-ai/claude-code",
    "codex": "@openai/codex",
    "gemini": "@google/gemini-cli",
    "qwen": "@qwen-code/qwen-code",
    "opencode": "opencode-ai",
    "kimi": "@moonshot-ai/kimi-code",
    "cn": "@continuedev/cli",
    "copilot": "@github/copilot",
    "cline": "cline",
    "droid": "droid",
    "claude-code-acp": "@zed-industries/claude-code-acp",
}


def open_request(
    name: str,
    *,
    cwd: str | Path | None = None,
    mode: str = "",
    model: str = "",
    title: str = "",
    worktree: AskedWorktree | None = None,
) -> OpenTask:
    """The task to open for an agent of the configuration. `name` may be `model`, for a model API with `model`.

    `worktree`: a git worktree of its own; what is copied there and run first is as the configuration says.
    """
    from msgspec import structs

    from interlock.runtime.config.agent_choice import choose_agent
    from interlock.runtime.config.loading import load

    config, here, policy = load(os.environ).config, _folder(cwd), None
    if name == _MODEL and name not in config.agents:
        spec = _model_spec(model, _mode(mode), here)
    else:
        spec = choose_agent(config, name, os.environ, cwd=here, mode=_mode(mode), model=model)
        own = config.agents[name].run
        policy = structs.asdict(own) if own != config.run else None
    if cwd is not None:  # a folder that is asked for holds over one that is configured
        spec = replace(spec, cwd=here)
    _check_program(spec)
    return OpenTask(
        agent=spec.agent,
        driver=spec.driver,
        argv=spec.argv,
        cwd=spec.cwd,
        model=spec.model,
        options=dict(spec.options),
        environment=dict(spec.environment),
        title=title,
        policy=policy,
        worktree=None if worktree is None else _as_configured(worktree, config.worktree),
    )


def _as_configured(asked: AskedWorktree, section: WorktreeSection) -> AskedWorktree:
    from msgspec import structs

    return structs.replace(asked, **structs.asdict(section))


def _mode(word: str) -> Mode | None:
    from interlock.runtime.config.agent_choice import Mode

    known = [one.value for one in Mode if one is not Mode.MODEL]
    if word and word not in known:
        raise UsageError(f"there is no mode {word!r}", remedy=f"use one of {', '.join(known)}")
    return Mode(word) if word else None


def _model_spec(model: str, mode: Mode | None, cwd: str) -> AgentSpec:
    from interlock.agents.port import AgentSpec

    if mode is not None:
        raise UsageError(f"a model API cannot be run by --{mode.value}", remedy="leave it out")
    if not model:
        raise UsageError("which model?", remedy="name it: --model PROVIDER:NAME")
    return AgentSpec(agent=_MODEL, driver=_MODEL, model=model, cwd=cwd)


def _folder(cwd: str | Path | None) -> str:
    try:
        here = Path.cwd() if cwd is None else Path(cwd).expanduser().absolute()
    except (OSError, RuntimeError) as error:
        raise UsageError(f"there is no folder to begin in: {error}", remedy="give --cwd") from error
    if not here.is_dir():
        raise UsageError(f"there is no folder {here}", remedy="give one that is there with --cwd")
    return str(here)


def _check_program(spec: AgentSpec) -> None:
    if not spec.argv:
        return
    program = spec.argv[0]
    place = str(Path(spec.cwd, program)) if os.sep in program else program
    if shutil.which(place, path=spec.environment.get("PATH", os.environ.get("PATH"))) is not None:
        return
    package = NPM_PACKAGES.get(program)
    how = f"install it, such as with `npm install -g {package}`" if package else f"install {program}"
    raise MissingAgent(
        f"{spec.agent} is not installed: there is no program {program!r} in PATH",
        remedy=f"{how}, or set agents.{spec.agent}; `interlock doctor` tells what is there",
    )
