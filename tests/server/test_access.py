"""The door: names, origins, tokens, roles and rates, each by its table; and the file that tokens are kept in."""

from __future__ import annotations

import hmac
import os
import stat
from pathlib import Path
from typing import Final

import msgspec
import pytest

from interlock.server.http.access import AccessRequest, Buckets, Caller, Entrance, Tokens, given_token, needed_role
from interlock.server.http.problems import Forbidden, RequestRefusal, TooMany, Unauthenticated, WrongHost, WrongOrigin
from interlock.server.settings import ServerSettings
from interlock.server.token_file import TOKEN_FILE
from interlock.vocabulary.errors import UsageError
from interlock.vocabulary.wire.requests import AccessRole

OPERATOR: Final = "o" * 40
OBSERVER: Final = "v" * 40


class Clock:
    """Time that a test moves."""

    def __init__(self) -> None:
        self.seconds = 100.0

    def __call__(self) -> float:
        return self.seconds


def entrance(clock: Clock | None = None, **settings: object) -> Entrance:
    made = msgspec.convert(settings, ServerSettings)
    return Entrance(Tokens(OPERATOR, OBSERVER), made, clock or Clock())


def asked(
    *,
    method: str = "GET",
    path: str = "/api/tasks",
    host: str | None = "localhost:8000",
    token: str | None = OPERATOR,
    is_socket: bool = False,
    headers: tuple[tuple[str, str], ...] = (),
    subprotocols: tuple[str, ...] = (),
    peer: str = "127.0.0.1",
) -> AccessRequest:
    own = [("host", host)] if host is not None else []
    own += [("authorization", f"Bearer {token}")] if token is not None else []
    return AccessRequest(
        is_socket=is_socket,
        method=method,
        path=path,
        scheme="ws" if is_socket else "http",
        headers=[*own, *headers],
        peer=peer,
        subprotocols=subprotocols,
    )


# Names

OURS = ("localhost", "LOCALHOST:1", "127.0.0.1", "127.0.0.1:80", "[::1]", "[::1]:65535")
NOT_OURS = (
    "evil.example",
    "evil.example:8000",
    "localhost.evil.example",
    "localhost.",
    "127.0.0.1.nip.io",
    "127.0.0.2",
    "0.0.0.0",
    "[::]",
    "[::1",
    "",
    ":80",
    "user@localhost",
    "localhost/path",
    "localhost?x",
    "localhost:99999",
    "localhost:port",
    "127.1",
)


@pytest.mark.parametrize("host", OURS)
def test_names_of_loopback_are_ours(host: str) -> None:
    assert entrance().admit(asked(host=host)).role is AccessRole.OPERATOR


@pytest.mark.parametrize("host", NOT_OURS)
def test_other_names_are_not(host: str) -> None:
    with pytest.raises(WrongHost):
        entrance().admit(asked(host=host))


@pytest.mark.parametrize("path", ["/api/tasks", "/health", "/docs"])
def test_no_name_and_two_names_are_not_ours_on_any_path(path: str) -> None:
    with pytest.raises(WrongHost):
        entrance().admit(asked(host=None, path=path))
    with pytest.raises(WrongHost):
        entrance().admit(asked(path=path, headers=(("host", "localhost"),)))


def test_a_name_may_be_allowed_and_the_one_that_is_served_is() -> None:
    door = entrance(allowed_hosts=["Box.example", "other.example:9000"], host="192.0.2.7")
    for host in ("box.example", "box.example:1", "other.example:9000", "192.0.2.7:8000"):
        door.admit(asked(host=host))
    for host in ("other.example:1", "evil.example"):
        with pytest.raises(WrongHost):
            door.admit(asked(host=host))


@pytest.mark.parametrize("host", ["0.0.0.0", "::", ""])
def test_a_wildcard_is_nobodys_name(host: str) -> None:
    with pytest.raises(WrongHost):
        entrance(host=host).admit(asked(host="0.0.0.0:80"))


# Origins

SAME = (
    ("localhost:8000", "http://localhost:8000"),
    ("LocalHost:8000", "http://localhost:8000"),
    ("localhost", "http://localhost:80"),
    ("localhost:80", "http://localhost"),
    ("[::1]:8000", "http://[::1]:8000"),
)
OTHER = (
    ("localhost:8000", "http://localhost:8001"),
    ("localhost:8000", "http://127.0.0.1:8000"),
    ("localhost:8000", "https://localhost:8000"),
    ("localhost:8000", "http://evil.example"),
    ("localhost:8000", "http://localhost:8000.evil.example"),
    ("localhost:8000", "http://localhost:8000/"),
    ("localhost:8000", "http://user@localhost:8000"),
    ("localhost:8000", "null"),
    ("localhost:8000", ""),
    ("localhost:8000", "file://"),
    ("localhost:8000", "localhost:8000"),
    ("localhost:80", "ftp://localhost:80"),
)


