"""The built web page, out of the package: a map from paths to bytes, made once.

Laws:
1. No path of a request reaches the disk: what is not in the map is not there.
2. A page is `index.html`, whatever session its path names. An asset that is unknown is 404, and never a page.
3. A page may run the scripts and styles of this server, and nothing else; it may not be framed, nor send forms.
"""

from __future__ import annotations

import gzip
import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.resources import files
from typing import Final

from interlock.vocabulary.errors import ContractError

POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
    "connect-src 'self'; manifest-src 'self'; worker-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'; require-trusted-types-for 'script'"
)
INDEX: Final = "index.html"
ASSETS: Final = "/assets/"
_SESSIONS: Final = "/s/"
_PAGES: Final = frozenset({"/", "/new", "/settings", "/login"})
_AT_THE_ROOT: Final = frozenset({"manifest.webmanifest", "sw.js"})
_HASHED: Final = re.compile(r"[A-Za-z0-9_.-]+-[A-Za-z0-9_-]{8,}\.[a-z0-9]+")
_FOR_EVER: Final = "public, max-age=31536000, immutable"
_TYPES: Final[Mapping[str, str]] = {
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "json": "application/json",
    "webmanifest": "application/manifest+json",
    "txt": "text/plain; charset=utf-8",
    "svg": "image/svg+xml",
    "png": "image/png",
    "ico": "image/x-icon",
    "woff2": "font/woff2",
}
_IS_PACKED: Final = frozenset({"png", "ico", "woff2"})
_PAGE_HEADERS: Final = (
    (b"content-security-policy", POLICY.encode()),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"permissions-policy", b""),
)

Headers = list[tuple[bytes, bytes]]


@dataclass(frozen=True)
class WebFile:
    """One file of the built page."""

    name: str
    body: bytes

    @property
    def extension(self) -> str:
        return self.name.rpartition(".")[2]

    @property
    def cache_control(self) -> str:
        if self.name == INDEX:
            return "no-store"
        return _FOR_EVER if _HASHED.fullmatch(self.name) else "no-cache"

    @cached_property
    def etag(self) -> str:
        return f'"{hashlib.sha256(self.body).hexdigest()[:32]}"'

    @cached_property
    def gzipped(self) -> bytes | None:
        """Made when first asked for, and once; None where it would not be smaller."""
        made = None if self.extension in _IS_PACKED else gzip.compress(self.body, 9, mtime=0)
        return made if made is not None and len(made) < len(self.body) else None

    @cached_property
    def headers(self) -> Headers:
        told: Headers = [
            (b"content-type", _TYPES[self.extension].encode()),
            (b"cache-control", self.cache_control.encode()),
            (b"vary", b"Accept-Encoding"),
        ]
        return told + (list(_PAGE_HEADERS) if self.name == INDEX else [(b"etag", self.etag.encode())])


@dataclass(frozen=True, slots=True)
class WebAnswer:
    """An answer, ready to be sent. The body of an answer to HEAD is not."""

    status: int
    headers: Headers
    body: bytes


class WebPages:
    """The files of one build."""

    def __init__(self, found: Iterable[WebFile]) -> None:
        files_by_name = {one.name: one for one in found}
        unknown = sorted(one for one in files_by_name if one.rpartition(".")[2] not in _TYPES)
        if INDEX not in files_by_name or unknown:
            raise ContractError(f"the built page has no {INDEX}, or files of no known kind: {unknown}")
        self._index = files_by_name[INDEX]
        rest = {name: one for name, one in files_by_name.items() if name != INDEX}
        self._by_path = {(f"/{name}" if name in _AT_THE_ROOT else ASSETS + name): one for name, one in rest.items()}
        digests = "".join(f"{name}={files_by_name[name].etag}\n" for name in sorted(files_by_name))
        self.build = hashlib.sha256(digests.encode()).hexdigest()[:16]
        """Which build this is: another one has another word."""

    def find(self, path: str) -> WebFile | None:
        """The file of a path; None: there is none."""
        return self._index if is_page(path) else self._by_path.get(path)


def is_page(path: str) -> bool:
    """Whether a path is one that the page itself reads."""
    return path in _PAGES or (path.startswith(_SESSIONS) and len(path) > len(_SESSIONS))


def is_web_path(path: str) -> bool:
    """Whether a path is of the page or its files, which need no token."""
    return is_page(path) or path.startswith(ASSETS) or path[1:] in _AT_THE_ROOT


def answer_of(found: WebFile, *, accepts: str, known: str) -> WebAnswer:
    """The answer that gives a file. `accepts` and `known` are `Accept-Encoding` and `If-None-Match`."""
    if found.name != INDEX and found.etag in {one.strip().removeprefix("W/") for one in known.split(",")}:
        return WebAnswer(304, found.headers, b"")
    zipped = found.gzipped if _takes_gzip(accepts) else None
    body = found.body if zipped is None else zipped
    encoding: Headers = [] if zipped is None else [(b"content-encoding", b"gzip")]
    return WebAnswer(200, [*found.headers, *encoding, (b"content-length", b"%d" % len(body))], body)


def _takes_gzip(accepts: str) -> bool:
    for one in accepts.lower().split(","):
        name, _, rest = one.partition(";")
        if name.strip() == "gzip":
            return rest.replace(" ", "") not in ("q=0", "q=0.0", "q=0.00", "q=0.000")
    return False


@cache
def built_pages() -> WebPages:
    """The build that this package holds."""
    folder = files("interlock") / "web" / "assets"
    return WebPages(WebFile(one.name, one.read_bytes()) for one in folder.iterdir() if one.is_file())
