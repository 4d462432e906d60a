"""One-time tickets and the file of logins, each by its laws."""

from __future__ import annotations

import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from interlock.server.browser.login_store import LOGIN_FILE, MAX_LOGINS, LoginStore
from interlock.server.browser.logins import shown_name
from interlock.server.browser.tickets import BadTicket, Tickets
from interlock.server.http.problems import NotFound, RequestRefusal, TooMany
from interlock.vocabulary.errors import UsageError
from interlock.vocabulary.wire.requests import AccessRole

LOOK, ACT = AccessRole.OBSERVER, AccessRole.OPERATOR


class Clock:
    """Time that a test moves."""

    def __init__(self) -> None:
        self.seconds = 100.0

    def __call__(self) -> float:
        return self.seconds

    def now(self) -> datetime:
        return datetime(2026, 11, 19, tzinfo=UTC) + timedelta(seconds=self.seconds)


def test_a_ticket_is_good_once_and_in_its_time() -> None:
    clock = Clock()
    tickets = Tickets(clock)
    first, second = tickets.issue(ACT, "a phone", 60.0), tickets.issue(LOOK, "", 60.0)
    assert len(first) >= 22  # 128 bits
    assert first != second
    given = tickets.redeem(first, "peer")
    assert (given.role, given.name) == (ACT, "a phone")
    told = []
    clock.seconds += 60.0
    for wrong in (first, second, "never"):
        with pytest.raises(BadTicket) as error:
            tickets.redeem(wrong, "peer")
        told.append(str(error.value))
    assert len(set(told)) == 1


def test_after_ten_failures_a_peer_waits_for_a_minute_and_nobody_else_does() -> None:
    clock = Clock()
    tickets = Tickets(clock)
    good, other = tickets.issue(ACT, "", 300.0), tickets.issue(ACT, "", 300.0)
    for _ in range(10):
        with pytest.raises(BadTicket):
            tickets.redeem("wrong", "peer")
    for given in (good, "wrong"):
        with pytest.raises(TooMany) as error:
            tickets.redeem(given, "peer")
        assert error.value.retry_after_seconds == pytest.approx(60.0)
    assert tickets.redeem(other, "another").role is ACT
    clock.seconds += 60.0
    assert tickets.redeem(good, "peer").role is ACT


def test_there_are_never_many_tickets_and_the_oldest_goes() -> None:
    tickets = Tickets(Clock())
    first, *_, last = [tickets.issue(LOOK, "", 60.0) for _ in range(100)]
    assert len(tickets) <= 64
    with pytest.raises(BadTicket):
        tickets.redeem(first, "peer")
    assert tickets.redeem(last, "peer").role is LOOK


def test_logins_outlive_a_restart_and_the_file_holds_no_cookie(tmp_path: Path) -> None:
    clock, path = Clock(), tmp_path / LOGIN_FILE
    store = LoginStore(path, clock.now)
    assert not path.exists()
    login, value = store.begin(ACT, "a phone")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert value not in path.read_text()
    again = LoginStore(path, clock.now)
    assert again.find([value]) == login
    assert again.find([value + "x"]) is None
    assert again.cookie_name(is_secure=False) == store.cookie_name(is_secure=False)
    assert again.cookie_name(is_secure=False).startswith("interlock-")
    assert again.cookie_name(is_secure=True) == "__Host-interlock"
    again.revoke(login.login_id)
    assert LoginStore(path, clock.now).find([value]) is None
    with pytest.raises(NotFound):
        again.revoke(login.login_id)


