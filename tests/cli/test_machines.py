"""`interlock debug machines`: what it prints is what the tables say."""

from __future__ import annotations

import json

import pytest

from interlock.cli.setup.machines import view
from interlock.lifecycle import render
from interlock.machines import MACHINES
from tests.cli.harness import interlock


def test_the_list_names_every_machine() -> None:
    done = interlock("machines")
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0].split()[0] == "NAME"
    assert [line.split()[0] for line in lines[1:]] == [name for name, group in MACHINES.items() for _ in group]


def test_the_list_as_json() -> None:
    done = interlock("machines", "--json")
    assert done.stdout.endswith("\n")
    assert [(one["name"], len(one["machines"])) for one in json.loads(done.stdout)["machines"]] == [
        (name, len(group)) for name, group in MACHINES.items()
    ]


@pytest.mark.parametrize("name", MACHINES)
def test_one_machine_for_people(name: str) -> None:
    done = interlock("machines", name)
    assert (done.returncode, done.stderr) == (0, "")
    for machine in MACHINES[name]:
        assert render.ascii_diagram(machine) in done.stdout
        assert machine.title in done.stdout
        assert all(on in done.stdout for on in machine.inputs)


@pytest.mark.parametrize("name", MACHINES)
def test_one_machine_as_json(name: str) -> None:
    done = interlock("machines", name, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    answer = json.loads(done.stdout)
    assert answer["name"] == name
    for machine, shown in zip(MACHINES[name], answer["machines"], strict=True):
        assert shown["states"] == list(view(machine).states)
        assert len(shown["edges"]) == len(machine.edges)
        assert len(shown["matrix"]) == len(machine.inputs)


def test_an_unknown_machine_names_the_known_ones_and_the_nearest() -> None:
    known = next(iter(MACHINES))
    done = interlock("machines", f"{known}x")
    assert (done.returncode, done.stdout) == (2, "")
    assert f"did you mean '{known}'?" in done.stderr
    assert all(name in done.stderr for name in MACHINES)


def test_a_name_like_nothing_is_shown_escaped_and_without_a_guess() -> None:
    done = interlock("machines", "\x1b]0;zzz\x07")
    assert done.returncode == 2
    assert "did you mean" not in done.stderr
    assert "\x1b" not in done.stderr
