"""One server for the tests of all commands that act: to start one costs more than most of what is tested with it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cli.serving import Served, serving


@pytest.fixture(scope="session")
def acting_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server that several modules share. Gates and titles are named apart; whoever ends it starts one of its own."""
    with serving(tmp_path_factory.mktemp("acting")) as running:
        yield running
