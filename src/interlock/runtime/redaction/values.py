"""Which values of an environment are secrets, and how each may be spelled.

Laws:
1. Every value counts, except one that would garble texts without hiding anything: of a name that is known to be
   harmless (`PATH`, `HOME`, `LANG`, `*_DIR`, ...), shorter than `MIN_CHARACTERS`, or a number, a switch, a path, a
   locale, a plain word, or an address without a password, a query and a long part.
2. Where the name tells of a secret (`API_KEY`, `TOKEN`, ...), its shape excuses nothing but a number or a switch; the
   value may be as short as `MIN_NAMED_CHARACTERS`.
3. A value is also known as JSON, a URL and base64 spell it, and by each long line of it.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping
from typing import Final
from urllib.parse import quote, urlsplit

MIN_CHARACTERS: Final = 8
MIN_NAMED_CHARACTERS: Final = 6
_MIN_LINE: Final = 16

_SECRET_NAME: Final = re.compile(
    r"token|secret|passw(?:or)?d|passphrase|credential|api_?-?key|(?:^|_)(?:pass|auth|pat|key|cookie|bearer|dsn)(?:$|_)",
    re.IGNORECASE,
)
# What ends like this tells a place, a number or a choice, also of a secret: TOKEN_FILE, MAX_TOKENS, KEY_ID.
_HARMLESS_END: Final = re.compile(
    r"_(?:PATH|DIR|DIRECTORY|HOME|FOLDER|FILE|SOCK|SOCKET|MODEL|REGION|PROFILE|ENV|MODE|LEVEL|FORMAT|VERSION|LOCALE|"
    r"HOST|PORT|TYPE|SECONDS|MS|TIMEOUT|TOKENS|BUDGET|LIMIT|ENABLED|DISABLED)$"
)
_HARMLESS_NAME: Final = re.compile(
    r"^(?:PATH|HOME|USER|LOGNAME|SHELL|LANG|LANGUAGE|LC_\w+|TERM|TERM_\w+|COLORTERM|TZ|PWD|OLDPWD|TMPDIR|TEMP|TMP|"
    r"EDITOR|VISUAL|PAGER|DISPLAY|WAYLAND_DISPLAY|HOSTNAME|SHLVL|XDG_\w+|VIRTUAL_ENV|NODE_OPTIONS|PYTHON\w+)$"
)
_SWITCH: Final = re.compile(r"^(?:[\d.,:+-]+|true|false|yes|no|on|off|null|none|\*+)$", re.IGNORECASE)
_PLAIN: Final = re.compile(r"^(?:[A-Za-z]{1,16}|[a-z]{2}_[A-Z]{2}(?:\.[\w-]+)?)$")
_PATH: Final = re.compile(r"^(?:~|\.{0,2}/)[^\n]*$")
_LONG_SEGMENT: Final = re.compile(r"[A-Za-z0-9_-]{20,}")


def secret_values(environment: Mapping[str, str]) -> frozenset[str]:
    """Every spelling of every secret value."""
    return spellings(value for name, value in environment.items() if is_secret(name, value.strip()))


def named_secrets(environment: Mapping[str, str]) -> frozenset[str]:
    """The same for an environment that nobody wrote for an agent, such as our own: only names that tell count."""
    return secret_values({name: value for name, value in environment.items() if _SECRET_NAME.search(name)})


def is_secret(name: str, value: str) -> bool:
    """Laws 1 and 2."""
    if _SWITCH.match(value) or _HARMLESS_NAME.match(name) or _HARMLESS_END.search(name):
        return False
    if _SECRET_NAME.search(name):
        return len(value) >= MIN_NAMED_CHARACTERS
    return len(value) >= MIN_CHARACTERS and not _has_harmless_shape(value)


def _has_harmless_shape(value: str) -> bool:
    return bool(_PLAIN.match(value) or _PATH.match(value)) or _is_public_url(value)


def _is_public_url(value: str) -> bool:
    try:
        parts = urlsplit(value)
        is_url = bool(parts.scheme and parts.hostname) and value.count("://") == 1
    except ValueError:
        return False
    return is_url and not parts.username and not parts.query and not _LONG_SEGMENT.search(parts.path)


def spellings(values: Iterable[str]) -> frozenset[str]:
    """Law 3."""
    return frozenset(spelled for value in values if value.strip() for spelled in _spellings(value.strip()))


def _spellings(value: str) -> Iterator[str]:
    yield value
    yield json.dumps(value)[1:-1]
    yield json.dumps(value, ensure_ascii=False)[1:-1]
    yield quote(value, safe="")
    yield b64encode(value.encode("utf-8", "surrogatepass")).decode("ascii").rstrip("=")
    if "\n" in value:
        yield from (line.strip() for line in value.split("\n") if len(line.strip()) >= _MIN_LINE)
