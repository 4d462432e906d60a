# ruff: noqa: SLF001 - another package is driven from outside, past what its server would start
"""Reads frames by the code of cli-agent-orchestrator: runs under a Python that has it, with nothing of ours.

`tools/scoreboard.py --cao PYTHON` starts it. A line of stdin is a recording: its CLI and version, and its steps in
order: frames (time, rows, columns), submits with their prompt, and answers of dialogs, which its server would have sent
itself. A line of stdout has two statuses a frame: of the screen detector, and of the monitor with its latch.
"""

from __future__ import annotations

import importlib
import json
import logging
import re
import sys
from importlib.metadata import version
from typing import Any

PROVIDERS = {
    "claude": ("claude_code", "ClaudeCodeProvider"),
    "codex": ("codex", "CodexProvider"),
    "opencode": ("opencode_cli", "OpenCodeCliProvider"),
}
PACKAGE = "cli_agent_orchestrator"
SHELL = "bash"


class FrameBackend:
    """Their terminal backend over a recording: it shows the frame of the moment."""

    rows: tuple[str, ...] = ()
    command = ""

    def get_history(self, *_: object, **__: object) -> str:
        return "\n".join(self.rows)

    def get_pane_current_command(self, *_: object) -> str:
        return self.command

    def get_native_status(self, *_: object) -> None:
        return None


def started(recording: dict[str, Any], clock: list[float]) -> Any:  # noqa: ANN401
    """A provider before its `initialize`, with the time of the recording for its clock."""
    module_name, class_name = PROVIDERS[recording["cli"]]
    module = importlib.import_module(f"{PACKAGE}.providers.{module_name}")
    provider = getattr(module, class_name)("scoreboard", "session", "window")
    provider._turn_gate_clock = lambda: clock[0]
    provider.shell_baseline = SHELL
    return provider


def initialize(provider: Any, rows: list[str]) -> None:  # noqa: ANN401
    """What its `initialize` does at the first ready screen; it would start the CLI itself, and wait for that screen."""
    provider._initialized = True
    module = sys.modules[type(provider).__module__]
    if hasattr(module, "_banner_version"):
        texts = [row for row in rows if row.strip()]
        provider._codex_version = module._banner_version("\n".join(rows))
        draws_bar = any(re.search(module.TUI_FOOTER_PATTERN, row) for row in texts[-module.IDLE_PROMPT_TAIL_LINES :])
        can_draw = provider._codex_version >= module.COMPLETION_FOOTER_MIN_VERSION
        provider._ends_turns_with_footer = can_draw and draws_bar


def read(recording: dict[str, Any]) -> dict[str, list[str]]:
    """Both statuses of every frame. An answer only arms the latch: it begins no turn."""
    monitor_module = importlib.import_module(f"{PACKAGE}.services.status_monitor")
    backend, clock = FrameBackend(), [0.0]
    importlib.import_module(f"{PACKAGE}.backends.registry").set_backend(backend)
    provider, monitor = started(recording, clock), monitor_module.StatusMonitor()
    monitor_module.provider_manager._providers["scoreboard"] = provider
    alone: list[str] = []
    latched: list[str] = []
    for step in recording["steps"]:
        clock[0] = step["t"]
        if "rows" not in step:
            monitor.notify_input_sent("scoreboard", assume_processing=provider.assume_processing_on_dispatch)
            if "prompt" in step:
                monitor.clear_rolling_buffer("scoreboard", provider)
                provider.mark_input_received()
                provider.record_dispatched_message(step["prompt"])
            continue
        # Its own start has a shell below the CLI: what the pane ran in the recording is another start's.
        backend.rows, backend.command = tuple(step["rows"]), SHELL if step["dead"] else recording["cli"]
        detected = provider.get_status_from_screen([row.ljust(step["columns"]) for row in step["rows"]])
        if not provider._initialized and detected.value in ("idle", "completed", "waiting_user_answer"):
            initialize(provider, step["rows"])
        monitor._apply_detection("scoreboard", detected)
        alone.append(detected.value)
        latched.append(monitor._last_status.get("scoreboard", detected).value)
    return {"alone": alone, "latched": latched}


def main() -> None:
    logging.disable(logging.CRITICAL)
    print(json.dumps({"version": version("cli-agent-orchestrator"), "clis": sorted(PROVIDERS)}), flush=True)
    for line in sys.stdin:
        print(json.dumps(read(json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
