"""The built page: what is served of it, under which headers, and that no path leads anywhere else."""

from __future__ import annotations

import asyncio
import gzip
from contextlib import suppress

import pytest

from interlock.server.browser import pages
from interlock.server.browser.pages import WebFile, WebPages, answer_of, built_pages
from interlock.vocabulary.errors import ContractError
from tests.contract.harness import run
from tests.server.http_harness import OBSERVER, house, problem

SCRIPT = WebFile("app-Ab12cd34.js", b"console.log(1);\n" * 100)
BUILD = WebPages(
    (
        WebFile("index.html", b"<!doctype html><title>a page</title>"),
        SCRIPT,
        WebFile("icon.png", b"\x89PNG" + bytes(200)),
        WebFile("manifest.webmanifest", b'{"name": "Interlock"}'),
        WebFile("sw.js", b"self.skipWaiting();"),
    )
)
SPELLED = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
    "connect-src 'self'; manifest-src 'self'; worker-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'; require-trusted-types-for 'script'"
)
PAGES = ("/", "/new", "/settings", "/login", "/s/ses_01", "/s/ses_01/q/ap_1", "/s/..", "/s/%2e%2e/x")


@pytest.fixture
def _build(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("interlock.server.http.app.built_pages", lambda: BUILD)


@pytest.mark.usefixtures("_build")
def test_every_page_is_the_index_for_anybody_under_a_strict_policy() -> None:
    async def story() -> None:
        async with house() as server:
            for path in PAGES:
                answer = await server.stranger.get(path)
                assert (answer.status_code, answer.content) == (200, b"<!doctype html><title>a page</title>"), path
                assert answer.headers["content-type"] == "text/html; charset=utf-8"
                assert answer.headers["cache-control"] == "no-store"
                assert answer.headers.get_list("content-security-policy") == [SPELLED]
                assert answer.headers["cross-origin-opener-policy"] == "same-origin"
                assert answer.headers["permissions-policy"] == ""
                assert answer.headers["x-content-type-options"] == "nosniff"
                assert answer.headers["referrer-policy"] == "no-referrer"
                head = await server.stranger.head(path)
                assert (head.status_code, head.content) == (200, b"")
            api = await server.observer.get("/api/server")
            assert api.headers["content-security-policy"] == "default-src 'none'; frame-ancestors 'none'"

    run(story())


@pytest.mark.usefixtures("_build")
def test_assets_are_kept_for_ever_by_their_hash_and_zipped_once() -> None:
    async def story() -> None:
        async with house() as server:
            answer = await server.stranger.get("/assets/app-Ab12cd34.js")
            assert answer.content == SCRIPT.body
            assert answer.headers["content-encoding"] == "gzip"
            assert answer.headers["vary"] == "Accept-Encoding"
            assert answer.headers["cache-control"] == "public, max-age=31536000, immutable"
            assert answer.headers["content-type"] == "text/javascript; charset=utf-8"
            assert int(answer.headers["content-length"]) < len(SCRIPT.body)
            plain = await server.stranger.get("/assets/app-Ab12cd34.js", headers={"Accept-Encoding": "identity"})
            assert "content-encoding" not in plain.headers
            assert plain.content == SCRIPT.body
            known = {"If-None-Match": answer.headers["etag"]}
            assert (await server.stranger.get("/assets/app-Ab12cd34.js", headers=known)).status_code == 304
            for path, kind in (("/manifest.webmanifest", "application/manifest+json"), ("/sw.js", "text/javascript")):
                found = await server.stranger.get(path)
                assert (found.status_code, found.headers["cache-control"]) == (200, "no-cache")
                assert found.headers["content-type"].startswith(kind)
            assert (await server.stranger.get("/assets/icon.png")).headers["cache-control"] == "no-cache"

    run(story())


HOSTILE = (
    "/assets/nothing-Ab12cd34.js",
    "/assets/",
    "/assets/index.html",
    "/assets/../index.html",
    "/assets/..%2f..%2ftokens.json",
    "/assets/%2e%2e/%2e%2e/tokens.json",
    "/assets/....//tokens.json",
    "/assets//etc/passwd",
    "/assets/app-Ab12cd34.js/",
    "/assets/app-Ab12cd34.js%00.html",
    "/assets/sw.js",
    "/assets/\\..\\tokens.json",
)


async def _raw(url: str, path: str) -> bytes:
    """The answer to a path as it is spelled: a client of good manners would tidy it."""
    port = int(url.rpartition(":")[2])
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n".encode())
    try:
        async with asyncio.timeout(30):
            return await reader.read()
    finally:
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()


@pytest.mark.usefixtures("_build")
def test_an_unknown_asset_is_not_found_and_never_a_page() -> None:
    async def story() -> None:
        async with house() as server:
            for path in HOSTILE:
                answer = await _raw(server.url, path)
                assert answer.startswith(b"HTTP/1.1 404"), (path, answer[:80])
                assert b"<!doctype" not in answer
            problem(await server.stranger.get("/assets/none.js"), 404, "not_found")

    run(story())


@pytest.mark.usefixtures("_build")
def test_a_page_is_read_and_nothing_else_and_not_under_another_name() -> None:
    async def story() -> None:
        async with house() as server:
            for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS"):
                problem(await server.stranger.request(method, "/"), 401, "unauthenticated")
                problem(await server.stranger.request(method, "/assets/app-Ab12cd34.js"), 401, "unauthenticated")
            problem(await server.stranger.get("/", headers={"Host": "evil.example"}), 421, "wrong_host")
            for path in ("/s", "/s/", "/newer", "/index.html", "/Login", "//"):
                assert (await server.stranger.get(server.url + path)).status_code == 401, path
            assert (await server.observer.get("/", headers={"Authorization": f"Bearer {OBSERVER}"})).status_code == 200

    run(story())


def test_zipping_is_for_those_who_take_it() -> None:
    for accepts, is_zipped in (
        ("gzip", True),
        ("br, GZIP;q=0.5", True),
        ("gzip;q=0", False),
        ("", False),
        ("br", False),
    ):
        answer = answer_of(SCRIPT, accepts=accepts, known="")
        assert (answer.body != SCRIPT.body) is is_zipped
        assert (gzip.decompress(answer.body) if is_zipped else answer.body) == SCRIPT.body


def test_a_build_has_an_index_and_only_known_kinds_and_another_word_for_other_bytes() -> None:
    with pytest.raises(ContractError):
        WebPages((SCRIPT,))
    index = WebFile("index.html", b"x")
    with pytest.raises(ContractError):
        WebPages((index, WebFile("run.exe", b"")))
    assert WebPages((index,)).build == WebPages((index,)).build != WebPages((index, SCRIPT)).build


def test_the_package_holds_a_page_that_its_own_policy_lets_run() -> None:
    index = built_pages().find("/")
    assert index is not None
    spelled = index.body.decode().lower()
    assert "<!doctype html>" in spelled
    assert "<style" not in spelled
    assert "style=" not in spelled
    assert "<script>" not in spelled
    assert "http:" not in spelled.replace("http://www.w3.org", "")
    assert pages.is_web_path("/assets/x")
