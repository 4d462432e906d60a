"""The real thing: the server as a process, killed again and again, agents as processes, a bad network in between.

After it has healed every client stands where the server stands; no prompt that was acknowledged is lost or doubled, and
no process is left.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import msgspec
import pytest
from websockets.asyncio.client import connect

from interlock.client.client import Client
from interlock.client.errors import Refusal
from interlock.client.machine.state import Digest, digest_of
from interlock.client.task import TaskHandle
from interlock.client.timeouts import ClientTimeouts
from interlock.client.transport.discovery import TOKEN_FILE
from interlock.testing.chaos_proxy import ChaosProxy, ProxyFault, ProxyWeather, Way
from interlock.testing.scripted_agent import command, write_program
from interlock.vocabulary.errors import Unreachable
from interlock.vocabulary.ids import PromptId, SessionId
from interlock.vocabulary.states import TaskStatus
from interlock.vocabulary.wire.frames import MessageStatus, Role, TaskSnapshot
from interlock.vocabulary.wire.requests import ServerFrame, TaskJoin, TaskJoined
from tests.client.waiting import until
from tests.contract.harness import run

TASKS = tuple(SessionId(f"ses_{number}") for number in range(3))
CLIENTS = 8
KILLS = 4
PROMPTS_A_CLIENT = 5
SQUALL = ProxyWeather(delay=0.2, pause=0.02, close=0.01, reset=0.01, silence=0.005, cut=0.01, refuse=0.1)
PATIENCE = ClientTimeouts(
    open_seconds=2.0, answer_seconds=2.0, command_seconds=1.0, first_delay_seconds=0.05, max_delay_seconds=0.5
)


@dataclass
class House:
    """A home, the server that runs in it, and the agents' program."""

    home: Path
    program: str
    port: int = 0
    process: asyncio.subprocess.Process | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def token(self) -> str:
        return str(msgspec.json.decode((self.home / TOKEN_FILE).read_bytes())["operator"])

    async def start(self) -> None:
        with (self.home / "stderr").open("ab") as errors:
            self.process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "interlock.server", "--home", str(self.home), "--port", str(self.port)),
                stdout=asyncio.subprocess.PIPE,
                stderr=errors,
            )
        assert self.process.stdout is not None
        line = await self.process.stdout.readline()
        assert line, (self.home / "stderr").read_text()[-2000:]
        self.port = int(msgspec.json.decode(line)["url"].rpartition(":")[2])

    async def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        await self.process.wait()

    async def end(self) -> int:
        assert self.process is not None
        self.process.terminate()
        return await self.process.wait()

    def left(self) -> list[str]:
        """What still runs and has our folder in its command."""
        found = []
        for one in Path("/proc").iterdir():
            if one.name.isdigit() and int(one.name) != os.getpid():
                with suppress(OSError):
                    spoken = (one / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                    if str(self.home) in spoken:
                        found.append(spoken)
        return found


@asynccontextmanager
async def house() -> AsyncIterator[House]:
    with tempfile.TemporaryDirectory(prefix="ilk-") as folder:
        home = Path(folder)
        (home / "work").mkdir()  # nothing changes there: a record of changes has a version and no frame
        program = write_program(home / "agent", command("stream-json", ledger=home / "ledger"))
        here = House(home, program)
        await here.start()
        try:
            yield here
        finally:
            if here.process is not None and here.process.returncode is None:
                await here.kill()


@dataclass
class Sender:
    """One client, what it was told was taken, and what nobody answered for."""

    client: Client
    chance: Random
    acknowledged: list[tuple[SessionId, PromptId]] = field(default_factory=list)

    async def work(self, number: int) -> None:
        """Send some prompts. Whatever is not answered is asked again, with the same id, until it is."""
        for count in range(PROMPTS_A_CLIENT):
            await asyncio.sleep(self.chance.random() * 1.5)  # so that some are under way whenever the server dies
            task = self.client.task(self.chance.choice(TASKS))
            prompt_id = PromptId(f"prm_{number}_{count}")
            await insist(task, f"pace 0.02; words 8; say for {prompt_id}", prompt_id)
            self.acknowledged.append((task.task_id, prompt_id))


async def insist(task: TaskHandle, text: str, prompt_id: PromptId) -> None:
    while True:
        try:
            await task.send(text, prompt_id=prompt_id)
        except Unreachable:
            await asyncio.sleep(0.05)
        except Refusal as refused:
            if refused.code != "not_supervised":
                raise
            with suppress(Unreachable):
                await task.start()
        else:
            return


async def snapshot_of(house: House, task_id: SessionId) -> TaskSnapshot:
    """Where the server stands, asked by nobody's machine."""
    async with connect(
        f"ws://127.0.0.1:{house.port}/api/socket",
        additional_headers={"Authorization": f"Bearer {house.token}"},
        proxy=None,
    ) as socket:
        await socket.send(msgspec.json.encode(TaskJoin(id="r1", task_id=task_id)).decode())
        async for data in socket:
            frame = msgspec.json.decode(data, type=ServerFrame)
            if isinstance(frame, TaskJoined):
                return frame.snapshot
    raise AssertionError("the server did not answer")


async def rested(house: House) -> dict[SessionId, TaskSnapshot]:
    """What the server says once nothing waits and nothing runs."""
    async with asyncio.timeout(100), Client(house.url, token=house.token, patience=PATIENCE) as client:
        for task_id in TASKS:
            await client.task(task_id).start()
        while True:
            found = {task_id: await snapshot_of(house, task_id) for task_id in TASKS}
            if all(is_at_rest(one) for one in found.values()):
                return found
            await asyncio.sleep(0.05)


def is_at_rest(snapshot: TaskSnapshot) -> bool:
    ended = (TaskStatus.COMPLETED, TaskStatus.FAILED, TaskStatus.CANCELLED)
    return snapshot.task_status in ended and not snapshot.queue.waiting and snapshot.stream is None


async def storm(house: House, proxy: ChaosProxy, chance: Random) -> None:
    """Kill the server while it works, and start it again, with blows to the network in between."""
    for _ in range(KILLS):
        await asyncio.sleep(0.3 + chance.random())
        proxy.strike(chance.choice((ProxyFault.RESET, ProxyFault.SILENCED, ProxyFault.CLOSED)))
        await asyncio.sleep(chance.random() * 0.5)
        proxy.pause(Way.TO_CLIENT)  # what is asked now is done, and the answer dies with the server
        await asyncio.sleep(0.2 + chance.random() * 0.5)
        await house.kill()
        proxy.resume(Way.TO_CLIENT)
        await asyncio.sleep(chance.random() * 0.3)
        await house.start()


def digests(sender: Sender) -> dict[SessionId, Digest]:
    return {task_id: sender.client.task(task_id).state.digest() for task_id in TASKS}


def check_prompts(senders: list[Sender], truth: dict[SessionId, TaskSnapshot]) -> None:
    asked = Counter(
        (task_id, message.prompt_id)
        for task_id, snapshot in truth.items()
        for message in snapshot.messages
        if message.role is Role.USER
    )
    acknowledged = [one for sender in senders for one in sender.acknowledged]
    assert len(acknowledged) == CLIENTS * PROMPTS_A_CLIENT
    assert asked == Counter(acknowledged), "each prompt that was taken has one turn, and there are no others"


def check_transcripts(sender: Sender, truth: dict[SessionId, TaskSnapshot]) -> None:
    """What is read is what the server has, and of text that broke off no second copy of what it kept."""
    for task_id, snapshot in truth.items():
        kept = {one.turn_id for one in snapshot.messages if one.role is Role.ANSWER}
        shown = sender.client.task(task_id).messages
        assert [one for one in shown if one.status is not MessageStatus.INTERRUPTED] == list(snapshot.messages)
        assert not [one for one in shown if one.status is MessageStatus.INTERRUPTED and one.turn_id in kept]


@pytest.mark.deep
@pytest.mark.parametrize("seed", [1, 2])
def test_eight_clients_a_bad_network_and_a_server_that_is_killed(seed: int) -> None:
    async def story() -> None:
        chance = Random(seed)
        async with house() as here, ChaosProxy(("127.0.0.1", here.port), seed=seed) as proxy:
            url = f"http://127.0.0.1:{proxy.port}"
            senders = [
                Sender(Client(url, token=here.token, patience=PATIENCE), Random(f"{seed}:{number}"))
                for number in range(CLIENTS)
            ]
            try:
                for task_id in TASKS:
                    await senders[0].client.open_task(
                        agent="scripted",
                        driver="claude-stream",
                        argv=(here.program,),
                        cwd=here.home / "work",
                        task_id=task_id,
                    )
                for sender in senders:
                    for task_id in TASKS:
                        sender.client.task(task_id)
                proxy.weather = SQUALL
                working = [asyncio.create_task(sender.work(number)) for number, sender in enumerate(senders)]
                await storm(here, proxy, chance)
                proxy.heal()
                await asyncio.gather(*working)
                truth = await rested(here)
                wanted = {task_id: digest_of(snapshot) for task_id, snapshot in truth.items()}
                await until(lambda: all(digests(one) == wanted for one in senders), "the server's state", 30)
                for sender in senders:
                    check_transcripts(sender, truth)
                check_prompts(senders, truth)
                assert proxy.counts[ProxyFault.UNREACHABLE] + proxy.counts[ProxyFault.RESET] > 0, (
                    "nothing went wrong at all"
                )
            finally:
                for sender in senders:
                    await sender.client.close()
            assert await here.end() == 0
            await until(lambda: not here.left(), f"the end of {here.left()}")

    run(story(), 150)
