"""The tools in flight as an immutable set: it answers as a dict and a counter would, whatever was opened and closed."""

from __future__ import annotations

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from interlock.lifecycle.open_tools import NO_TOOLS, OpenTool

ids = st.one_of(st.just(""), st.sampled_from([f"t{number}" for number in range(40)]), st.text(max_size=2))
tools = st.builds(OpenTool, st.sampled_from([0.0, 1.0, 2.5]), st.sampled_from(["", "Bash", "Read"]), ids, st.just(1))
moves = st.lists(st.tuples(st.booleans(), tools), max_size=60)


def model_of(held: Counter[OpenTool], is_opened: bool, tool: OpenTool) -> None:
    """The same in plain words: what is held, one entry a tool that is open."""
    known = next((one for one in held.elements() if one.id == tool.id), None) if tool.id else None
    if not is_opened:
        gone = known if tool.id else tool
        if gone is not None and held[gone] > 0:
            held[gone] -= 1
    elif known is None:
        held[tool] += 1
    elif not known.name:
        held[known] -= 1
        held[known._replace(name=tool.name)] += 1


@given(moves)
@settings(max_examples=60)
def test_it_holds_what_a_plain_counter_holds(history: list[tuple[bool, OpenTool]]) -> None:
    held, kept, halfway = Counter[OpenTool](), NO_TOOLS, NO_TOOLS
    before = set(halfway)
    for place, (is_opened, tool) in enumerate(history):
        if place == len(history) // 2:
            halfway, before = kept, set(kept)
        model_of(held, is_opened, tool)
        if is_opened:
            kept = kept.opened(tool)
        else:
            known = kept.get(tool.id) if tool.id else next((one for one in kept if one.key == tool.key), None)
            kept = kept if known is None else kept.closed(known)
    expected = sorted(tool._replace(copies=count) for tool, count in held.items() if count)
    assert list(kept) == expected
    assert kept.total == len(kept) == held.total()
    assert kept.oldest == (expected[0] if expected else None)
    assert set(halfway) == before  # what came later changed no earlier one


@given(st.lists(tools, max_size=40, unique_by=lambda tool: tool.key))
def test_equal_sets_are_equal_and_hash_alike_however_they_came_about(some: list[OpenTool]) -> None:
    there, back = NO_TOOLS, NO_TOOLS
    for tool in some:
        there = there.opened(tool)
    for tool in reversed(some):
        back = back.opened(tool)
    detour = back.opened(OpenTool(9.0, "Edit", "never given"))
    known = detour.get("never given")
    assert known is not None
    detour = detour.closed(known)
    assert there == back == detour
    assert hash(there) == hash(back) == hash(detour)
    assert there != detour.opened(OpenTool(9.0, "Edit", "never given"))
    assert there != "a set of tools"


def test_many_tools_leave_nothing_behind() -> None:
    kept = NO_TOOLS
    for number in range(5_000):
        kept = kept.opened(OpenTool(float(number), "Bash", f"t{number}"))
    assert (kept.total, kept.oldest) == (5_000, OpenTool(0.0, "Bash", "t0"))
    for number in range(5_000):
        known = kept.get(f"t{number}")
        assert known == kept.oldest
        assert known is not None
        kept = kept.closed(known)
    assert kept == NO_TOOLS
    assert kept.root == NO_TOOLS.root


def test_keys_of_one_hash_do_not_hide_each_other() -> None:
    class Same(str):
        def __hash__(self) -> int:
            return 7

    kept = NO_TOOLS
    for number in range(30):
        kept = kept.opened(OpenTool(float(number), "Bash", Same(f"t{number}")))
    assert kept.total == len(list(kept)) == 30
    assert kept.get(Same("t29")) == OpenTool(29.0, "Bash", "t29")
    assert "t29" in repr(kept)