@pytest.mark.parametrize("is_socket", [False, True])
@pytest.mark.parametrize(("host", "origin"), SAME)
def test_a_page_of_ours_may_ask(host: str, origin: str, is_socket: bool) -> None:
    entrance().admit(asked(host=host, headers=(("origin", origin),), is_socket=is_socket))


@pytest.mark.parametrize("is_socket", [False, True])
@pytest.mark.parametrize(("host", "origin"), OTHER)
def test_a_page_of_others_may_not(host: str, origin: str, is_socket: bool) -> None:
    with pytest.raises(WrongOrigin):
        entrance().admit(asked(host=host, headers=(("origin", origin),), is_socket=is_socket))


def test_an_origin_may_be_allowed_and_two_are_none() -> None:
    door = entrance(allowed_origins=["https://board.example"])
    door.admit(asked(headers=(("origin", "https://board.example"),)))
    with pytest.raises(WrongOrigin):
        door.admit(asked(headers=(("origin", "https://board.example"), ("origin", "https://board.example"))))
    with pytest.raises(WrongOrigin):
        door.admit(asked(headers=(("origin", "https://board.example:444"),)))


# Tokens and roles


def test_roles_by_token() -> None:
    tokens = Tokens(OPERATOR, OBSERVER)
    assert tokens.role_of(OPERATOR) is AccessRole.OPERATOR
    assert tokens.role_of(OBSERVER) is AccessRole.OBSERVER
    for wrong in ("", OPERATOR[:-1], OPERATOR + "o", OPERATOR.upper(), OPERATOR + OBSERVER, "\ud800", "é"):
        assert tokens.role_of(wrong) is None
    assert OPERATOR not in repr(tokens)


@pytest.mark.parametrize("given", [OPERATOR, OBSERVER, "wrong", ""])
def test_every_token_is_compared_in_constant_time_whichever_it_is(given: str, monkeypatch: pytest.MonkeyPatch) -> None:
    tokens, compare, lengths = Tokens(OPERATOR, OBSERVER), hmac.compare_digest, list[int]()

    def counted(a: bytes, b: bytes) -> bool:
        lengths.append(len(b))
        return compare(a, b)

    monkeypatch.setattr(hmac, "compare_digest", counted)
    tokens.role_of(given)
    assert lengths == [32, 32]


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "FOO"])
def test_looking_is_for_observers_and_acting_for_operators(method: str) -> None:
    door = entrance()
    assert door.admit(asked(token=OBSERVER)) == Caller(role=AccessRole.OBSERVER, who="observer@127.0.0.1")
    assert door.admit(asked(token=OPERATOR, method=method)).who == "operator@127.0.0.1"
    with pytest.raises(Forbidden):
        door.admit(asked(token=OBSERVER, method=method))
    with pytest.raises(Unauthenticated):
        door.admit(asked(token=None, method=method))
    with pytest.raises(Unauthenticated):
        door.admit(asked(token="x" * 40, method=method))


@pytest.mark.parametrize("path", ["/health", "/docs", "/api/openapi.json"])
def test_open_paths_need_nobody_and_only_as_they_are_spelled(path: str) -> None:
    assert entrance().admit(asked(token=None, path=path)).role is None
    for other in (path + "/", path + "/x", "/" + path, path.upper(), path + "%2f"):
        with pytest.raises(Unauthenticated):
            entrance().admit(asked(token=None, path=other))
    with pytest.raises(Unauthenticated):
        entrance().admit(asked(token=None, path=path, is_socket=True))


def test_a_socket_only_looks_until_it_commands() -> None:
    assert needed_role(asked(is_socket=True)) is AccessRole.OBSERVER


TOKEN_TABLE: tuple[tuple[AccessRequest, str | None], ...] = (
    (asked(token="abc"), "abc"),
    (asked(token=None), None),
    (asked(token=None, headers=(("authorization", "bearer abc"),)), "abc"),
    (asked(token=None, headers=(("authorization", "Basic abc"),)), ""),
    (asked(token=None, headers=(("authorization", "abc"),)), ""),
    (asked(token="abc", headers=(("authorization", "Bearer abc"),)), ""),
    (asked(token=None, is_socket=True, subprotocols=("interlock.v1", "interlock.token.abc")), "abc"),
    (asked(token=None, is_socket=True, subprotocols=("interlock.token.abc", "interlock.token.def")), ""),
    (asked(token=None, is_socket=True, subprotocols=("interlock.v1",)), None),
    (asked(token=None, is_socket=False, subprotocols=("interlock.token.abc",)), None),
    (asked(token="first", is_socket=True, subprotocols=("interlock.token.abc",)), "first"),
)


@pytest.mark.parametrize(("given", "token"), TOKEN_TABLE)
def test_where_a_token_may_be(given: AccessRequest, token: str | None) -> None:
    assert given_token(given) == token


