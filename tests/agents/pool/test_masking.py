"""Secrets are masked where they show, and what a reader needs stays."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.agents.pool.masking import masked_argv, masked_text, starred_text
from tests.each_row import each_row

RANDOM_WORD = "dGhpc2lzQ3p4X2pLOTdRd1pYbTR0UjBu"


@pytest.mark.parametrize(
    ("argv", "masked"),
    [
        (["run", "--api-key", "abc123"], ["run", "--api-key", "***"]),
        (["run", "--api-key=abc123", "x"], ["run", "--api-key=***", "x"]),
        (["run", "--token", "abc"], ["run", "--token", "***"]),
        (["run", "--auth-token", "abc"], ["run", "--auth-token", "***"]),
        (["run", "-password", "abc"], ["run", "-password", "***"]),
        (["run", "--openai.api_key=abc"], ["run", "--openai.api_key=***"]),
        (["env", "ANTHROPIC_API_KEY=abc", "claude"], ["env", "ANTHROPIC_API_KEY=***", "claude"]),
        (["env", "MY_SECRET_1=abc"], ["env", "MY_SECRET_1=***"]),
        (["codex", "-c", 'auth.token="abc"'], ["codex", "-c", 'auth.token="***"']),
        (["curl", "-H", "Authorization: Bearer abcdefghij"], ["curl", "-H", "Authorization: Bearer ***"]),
        (["curl", "-H", "x-api-key: abc"], ["curl", "-H", "x-api-key: ***"]),
        (["run", '{"apiKey": "abc", "model": "m"}'], ["run", '{"apiKey": "***", "model": "m"}']),
        (["git", "clone", "https://me:hunter2@host/x"], ["git", "clone", "https://me:***@host/x"]),
        (["run", "https://host/x?token=abc&page=2"], ["run", "https://host/x?token=***&page=2"]),
    ],
)
def test_a_secret_in_arguments_is_masked(argv: list[str], masked: list[str]) -> None:
    assert masked_argv(argv) == tuple(masked)


@pytest.mark.parametrize(
    "argv",
    [
        ["claude", "-p", "--output-format", "stream-json", "--max-tokens", "4096"],
        ["claude", "--resume", "0198f3ce-6f4a-7c11-9d8e-2b1c3d4e5f60", "--model", "claude-sonnet-4-5-20250929"],
        ["codex", "--token-budget", "100000", "--password-file", "/run/secret.txt"],
        ["git", "show", "3f786850e387550fdab836ed7e6dc881de23001b"],
        ["env", "MAX_THINKING_TOKENS=1024", "KEYBOARD=us", "PATH=/usr/bin:/bin", "DISABLE_TOKEN=true"],
        ["run", "--token", "--verbose"],
        ["run", "/a/very/long/path/That/Mixes/Cases42/and/goes/on/for/quite/a/while/File7.py"],
        ["run", "task-list", "disk-usage-report-of-today", "the_key_points_of_the_text"],
        [],
    ],
)
def test_what_is_no_secret_stays(argv: list[str]) -> None:
    assert masked_argv(argv) == tuple(argv)


@pytest.mark.parametrize(
    "secret",
    [
        "sk-ant-api03-not-a-real-one",
        "sk_live_abcdefgh12345678",
        "ghp_abcdefghij0123456789",
        "github_pat_11AAAAAAA0abcdefghij",
        "glpat-abcdefghij0123",
        "xoxb-1234567890-abcdefgh",
        "AKIAIOSFODNN7EXAMPLE",
        "AIzaSyA1234567890abcdefghij",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl",
        RANDOM_WORD,
    ],
)
def test_a_secret_that_shows_by_its_shape_is_masked_in_any_text(secret: str) -> None:
    text = masked_text(f"401 from the server, with ({secret}) given\nand more")
    assert text == "401 from the server, with (***) given\nand more"


@each_row(
    ("kind", "shortest"),
    [
        *(
            (kind, "abcdefghijklmno1")
            for kind in ("sk-", "sk_", "pk-", "rk_", "pypi-", "github_pat_", "glpat-", "AIza")
        ),
        *((kind, "abcdefghijklmno1") for kind in ("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "hf_", "npm_")),
        *((kind, "abcdefg1") for kind in ("xoxb-", "xoxp-", "Bearer ", "bearer\t", "API_KEY=", "MY_TOKEN=", "APIKEY=")),
        *((kind, "ABCDEFGHIJK1") for kind in ("AKIA", "ASIA", "Basic ")),
        ("eyJ", "abcdefgh.ijkl"),
    ],
)
def test_a_secret_is_starred_from_the_length_of_its_kind_on(kind: str, shortest: str) -> None:
    """A shorter word is most often no secret, and the text keeps its length, so that it can still be pointed at."""
    assert starred_text(f"with {kind}{shortest}, then") == f"with {kind}{'*' * len(shortest)}, then"
    assert starred_text(f"with {kind}{shortest[1:]}, then") == f"with {kind}{shortest[1:]}, then"


def test_a_private_key_is_masked_even_if_its_end_is_cut_off() -> None:
    for end in ("\n-----END RSA PRIVATE KEY-----", ""):
        text = masked_text(f"-----BEGIN RSA PRIVATE KEY-----\nMIIabc\nxyz{end}")
        assert "MIIabc" not in text
        assert "xyz" not in text


def test_headers_in_a_log_are_masked_line_by_line() -> None:
    text = "GET /\nauthorization: abc def\nAccept: text/html\n"
    assert masked_text(text) == "GET /\nauthorization: ***\nAccept: text/html\n"


words = st.sampled_from(
    [
        "--token",
        "--api-key=",
        "KEY=abc",
        "=",
        "Bearer ",
        "sk-abcdefghijk",
        '"token": "a"',
        "x-api-key: v",
        "\n",
        "://a:b@c",
        "'",
    ]
)


@given(st.lists(words | st.text(max_size=5), max_size=8))
def test_masking_what_is_masked_changes_nothing(parts: list[str]) -> None:
    once = masked_text("".join(parts))
    assert masked_text(once) == once
    argv = masked_argv(parts)
    assert masked_argv(argv) == argv


def test_what_is_assigned_may_be_an_assignment_itself() -> None:
    assert masked_text("env=KEY=abc") == "env=KEY=***"
    assert masked_text("sk-abcdefghijk=KEY=abc") == "***=KEY=***"


def test_hostile_text_is_masked_in_good_time() -> None:
    for piece in ("a=", '"a":', "://a:", "eyJ", "-----BEGIN PRIVATE KEY-----", "Bearer ", "key_", "A1a", "a: "):
        masked_text(piece * 3000)


def test_what_follows_basic_is_masked_and_what_stands_beside_it_stays() -> None:
    said = "sent Basic dXNlcjpwYXNzd29yZA== to internationalisation"
    assert masked_text(said) == "sent Basic *** to internationalisation"
