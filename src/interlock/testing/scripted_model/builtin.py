"""Scripts for a person who runs the server by hand, and how each CLI is pointed to it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from interlock.testing.scripted_model.script import Cut, Error, Gate, Hang, Script, Shell, Text, Think

_SLOW: Final = tuple(f"Line {number} of a slow answer.\n\n" for number in range(1, 11))

BUILTIN: Final[Mapping[str, Script]] = {
    "hello": (Think("Somebody says hello."), Text("Hello.")),
    "slow": (Think("This may take a while."), Text(*_SLOW, pace_seconds=1.0)),
    "gates": (
        Think("Waiting for the gate `thinking`."),
        Gate("thinking", limit_seconds=3600),
        Text("Now for the gate `streaming`.\n\n"),
        Gate("streaming", limit_seconds=3600),
        Text("Both are open."),
    ),
    "shell": (Shell("touch made.txt; sleep 2; echo made"), Text("The file is there.")),
    "error": (Error(500, "a scripted error"),),
    "flaky": (Error(529, "overloaded", times=2), Text("The third try went through.")),
    "cut": (Text("The first half"), Cut(times=1), Text(", and the second.")),
    "hang": (Think("I shall say nothing more."), Hang()),
}

CLIENTS: Final[Mapping[str, str]] = {
    "Claude Code": "ANTHROPIC_BASE_URL={url} ANTHROPIC_API_KEY=dummy CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1 claude",
    "Codex": (
        "STUB_API_KEY=dummy codex --no-daemon -c model=gpt-5.5 -c model_provider=stub -c model_providers.stub="
        '\'{{name="stub",base_url="{url}/v1",wire_api="responses",env_key="STUB_API_KEY",supports_websockets=false}}\''
    ),
    "Gemini CLI": "GOOGLE_GEMINI_BASE_URL={url} GEMINI_API_KEY=dummy gemini",
    "Qwen Code": "OPENAI_BASE_URL={url}/v1 OPENAI_API_KEY=dummy OPENAI_MODEL=scripted qwen",
    "aider": "OPENAI_API_BASE={url}/v1 OPENAI_API_KEY=dummy aider --model openai/scripted",
}
