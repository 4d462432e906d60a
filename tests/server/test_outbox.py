"""The outbox: bounded, in order, woken once, and never without an answer."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from interlock.server.live.outbox import BATCH_BYTES, TRY_AGAIN_LATER, Closing, FlushRound, Outbox, Traffic
from interlock.server.live.rooms import Member, Rooms
from interlock.vocabulary.ids import SessionId
from interlock.vocabulary.wire.requests import TaskBehind, TaskJoin
from tests.contract.harness import run
from tests.server.socket_harness import FRAMES, Author, frames_of

ROOM = SessionId("ses_one")


class Bell:
    """In the place of rooms: it counts how often somebody has place again."""

    def __init__(self) -> None:
        self.times = 0

    def catch_up(self, member: Member) -> None:
        self.times += 1


def outbox(bell: Bell | Rooms, frames: int = 4, size: int = 1_000) -> Outbox:
    return Outbox(bell, max_frames=frames, max_bytes=size)


def test_frames_are_refused_beyond_the_bound_of_frames() -> None:
    box = outbox(Bell())
    assert [box.offer(b"x", ROOM) for _ in range(6)] == [True] * 4 + [False] * 2
    assert len(box) == 4


def test_frames_are_refused_beyond_the_bound_of_bytes() -> None:
    box = outbox(Bell(), frames=100, size=10)
    assert [box.offer(b"xxxx", ROOM) for _ in range(3)] == [True, True, False]
    assert box.offer(b"xx", ROOM)
    assert box._bytes == 10


def test_a_frame_that_is_too_large_goes_into_an_empty_outbox() -> None:
    box = outbox(Bell(), size=10)
    assert box.offer(b"x" * 50, ROOM)
    assert not box.offer(b"x", ROOM)


def test_what_is_put_in_comes_out_in_order() -> None:
    async def story() -> None:
        box = outbox(Bell())
        box.offer(b"1", ROOM)
        box.answer(b"2")
        box.offer(b"3", None)
        assert [await box.take() for _ in range(3)] == [b"1", b"2", b"3"]
        assert (len(box), box._bytes) == (0, 0)

    run(story())


def test_whoever_fell_behind_is_caught_up_once_when_half_is_gone() -> None:
    async def story() -> None:
        bell = Bell()
        box = outbox(bell)
        for _ in range(6):
            box.offer(b"x", ROOM)
        told = []
        for _ in range(4):
            await box.take()
            told.append(bell.times)
        assert told == [0, 1, 1, 1]

    run(story())


def test_half_is_half_of_the_bytes_too() -> None:
    async def story() -> None:
        bell = Bell()
        box = outbox(bell, frames=100, size=10)
        for frame in (b"x", b"x" * 8, b"x", b"x"):
            box.offer(frame, ROOM)
        await box.take()
        assert bell.times == 0
        await box.take()
        assert bell.times == 1

    run(story())


def test_who_did_not_fall_behind_is_not_caught_up() -> None:
    async def story() -> None:
        bell = Bell()
        box = outbox(bell)
        box.offer(b"x", ROOM)
        await box.take()
        assert bell.times == 0

    run(story())


def test_answers_are_taken_where_frames_are_not() -> None:
    async def story() -> None:
        box = outbox(Bell())
        for _ in range(5):
            box.offer(b"x", ROOM)
        box.answer(b"answer")
        assert box.closing is None
        assert [await box.take() for _ in range(5)][-1] == b"answer"

    run(story())


def test_answers_that_pile_up_to_twice_the_bound_end_the_connection() -> None:
    async def story() -> None:
        traffic = Traffic()
        box = Outbox(Bell(), max_frames=4, max_bytes=1_000, traffic=traffic)
        for _ in range(8):
            box.answer(b"x")
            assert box.closing is None
        box.answer(b"x")
        assert box.closing == Closing(TRY_AGAIN_LATER, "answers are not read")
        assert await box.take() is None, "what it does not read is not kept"
        assert (len(box), box._bytes, traffic.overflows) == (0, 0, 1)

    run(story())


def test_answers_are_bounded_by_bytes_and_any_one_answer_fits() -> None:
    box = outbox(Bell(), size=10)
    box.answer(b"x" * 1_000)
    assert box.closing is None
    box.answer(b"x")
    assert box.closing is not None


def test_a_closed_outbox_takes_nothing_more_and_gives_what_it_has() -> None:
    async def story() -> None:
        bell = Bell()
        box = outbox(bell)
        box.answer(b"last")
        box.close(1012, "restart")
        box.close(1001, "later words")
        box.answer(b"too late")
        assert not box.offer(b"too late", ROOM)
        assert [await box.take(), await box.take()] == [b"last", None]
        assert box.closing == Closing(1012, "restart")
        assert bell.times == 0

    run(story())


def test_a_burst_wakes_the_writer_once() -> None:
    async def story() -> None:
        box = outbox(Bell(), frames=100)
        taken: list[bytes] = []
        wakes = 0
        loop = asyncio.get_running_loop()

        async def write() -> None:
            while (frame := await box.take()) is not None:
                taken.append(frame)

        writer = asyncio.create_task(write())
        await asyncio.sleep(0)
        make = loop.create_future

        def counted() -> asyncio.Future[object]:
            nonlocal wakes
            wakes += 1
            return make()

        loop.create_future = counted  # type: ignore[method-assign]
        for _ in range(50):
            box.offer(b"x", ROOM)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert len(taken) == 50
        assert wakes == 1, "it waits again once, when all is taken"
        box.close(1000, "")
        await writer

    run(story())


def test_a_writer_that_stops_waiting_loses_nothing() -> None:
    async def story() -> None:
        box = outbox(Bell())
        waiting = asyncio.create_task(box.take())
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        box.offer(b"x", ROOM)
        assert await box.take() == b"x"

    run(story())


def test_a_client_that_never_reads_costs_no_more_than_its_bound() -> None:
    """Everybody else gets every frame, and it is told once that it fell behind."""

    async def story() -> None:
        rooms, author, traffic = Rooms(), Author(), Traffic()
        for event in [*author.opened(), *author.queued(), *author.began()]:
            rooms.publish(event)
        stuck = Outbox(rooms, max_frames=10, max_bytes=10_000, traffic=traffic)
        well = Outbox(rooms, max_frames=100_000, max_bytes=10**9)
        for box in (stuck, well):
            rooms.join(box, TaskJoin(id="j", task_id=ROOM))
        for _ in range(5_000):
            for event in author.said("word "):
                rooms.publish(event)
        assert len(stuck) <= 10
        assert stuck._bytes <= 10_000
        assert len(well) == 5_002  # its answer, the start, the words
        assert traffic.frames_refused == 1, "after the first refusal it is not even asked"
        raw = [await stuck.take() for _ in range(len(stuck))]
        assert not any(isinstance(one, TaskBehind) for one in frames_of([frame for frame in raw if frame]))
        behind = FRAMES.decode(await stuck.take() or b"")
        assert isinstance(behind, TaskBehind)
        assert behind.tick == rooms.views[ROOM].tick

    run(story())


class Line:
    """A wire that is free when the test says so."""

    def __init__(self) -> None:
        self.is_free = True
        self.writes: list[list[bytes]] = []

    def write_texts(self, texts: Iterable[bytes]) -> None:
        self.writes.append(list(texts))


def test_a_burst_is_one_write_and_needs_no_writer() -> None:
    async def story() -> None:
        box, line = outbox(Bell(), frames=10), Line()
        box.attach(line)
        box.answer(b"a")
        box.offer(b"b", ROOM)
        box.offer(b"c", ROOM)
        assert line.writes == [], "more may come"
        await asyncio.sleep(0)
        assert line.writes == [[b"a", b"b", b"c"]]
        assert (len(box), box._bytes) == (0, 0)
        box.offer(b"d", ROOM)
        await asyncio.sleep(0)
        assert line.writes[1:] == [[b"d"]]

    run(story())


def test_what_a_wire_does_not_take_at_once_is_for_the_writer_in_order() -> None:
    async def story() -> None:
        box, line = outbox(Bell(), 10, 10 * BATCH_BYTES), Line()
        box.attach(line)
        taking = asyncio.create_task(box.take_batch())
        await asyncio.sleep(0)
        box.answer(b"x" * BATCH_BYTES)
        box.answer(b"y" * BATCH_BYTES)
        box.answer(b"z")
        assert [one[:1] for one in await taking] == [b"y"], "the first went by the wire, the last is too much at once"
        assert [one[:1] for written in line.writes for one in written] == [b"x"]
        line.is_free = False
        box.answer(b"w")
        await asyncio.sleep(0)
        assert await box.take_batch() == [b"z", b"w"]
        assert len(line.writes) == 1
        line.is_free = True
        await asyncio.sleep(0)
        assert len(line.writes) == 1, "nothing is left to write"

    run(story())


class BrokenLine(Line):
    """A wire that fails."""

    def write_texts(self, texts: Iterable[bytes]) -> None:
        raise RuntimeError("broken")


def test_outboxes_of_one_round_are_flushed_together_and_one_that_fails_holds_up_no_other() -> None:
    async def story() -> None:
        told: list[str] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, what: told.append(str(what.get("exception"))))
        flushing, lines = FlushRound(), [Line(), BrokenLine(), Line()]
        for line in lines:
            box = Outbox(Bell(), max_frames=10, max_bytes=1_000, flushing=flushing)
            box.attach(line)
            box.offer(b"a", ROOM)
            box.offer(b"b", ROOM)
        await asyncio.sleep(0)
        assert lines[0].writes == [[b"a", b"b"]]
        await asyncio.sleep(0)
        assert told == ["broken"]
        assert lines[2].writes == [[b"a", b"b"]]

    run(story())


def test_a_batch_is_as_much_as_is_sent_at_once_and_at_least_one_frame() -> None:
    async def story() -> None:
        box = outbox(Bell(), 100, 10 * BATCH_BYTES)
        for size in (BATCH_BYTES + 1, BATCH_BYTES // 2, BATCH_BYTES // 2, 1):
            box.answer(b"x" * size)
        sizes = [[len(one) for one in await box.take_batch()] for _ in range(3)]
        assert sizes == [[BATCH_BYTES + 1], [BATCH_BYTES // 2, BATCH_BYTES // 2], [1]]
        box.close(1000, "over")
        assert await box.take_batch() == []

    run(story())
