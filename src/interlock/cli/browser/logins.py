"""`interlock logins`: the browsers that are logged in, and their end."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated
from urllib.parse import quote

from cyclopts import Parameter

from interlock.cli import output
from interlock.cli.look.session_lines import age
from interlock.cli.server import options
from interlock.cli.server.api import ServerApi, home_folder, listed
from interlock.cli.wire.routes import LOGINS
from interlock.vocabulary.errors import UsageError

if TYPE_CHECKING:
    from interlock.vocabulary.wire.json_types import LoginLineJson

_MAY = {"observer": "look", "operator": "look and act"}


def ls(*, home: options.HomeOption = None, json: options.JsonFlag = False) -> int:
    """List the browsers that are logged in, the one that was used last first."""
    found = _logins(ServerApi.of_home(home_folder(home)))
    if json:
        output.print_json({"logins": [{**one} for one in found]})
    elif not found:
        output.print_text("no browser is logged in; `interlock open` logs one in")
    else:
        now = datetime.now(UTC)
        rows = [(one["login_id"], one["device"], _MAY[one["role"]], _ago(one["seen_at"], now)) for one in found]
        output.print_table(("LOGIN", "DEVICE", "MAY", "LAST USED"), rows)
    return 0


def revoke(
    login: Annotated[str, Parameter(help="The id of a login, or the beginning of it; or the name of its device.")],
    /,
    *,
    home: options.HomeOption = None,
    json: options.JsonFlag = False,
) -> int:
    """Log a browser out, at once: its page shows nothing more, and can do nothing more."""
    api = ServerApi.of_home(home_folder(home))
    found = [one for one in _logins(api) if one["login_id"].startswith(login) or one["device"] == login]
    if not login or len(found) != 1:
        what = f"{len(found)} logins are called {login!r}" if login and found else f"there is no login {login!r}"
        raise UsageError(what, remedy="take an id of `interlock logins ls`")
    api.ask("DELETE", f"/api/logins/{quote(found[0]['login_id'], safe='')}")
    if json:
        output.print_json({"revoked": {**found[0]}})
    else:
        output.print_text(f"{found[0]['login_id']}  {found[0]['device']} is logged out")
    return 0


def _logins(api: ServerApi) -> list[LoginLineJson]:
    return listed(api.get(LOGINS))


def _ago(at: str, now: datetime) -> str:
    return f"{age(datetime.fromisoformat(at), now)} ago"
