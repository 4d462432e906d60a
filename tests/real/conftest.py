"""Sessions of the real CLIs. The pinned versions are installed when the first test asks for one.

Set $INTERLOCK_REAL_RECORDINGS to a folder, and each test leaves there a recording of its run.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.real.recipes import CLAUDE, CODEX
from tests.real.sessions import Session, session_of
from tools.agent_clis import install


@pytest.fixture(scope="session")
def claude_executable() -> Path:
    return install("claude")


@pytest.fixture(scope="session")
def codex_executable() -> Path:
    return install("codex")


@pytest.fixture
def claude(claude_executable: Path, tmp_path: Path, request: pytest.FixtureRequest) -> Session:
    return session_of(CLAUDE, claude_executable, tmp_path, request.node.name)


@pytest.fixture
def codex(codex_executable: Path, tmp_path: Path, request: pytest.FixtureRequest) -> Session:
    return session_of(CODEX, codex_executable, tmp_path, request.node.name)
