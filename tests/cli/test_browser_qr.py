"""QR codes: held to those that another implementation makes, bit for bit, and drawn in half the lines."""

from __future__ import annotations

import hashlib

from interlock.cli.browser.qr import half_blocks, penalty, qr_code

# SHA-256 (its beginning) of the modules, one text a version; each was compared with python-qrcode, all eight masks.
KNOWN = (
    ("x" * 17, 1, "6297c0fd9b1f5c76"),
    ("x" * 32, 2, "492a715a7f3ea4b4"),
    ("http://127.0.0.1:4000/login#t=abcdefghijklmnopqrstuv", 3, "a7777a3760562068"),
    ("z" * 78, 4, "2f89b51ba2b996f9"),
    ("q" * 106, 5, "8ac50e705983d7d0"),
    ("w" * 134, 6, "357318c14f5680a5"),
)


def test_codes_are_those_of_another_implementation() -> None:
    for text, version, digest in KNOWN:
        modules = qr_code(text)
        assert modules is not None
        assert len(modules) == 17 + 4 * version
        drawn = "\n".join("".join(".#"[one] for one in row) for row in modules)
        assert hashlib.sha256(drawn.encode()).hexdigest()[:16] == digest, text


def test_what_is_too_long_has_none_and_the_smallest_version_is_taken() -> None:
    assert qr_code("w" * 135) is None
    assert qr_code("é" * 68) is None  # bytes count, not signs
    for text, size in (("", 21), ("x" * 17, 21), ("x" * 18, 25)):
        modules = qr_code(text)
        assert modules is not None
        assert len(modules) == size


def test_two_rows_stand_in_one_line_within_a_quiet_zone() -> None:
    assert half_blocks([[True, False], [False, True]], quiet=1) == [" ▄  ", "  ▀ "]
    assert half_blocks([[True]], quiet=0) == ["▀"]


def test_a_blank_code_is_hard_to_read() -> None:
    assert penalty([[False] * 21 for _ in range(21)]) > 1_000
