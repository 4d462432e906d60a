"""`interlock open` and `interlock pair`: one-time links by which a browser logs in.

Laws:
1. A link is made by the server, is good once, and for minutes. It is an answer for a person: nothing keeps it.
2. A phone is given no link to an address that it cannot reach.
3. A browser is started only where there is a desktop: never one that takes the terminal over.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from ipaddress import ip_address
from typing import TYPE_CHECKING, Annotated, Final, Literal, cast
from urllib.parse import urlsplit

from cyclopts import Parameter

from interlock.cli import output
from interlock.cli.browser.qr import half_blocks, qr_code
from interlock.cli.server import options
from interlock.cli.server.api import ServerApi, home_folder
from interlock.vocabulary.errors import UsageError

if TYPE_CHECKING:
    from interlock.cli.wire.json_shapes import LoginLinkJson

OPEN_SECONDS: Final = 300
PAIR_SECONDS: Final = 180
_ROLES: Final = {"look": "observer", "act": "operator"}
_ON_WHITE: Final = "38;5;16;48;5;231"
_REMOTE: Final = (
    "name the address of a proxy that speaks https: --url https://NAME; see docs/how-to/open-the-dashboard.md"
)


def open_(
    *,
    browser: Annotated[bool, Parameter(negative="--no-browser", help="Start a browser.")] = True,
    home: options.HomeOption = None,
    json: options.JsonFlag = False,
) -> int:
    """Open the dashboard in a browser on this machine, and log it in.

    The link is good once, for 5 minutes. Without a desktop, or with `--no-browser`, it is only printed.
    """
    told = _link(ServerApi.of_home(home_folder(home)), "operator", "", OPEN_SECONDS)
    is_opened = browser and has_desktop(os.environ, sys.platform) and _start_browser(told["url"])
    if json:
        output.print_json({**told, "is_opened": is_opened})
    elif is_opened:
        output.print_text(f"opened in your browser; if nothing came up:\n{told['url']}")
    else:
        output.print_text(told["url"])
        output.note("open it in a browser on this machine; it is good once, for 5 minutes")
    return 0


def pair(
    *,
    role: Annotated[
        Literal["look", "act"], Parameter(help="`look` only shows; `act` may answer and send, too.")
    ] = "look",
    name: Annotated[str, Parameter(help="How the log names the device, such as phone.")] = "",
    url: Annotated[str, Parameter(help="Where the device reaches this server: http(s)://NAME[:PORT].")] = "",
    home: options.HomeOption = None,
    json: options.JsonFlag = False,
) -> int:
    """Log in a phone or another machine: a one-time link, as a QR code to scan.

    The link is good once, for 3 minutes. `interlock logins ls` lists what is logged in, `logins revoke` ends it.
    """
    api = ServerApi.of_home(home_folder(home))
    base = reachable(url or api.url)
    told = _link(api.called(base), _ROLES[role], name, PAIR_SECONDS)
    if not told["url"].startswith(f"{base}/"):
        raise UsageError(
            f"the server does not know {base} as an address of its own",
            remedy="add it to `allowed_origins` under [server] in the configuration, and start the server again",
        )
    if json:
        output.print_json(told)
        return 0
    modules = qr_code(told["url"])
    if modules is not None:
        output.print_painted([[(line, _ON_WHITE)] for line in _shades(half_blocks(modules))])
    output.print_text(told["url"])
    may = "look and act" if role == "act" else "look"
    output.note(f"scan it, or open it there; it is good once, for 3 minutes, and lets the device {may}")
    return 0


def _shades(lines: list[str]) -> list[str]:
    """Dark as drawn, where there are colours. Without them a dark terminal shows blocks as light: they are turned."""
    if output.wants_colour(sys.stdout):
        return lines
    return [line.translate(str.maketrans(" ▄▀█", "█▀▄ ")) for line in lines]


def reachable(url: str) -> str:
    """Law 2. The address as it stands in a link."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        parts = urlsplit("")
    is_plain = not (parts.path.strip("/") or parts.query or parts.fragment or parts.username)
    if parts.scheme not in ("http", "https") or not parts.hostname or not is_plain:
        raise UsageError(f"{url!r} is no address of a server", remedy="give it as https://box.example")
    if _is_this_machine(parts.hostname):
        raise UsageError(f"{parts.hostname} is reached from this machine only", remedy=_REMOTE)
    return f"{parts.scheme}://{parts.netloc.lower()}"


def _is_this_machine(name: str) -> bool:
    try:
        return ip_address(name).is_loopback or ip_address(name).is_unspecified
    except ValueError:
        return name == "localhost" or name.endswith(".localhost")


def _link(api: ServerApi, role: str, name: str, seconds: int) -> LoginLinkJson:
    told = api.ask("POST", "/api/login/tickets", {"role": role, "name": name, "seconds": seconds})
    return {"url": cast("str", told["url"]), "role": role, "expires_at": cast("str", told["expires_at"])}


def has_desktop(environ: Mapping[str, str], platform: str) -> bool:
    """Law 3. `BROWSER` names one that the user wants."""
    named = environ.get("BROWSER") or environ.get("DISPLAY") or environ.get("WAYLAND_DISPLAY")
    return bool(named) or (platform == "darwin" and not environ.get("SSH_CONNECTION"))


def _start_browser(url: str) -> bool:
    import webbrowser

    try:
        return webbrowser.open(url)
    except (webbrowser.Error, OSError):
        return False
