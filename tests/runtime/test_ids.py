"""Ids are made of entropy that is read ahead: no two are the same, in one process or in a fork of it."""

from __future__ import annotations

import os

from interlock.runtime.runtime import new_id
from interlock.vocabulary.ids import is_valid_id

MANY = 1000


def _ids_of_a_fork() -> list[str]:
    reading, writing = os.pipe()
    if (pid := os.fork()) == 0:
        os.write(writing, "\n".join(new_id("evt") for _ in range(20)).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        told = pipe.read().decode().split("\n")
    os.waitpid(pid, 0)
    return told


def test_no_id_is_made_twice() -> None:
    made = [new_id("evt") for _ in range(MANY)]
    assert len(set(made)) == MANY
    assert all(is_valid_id(one) for one in made)


def test_a_fork_makes_other_ids_than_its_parent() -> None:
    new_id("evt")  # some entropy is read ahead now
    forked = _ids_of_a_fork()
    tails = {one[-16:] for one in (*forked, *(new_id("evt") for _ in range(20)))}  # the part that is not the time
    assert len(tails) == 40
