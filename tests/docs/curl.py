"""As much of curl as our pages use, for machines that have none."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import httpx


def main(argv: Sequence[str]) -> int:
    """Ask, and print what is answered as it comes. `-m` bounds each silence; 28, as of curl: one was longer."""
    parser = argparse.ArgumentParser()
    for flag in ("-s", "-N"):
        parser.add_argument(flag, action="store_true")
    parser.add_argument("-m", type=float)
    parser.add_argument("-H", action="append", default=[])
    for option in ("-d", "-o", "-w", "-X"):
        parser.add_argument(option, default="")
    parser.add_argument("url")
    given = parser.parse_args(argv)
    lines = [line for one in given.H for line in _file_or_text(one).splitlines()]
    form = {"Content-Type": "application/x-www-form-urlencoded"} if given.d else {}
    headers = {**form, **dict(line.split(": ", 1) for line in lines)}
    method = given.X or ("POST" if given.d else "GET")
    with ExitStack() as held:
        sink = held.enter_context(Path(given.o).open("wb")) if given.o else sys.stdout.buffer
        client = held.enter_context(httpx.Client(timeout=given.m, trust_env=False))
        try:
            asked = client.stream(method, given.url, headers=headers, content=_file_or_text(given.d))
            answer = held.enter_context(asked)
            for piece in answer.iter_bytes():
                sink.write(piece)
                sink.flush()
        except httpx.ReadTimeout:
            return 28
    sys.stdout.write(given.w.replace("%{http_code}", str(answer.status_code)).replace("\\n", "\n"))
    sys.stdout.flush()
    return 0


def _file_or_text(given: str) -> str:
    return Path(given[1:]).read_text(encoding="utf-8") if given.startswith("@") else given


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