def test_a_login_slides_for_thirty_days_and_its_cookie_is_given_again(tmp_path: Path) -> None:
    clock = Clock()
    store = LoginStore(tmp_path / LOGIN_FILE, clock.now)
    login, value = store.begin(LOOK, "a phone")
    assert store.renewal(login, [value], is_secure=False) == ""
    clock.seconds += 29 * 86_400
    found = store.find([value])
    assert found is not None
    header = store.renewal(found, ["other", value], is_secure=False)
    assert header == store.set_cookie(value, is_secure=False)
    assert "; HttpOnly; SameSite=Strict" in header
    assert "Max-Age=2592000" in header
    assert "Secure" not in header
    assert store.set_cookie(value, is_secure=True).endswith("; Secure")
    again = store.find([value])
    assert again is not None
    assert store.renewal(again, [value], is_secure=False) == ""
    clock.seconds += 29 * 86_400
    assert LoginStore(tmp_path / LOGIN_FILE, clock.now).find([value]) is not None
    clock.seconds += 30 * 86_400
    assert store.find([value]) is None
    assert store.logins() == ()


def test_two_good_cookies_are_none_and_a_bad_one_beside_a_good_one_is_harmless() -> None:
    store = LoginStore()
    (one, first), (_, second) = store.begin(ACT, "a"), store.begin(LOOK, "b")
    assert store.find([first, second]) is None
    found = store.find(["tossed", first, first])
    assert found is not None
    assert found.login_id == one.login_id


def test_what_cannot_be_written_down_was_not_made_and_has_ended_here(tmp_path: Path) -> None:
    store = LoginStore(tmp_path / "home" / LOGIN_FILE)
    with pytest.raises(UsageError, match="cannot be written"):
        store.begin(ACT, "a")
    assert store.logins() == ()
    (tmp_path / "home").mkdir()
    login, value = store.begin(ACT, "a")
    (tmp_path / "home").rename(tmp_path / "gone")
    told: list[str] = []
    with store.watching(login, lambda: told.append("over")), pytest.raises(UsageError):
        store.revoke(login.login_id)
    assert store.find([value]) is None
    assert told == ["over"]


def test_the_tickets_of_a_login_end_with_it() -> None:
    tickets = Tickets(lambda: 0.0)
    own, other = (
        tickets.issue(AccessRole.OPERATOR, "a", 60, issued_by="log_1"),
        tickets.issue(AccessRole.OPERATOR, "b", 60),
    )
    tickets.drop_of("log_1")
    with pytest.raises(BadTicket):
        tickets.redeem(own, "127.0.0.1")
    assert tickets.redeem(other, "127.0.0.1").name == "b"


def test_connections_are_told_of_the_end_once_and_at_once_if_it_was_before() -> None:
    store = LoginStore()
    login, _ = store.begin(ACT, "a")
    told: list[str] = []
    with store.watching(None, lambda: told.append("nobody")), store.watching(login, lambda: told.append("first")):
        with store.watching(login, lambda: told.append("gone")):
            pass
        store.revoke(login.login_id)
        assert told == ["first"]
    with store.watching(login, lambda: told.append("late")):
        assert told == ["first", "late"]


def test_there_are_never_too_many_logins() -> None:
    store = LoginStore()
    for _ in range(MAX_LOGINS):
        store.begin(LOOK, "a")
    with pytest.raises(RequestRefusal, match="revoke"):
        store.begin(LOOK, "a")


@pytest.mark.parametrize("held", ["{}", "[]", "", '{"server_id": "x", "logins": [{"login_id": 1}]}'])
def test_a_file_that_is_none_of_ours_is_refused_with_a_remedy(tmp_path: Path, held: str) -> None:
    path = tmp_path / LOGIN_FILE
    path.write_text(held)
    with pytest.raises(UsageError, match="chmod 600"):
        LoginStore(path)
    path.chmod(0o600)
    with pytest.raises(UsageError, match="remove it") as told:
        LoginStore(path)
    assert not held or held not in str(told.value)


def test_a_name_is_made_of_signs_that_are_seen() -> None:
    assert shown_name(" Anna's\tiPhone\x1b[31m\u202e\u200b \n") == "Anna's iPhone [31m"
    assert shown_name("\u200b\x00") == ""
    assert len(shown_name("x" * 200)) == 60