# Rates


def test_a_bucket_empties_and_fills_again() -> None:
    clock = Clock()
    buckets = Buckets(2.0, 3, clock)
    assert [buckets.take("a") for _ in range(3)] == [0.0, 0.0, 0.0]
    assert buckets.take("a") == pytest.approx(0.5)
    assert buckets.take("b") == 0.0
    clock.seconds += 0.5
    assert buckets.take("a") == 0.0
    assert buckets.take("a") == pytest.approx(0.5)
    clock.seconds += 1000
    assert [buckets.take("a") > 0 for _ in range(4)] == [False, False, False, True]


def test_there_are_never_too_many_buckets_and_the_last_used_stay() -> None:
    buckets = Buckets(1.0, 1, Clock())
    buckets.take("mine")
    for number in range(10_000):
        buckets.take(number)
        buckets.take("mine")
    assert len(buckets) <= 4_096
    assert buckets.take("mine") > 0


def test_strangers_use_up_no_rate_but_their_own() -> None:
    door = entrance(requests_per_second=1.0, request_burst=3)
    for _ in range(3):
        with pytest.raises(Unauthenticated):
            door.admit(asked(token="wrong"))
    with pytest.raises(TooMany) as told:
        door.admit(asked(token="another wrong one"))
    assert told.value.retry_after_seconds == pytest.approx(1.0)
    door.admit(asked(token=OPERATOR))
    door.admit(asked(token=OBSERVER))
    door.admit(asked(token=None, path="/health", peer="127.0.0.9"))


def test_the_order_of_refusals_tells_nobody_more_than_they_may_know() -> None:
    evil = (("origin", "http://evil.example"),)
    steps: list[tuple[AccessRequest, type[RequestRefusal]]] = [
        (asked(host="evil.example", headers=evil, token=None, method="POST"), WrongHost),
        (asked(headers=evil, token=None, method="POST"), WrongOrigin),
        (asked(token=None, method="POST"), Unauthenticated),
        (asked(token=OBSERVER, method="POST"), Forbidden),
    ]
    for given, refusal in steps:
        with pytest.raises(refusal):
            entrance().admit(given)


# The file


def test_the_file_is_made_once_for_its_owner_alone(tmp_path: Path) -> None:
    home = tmp_path / "a" / "home"
    first = Tokens.load_or_create(home)
    path = home / TOKEN_FILE
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(home.stat().st_mode) == 0o700
    again = Tokens.load_or_create(home)
    assert (first.operator, first.observer) == (again.operator, again.observer)
    assert first.operator != first.observer
    assert len(first.operator) >= 43
    assert [one.name for one in home.iterdir()] == [TOKEN_FILE]


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o602, 0o610, 0o644])
def test_a_file_that_others_may_touch_is_refused_with_the_command_that_mends_it(tmp_path: Path, mode: int) -> None:
    Tokens.load_or_create(tmp_path)
    path = tmp_path / TOKEN_FILE
    path.chmod(mode)
    with pytest.raises(UsageError, match=f"chmod 600 {path}"):
        Tokens.load_or_create(tmp_path)


def test_a_symlink_a_folder_and_nonsense_are_refused(tmp_path: Path) -> None:
    path = tmp_path / TOKEN_FILE
    target = tmp_path / "elsewhere"
    path.symlink_to(target)
    with pytest.raises(UsageError, match="symlink"):
        Tokens.load_or_create(tmp_path)
    assert not target.exists()
    path.unlink()
    path.mkdir(mode=0o700)
    with pytest.raises(UsageError, match="not a plain file"):
        Tokens.load_or_create(tmp_path)
    path.rmdir()
    os.mkfifo(path, 0o600)
    with pytest.raises(UsageError, match="not a plain file"):
        Tokens.load_or_create(tmp_path)
    path.unlink()
    same = {"operator": "s" * 40, "observer": "s" * 40}
    short = {"operator": "secret-but-short", "observer": "s" * 40}
    for wrong in (b"", b"{", msgspec.json.encode(same), msgspec.json.encode(short), b'{"operator":"s s"}'):
        path.write_bytes(wrong)
        path.chmod(0o600)
        with pytest.raises(UsageError) as told:
            Tokens.load_or_create(tmp_path)
        assert "secret" not in str(told.value)


def test_of_two_that_make_the_file_at_once_one_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Tokens] = []
    link = os.link

    def late(source: Path, target: Path) -> None:
        if not made:
            made.append(Tokens("x" * 40, "y" * 40))
            monkeypatch.setattr(os, "link", link)
            made[0] = Tokens.load_or_create(tmp_path)
        link(source, target)

    monkeypatch.setattr(os, "link", late)
    second = Tokens.load_or_create(tmp_path)
    assert second.operator == made[0].operator
