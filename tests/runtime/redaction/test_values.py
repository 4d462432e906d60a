"""Which values of an environment are masked, and which would only garble what people read."""

from __future__ import annotations

from interlock.runtime.redaction.values import is_secret, named_secrets, secret_values, spellings
from tests.each_row import each_row


@each_row(
    ("name", "value"),
    [
        ("ANTHROPIC_API_KEY", "sk-ant-1234567890"),
        ("DB_PASSWORD", "hunter"),
        ("MY_TOKEN", "/a/b+c"),
        ("WHATEVER", "x9-plain-but-ours"),
        ("NOTE", "two words and more"),
        ("HOOK", "https://hooks.example.com/services/T0/B0/abcdefghijklmnopqrstu"),
        ("SERVICE", "https://me:pw@host/x"),
        ("SERVICE", "https://host/x?sig=1"),
        ("BROKEN", "http://[nonsense"),
    ],
)
def test_a_value_is_a_secret(name: str, value: str) -> None:
    assert is_secret(name, value)


@each_row(
    ("name", "value"),
    [
        ("ANTHROPIC_API_KEY", "abc12"),
        ("API_KEY", "12345678"),
        ("USE_TOKEN", "false"),
        ("X", "1"),
        ("X", "1234567"),
        ("X", "abc-123"),
        ("PATH", "/usr/bin:/bin"),
        ("HOME", "somewhere-9999"),
        ("LC_ALL", "en_US.UTF-8"),
        ("CODEX_HOME", "relative/place-1"),
        ("TOKEN_FILE", "place-of-token-1"),
        ("MAX_TOKENS", "100000000"),
        ("ANTHROPIC_MODEL", "claude-sonnet-4-5"),
        ("WHERE", "/srv/project/one"),
        ("WHERE", "./project/one"),
        ("WHERE", "~/project/one"),
        ("STAGE", "production"),
        ("SPEECH", "en_GB.UTF-8"),
        ("ANTHROPIC_BASE_URL", "http://127.0.0.1:8080/v1"),
        ("AT", "2026-11-16"),
    ],
)
def test_a_value_is_harmless(name: str, value: str) -> None:
    assert not is_secret(name, value)


def test_a_value_is_known_as_others_spell_it() -> None:
    spelled = spellings(['a"b/c d1'])
    assert {'a"b/c d1', 'a\\"b/c d1', "a%22b%2Fc%20d1", "YSJiL2MgZDE"} <= spelled


def test_each_long_line_of_a_value_is_one() -> None:
    assert {"first-line-of-key-1", "second-line-of-key"} <= spellings(
        ["first-line-of-key-1\nshort\nsecond-line-of-key\n"]
    )
    assert "short" not in spellings(["first-line-of-key-1\nshort"])


def test_blanks_around_a_value_do_not_count() -> None:
    assert secret_values({"API_KEY": " abcdefg1\n", "OTHER_KEY": " \n"}) == spellings(["abcdefg1"])


def test_of_our_own_environment_only_names_that_tell_count() -> None:
    found = named_secrets({"API_KEY": "abcdefg1", "WHATEVER": "x9-plain-but-ours"})
    assert "abcdefg1" in found
    assert "x9-plain-but-ours" not in found
