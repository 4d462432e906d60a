"""A board for tests: over a real server with puppets, or over a server whose every word a test decides."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Final

from textual.events import Key, Paste
from textual.pilot import Pilot

from interlock.agents.observations import ApprovalAsked, ApprovalOption, OptionKind, ToolCalled
from interlock.cli.look.session_lines import shown_of
from interlock.cli.server.api import ServerApi
from interlock.cli.top.app import TopApp
from interlock.cli.top.following import FRAME_SECONDS
from interlock.client.client import Client
from interlock.client.timeouts import ClientTimeouts
from interlock.log.memory import MemoryLog
from interlock.log.port import Log
from interlock.runtime.runtime import Runtime
from interlock.server.http.access import Tokens
from interlock.server.serving import Running, bind, running
from interlock.server.settings import ServerSettings
from interlock.testing.puppet import EVERYTHING, Puppet, PuppetDriver
from interlock.vocabulary.states import Attention
from interlock.vocabulary.wire.requests import AccessRole
from tests.client.waiting import QUICK, until

FRAMES: Final = 300
SIZES: Final = ((80, 24), (120, 36))
TOKENS: Final = Tokens("operator-token-for-the-board-tests", "observer-token-for-the-board-tests")
YES_NO: Final = (
    ApprovalOption(id="y", label="Yes", kind=OptionKind.ALLOW_ONCE),
    ApprovalOption(id="w", label="Yes, always", kind=OptionKind.ALLOW_ALWAYS),
    ApprovalOption(id="n", label="No", kind=OptionKind.REJECT_ONCE),
)
COLOURS: Final = tuple(ApprovalOption(id=word, label=word) for word in ("red", "green", "blue"))


def screen_text(app: TopApp) -> str:
    """What a person reads."""
    return "\n".join(strip.text.rstrip() for strip in app.screen._compositor.render_strips())


@dataclass
class Seat:
    """A person before a board."""

    app: TopApp
    pilot: Pilot[int]

    @property
    def text(self) -> str:
        return screen_text(self.app)

    async def sees(self, *words: str) -> str:
        """Wait until all of these are on the screen."""
        return await self.reads(lambda text: all(word in text for word in words), f"{words} are not on the screen")

    async def misses(self, *words: str) -> str:
        """Wait until none of these is on the screen."""
        return await self.reads(
            lambda text: not any(word in text for word in words), f"{words} are still on the screen"
        )

    async def reads(self, is_right: Callable[[str], bool], otherwise: str) -> str:
        """Read the screen, once a frame, until it is right."""
        text = ""
        for _ in range(FRAMES):
            text = self.text
            if is_right(text):
                return text
            await asyncio.sleep(FRAME_SECONDS)
        raise AssertionError(f"{otherwise}:\n{text}")

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)

    def bursts(self, *keys: str) -> None:
        """These keys, all before the board has taken up the first."""
        for key in keys:
            self.app.post_message(Key(key, key if len(key) == 1 else None))

    async def types(self, text: str) -> None:
        """The first character by its key, and the rest at once: each key costs a redraw."""
        await self.pilot.press(text[0])
        if text[1:]:
            self.app.post_message(Paste(text[1:]))
            await self.pilot.pause()

    async def selects(self, name: str) -> None:
        """Wait until a session of that title is selected, and its room is joined."""
        app = self.app
        await until(lambda: app.called == name and app.selected is not None and app.selected.state is not None, name)

    async def needs(self, *titles: str) -> None:
        """Wait until these need a person, and no others: how many do is also true of another one a moment before."""

        def waiting() -> tuple[object, ...]:
            return tuple(one["title"] for one in self.app.arranged.tasks if shown_of(one).needs_person)

        await until(lambda: waiting() == titles, str(titles))
        await self.is_drawn()

    async def is_asked(self, question: str) -> None:
        """Wait until a question is the one that keys answer."""
        app = self.app
        await until(lambda: app.question is not None and app.question["question"] == question, question)
        await self.is_drawn()

    async def is_drawn(self) -> None:
        """Wait until all that is known now is on the screen."""
        redraws = self.app.redraws
        self.app.mark()
        await until(lambda: self.app.redraws > redraws)
        await self.pilot.pause()


@asynccontextmanager
async def seated(
    client: Client,
    api: Callable[[], ServerApi],
    size: tuple[int, int],
    **more: Any,  # noqa: ANN401  # options of the board
) -> AsyncIterator[Seat]:
    app = TopApp(client, api, **{"grace_seconds": 0.0, **more})
    async with app.run_test(size=size) as pilot:
        yield Seat(app, pilot)


@dataclass
class House:
    """A server that can be ended and begun again over the same log, at the same port. Its agents outlive it."""

    log: Log = field(default_factory=MemoryLog)
    driver: PuppetDriver = field(default_factory=lambda: PuppetDriver(replace(EVERYTHING, outlives_runtime=True)))
    port: int = 0
    role: AccessRole = AccessRole.OPERATOR
    records_workspaces: bool = False

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def token(self) -> str:
        return TOKENS.operator if self.role is AccessRole.OPERATOR else TOKENS.observer

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[Running]:
        settings = ServerSettings(port=self.port, requests_per_second=10_000.0, closing_seconds=2.0)
        with bind(settings) as listening:
            self.port = listening.getsockname()[1]
            async with (
                Runtime(self.log, [self.driver], records_workspaces=self.records_workspaces) as runtime,
                running(runtime, self.log, TOKENS, settings, listening) as server,
            ):
                yield server

    def client(self, patience: ClientTimeouts = QUICK) -> Client:
        return Client(self.url, token=self.token, patience=patience)

    def api(self) -> ServerApi:
        return ServerApi(self.url, self.token)

    @asynccontextmanager
    async def board(self, size: tuple[int, int] = SIZES[0], **more: Any) -> AsyncIterator[Seat]:  # noqa: ANN401
        async with seated(self.client(), self.api, size, **more) as seat:
            yield seat

    async def open(
        self, title: str, prompt: str | None = None, *, agent: str = "puppet", cwd: str = "/"
    ) -> Puppet | None:
        """A session, with its puppet where it was sent a prompt."""
        body = {"agent": agent, "driver": self.driver.name, "title": title, "cwd": cwd, "prompt": prompt}
        api = ServerApi(self.url, TOKENS.operator)
        await asyncio.to_thread(api.ask, "POST", "/api/tasks", body, key=f"ses_{title.split()[0]}")
        if prompt is None:
            return None
        return await until(lambda: self.puppet(prompt), f"the puppet of {title}")

    def puppet(self, prompt: str) -> Puppet | None:
        """The puppet that was sent this."""
        return next((one for one in self.driver.puppets if any(sent.text == prompt for sent in one.prompts)), None)

    async def asking(
        self,
        title: str,
        question: str = "May I?",
        *,
        options: tuple[ApprovalOption, ...] = YES_NO,
        **more: Any,  # noqa: ANN401  # fields of the question
    ) -> Puppet:
        """A session that asks something."""
        puppet = await self.open(title, f"prompt of {title}")
        assert puppet is not None
        attention = Attention.QUESTION if options in (COLOURS, ()) else Attention.APPROVAL
        if "name" in more:
            more["call_id"] = "c1"
            puppet.say(ToolCalled(call_id="c1", name=more["name"], args=more["args"]))
        puppet.say(
            ApprovalAsked(
                **{"request_id": "r1", "question": question, "options": options, "attention": attention, **more}
            )
        )
        return puppet
