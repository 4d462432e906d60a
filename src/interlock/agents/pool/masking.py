"""Secrets kept out of records: in an argument list, and in text that a program printed.

Laws:
1. What looks like a secret is replaced by `MASK`; everything around it stays, so that a record can still be read.
2. Masking what is masked changes nothing.
3. Names decide first (`--api-key`, `TOKEN=`, `"password":`), then well-known shapes (`sk-`, `ghp_`, `Bearer`), and last
   long words that mix cases and digits at random. Session ids (UUIDs), hashes, paths and numbers are left alone.
4. In a conversation (`starred_text`) only well-known shapes are masked, since guesses by name would garble code. Each
   character becomes one `*`, so that offsets and lengths stay; what tells the kind (`sk-`, `Bearer`) is left to read.

It is a net and no proof: a short password in the middle of a sentence is not seen.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from typing import Final

MASK: Final = "***"
_RANDOM_BITS: Final = 4.2
_MAX_DEPTH: Final = 4

_SECRET_NAME: Final = re.compile(
    r"token|secret|passw(?:or)?d|passphrase|credential|api_?-?key|(?:^|[_.-])key(?:$|[_.\d-])|[a-z]Key$|authorization",
    re.IGNORECASE,
)
# `--max-tokens`, `--token-budget` and `--password-file` tell a number or a place, not the secret itself.
_SECRET_FLAG: Final = re.compile(
    r"^--?(?:[\w.-]*[._-])?(?:token|secret|passw(?:or)?d|passphrase|credentials?|apikey|key|authorization)$",
    re.IGNORECASE,
)
_PLAIN_VALUE: Final = re.compile(r"^(?:\d{1,9}|true|false|null|none|\*{3})$", re.IGNORECASE)
_ASSIGNED: Final = re.compile(r"(?<![\w.])([A-Za-z][\w.-]{0,80})=(\"[^\"]*\"|'[^']*'|[^\s&;,\"']+)")
_JSON_FIELD: Final = re.compile(r"(\"[\w.-]{1,80}\"\s*:\s*)\"((?:[^\"\\]|\\.)*)\"")
_HEADER: Final = re.compile(r"(?im)^(\s*[A-Za-z][\w-]{0,80}:[ \t]+)(\S.*)$")
_URL_PASSWORD: Final = re.compile(r"(://[^\s/:@]{0,200}:)[^\s/@]{1,500}(?=@)")
_PRIVATE_KEY: Final = re.compile(r"(-----BEGIN [A-Z ]*PRIVATE KEY-----).*?(-----END|\Z)", re.DOTALL)
_SCHEME: Final = re.compile(r"\b(Bearer|Basic)\s+[^\s\"',;]{8,}", re.IGNORECASE)
_WELL_KNOWN: Final = re.compile(
    r"(?<![A-Za-z0-9])(?:"
    r"(?:sk|pk|rk)[-_][A-Za-z0-9_-]{8,}"
    r"|gh[opusr]_[A-Za-z0-9]{8,}|github_pat_[A-Za-z0-9_]{8,}|glpat-[A-Za-z0-9_-]{8,}"
    r"|xox[a-z]-[A-Za-z0-9-]{8,}|hf_[A-Za-z0-9]{16,}|npm_[A-Za-z0-9]{16,}|pypi-[A-Za-z0-9_-]{16,}"
    r"|A[KS]IA[0-9A-Z]{12,}|AIza[A-Za-z0-9_-]{20,}"
    r"|eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{4,}\.?[A-Za-z0-9_-]*"
    r")"
)
_LONG_WORD: Final = re.compile(r"[A-Za-z0-9+_=-]{32,}")

STAR: Final = "*"
# (What tells the kind, what the secret is made of, how much of it there must be.)
_SHAPES: Final = (
    (r"(?<![A-Za-z0-9])(?:(?:sk|pk|rk)[-_]|pypi-)(?=[A-Za-z_-]{0,200}[0-9])", r"[A-Za-z0-9_-]", 16),
    (r"(?<![A-Za-z0-9])(?:github_pat_|glpat-|AIza)", r"[A-Za-z0-9_-]", 16),
    (r"(?<![A-Za-z0-9])(?:gh[opusr]_|hf_|npm_)", r"[A-Za-z0-9]", 16),
    (r"(?<![A-Za-z0-9])xox[a-z]-", r"[A-Za-z0-9-]", 8),
    (r"(?<![A-Za-z0-9])A[KS]IA", r"[0-9A-Z]", 12),
    (r"(?<![A-Za-z0-9])eyJ(?=[A-Za-z0-9_-]{8,2000}\.[A-Za-z0-9_-]{4})", r"[A-Za-z0-9_.-]", 13),
    (r"(?<![A-Za-z0-9])[Bb]earer[ \t]+(?=[A-Za-z._~+/=-]{0,200}[0-9])", r"[A-Za-z0-9._~+/=*-]", 8),
    (r"(?<![A-Za-z0-9])Basic[ \t]+(?=[A-Za-z+/]{0,200}[0-9=])", r"[A-Za-z0-9+/=*]", 12),
    (r"://[^\s/:@]{0,200}:(?=[^\s/@]{1,500}@)", r"[^\s/@]", 1),
    (
        r"(?<![A-Za-z0-9_])[A-Z0-9_]{0,40}(?:TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|API_?KEY|ACCESS_KEY|PRIVATE_KEY)"
        r"[A-Z0-9_]{0,40}=[\"']?(?=[A-Za-z+/_.~:@!#^*-]{0,200}[0-9])",
        r"[A-Za-z0-9+/_.~:@!#^*=-]",
        8,
    ),
)
_SHAPED: Final = tuple(re.compile(f"({kind})({made_of}{{{least},}})") for kind, made_of, least in _SHAPES)
_KEY_BLOCK: Final = re.compile(r"(-----BEGIN [A-Z ]*PRIVATE KEY-----)(.*?)(?=-----END|\Z)", re.DOTALL)
# One of these stands in every text that holds, or begins, one of those shapes.
_TRIGGER: Final = re.compile(
    r"k[-_]|pypi-|github_pat_|glpat-|xox|gh[opusr]_|hf_|npm_|AIza|A[KS]IA|eyJ|earer|Basic|://|PRIVATE KEY"
    r"|TOKEN|SECRET|PASS(?:W|PH)|API_?KEY|ACCESS_KEY"
)
TRIGGER_CHARACTERS: Final = 64  # as far back it may stand from where the secret begins
# The end of a text in which a secret may have begun, and may go on in the next piece.
_UNFINISHED: Final = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----(?:(?!-----END).)*\Z"
    r"|(?<![A-Za-z0-9])(?:[spr]k[-_]|pypi-|gh[opusr]_|github_pat_|glpat-|xox[a-z]-|hf_|npm_|A[KS]IA|AIza|eyJ"
    r"|(?:[Bb]earer|Basic)[ \t]+"
    r"|(?<!_)[A-Z0-9_]{0,40}(?:TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|API_?KEY|ACCESS_KEY|PRIVATE_KEY)[A-Z0-9_]{0,40}=[\"']?)"
    r"[^\s\"',;]*\Z"
    r"|://[^\s/@]{0,700}\Z",
    re.DOTALL,
)


def masked_argv(argv: Sequence[str]) -> tuple[str, ...]:
    """The same arguments with secrets masked: the value after a telling flag, and whatever shows by itself."""
    masked: list[str] = []
    before = ""
    for argument in argv:
        is_value = bool(_SECRET_FLAG.match(before)) and not argument.startswith("--")
        masked.append(_mask_value(argument) if is_value else _mask_argument(argument))
        before = argument
    return tuple(masked)


def masked_text(text: str) -> str:
    """The same text with secrets masked."""
    text = _PRIVATE_KEY.sub(rf"\1{MASK}\2", text)
    text = _URL_PASSWORD.sub(rf"\1{MASK}", text)
    text = _SCHEME.sub(rf"\1 {MASK}", text)
    text = _HEADER.sub(_mask_header, text)
    text = _JSON_FIELD.sub(_mask_field, text)
    text = _WELL_KNOWN.sub(MASK, text)
    text = _ASSIGNED.sub(_mask_assigned, text)
    return _LONG_WORD.sub(_mask_random, text)


def starred_text(text: str) -> str:
    """The same text, of the same length, with secrets of a well-known shape made stars."""
    if not has_trigger(text):
        return text
    text = _KEY_BLOCK.sub(lambda found: found[1] + re.sub(r"[^\n]", STAR, found[2]), text)
    for shape in _SHAPED:
        text = shape.sub(lambda found: found[1] + STAR * len(found[2]), text)
    return text


def has_trigger(text: str) -> bool:
    """Whether a text may hold, or begin, a secret of a well-known shape. Cheap, and never False for one that does."""
    return _TRIGGER.search(text) is not None


def unfinished_length(text: str) -> int:
    """How many characters at the end may be the beginning of a secret of a well-known shape."""
    if not has_trigger(text):
        return 0
    found = _UNFINISHED.search(text)
    return 0 if found is None else len(text) - found.start()


def _mask_argument(argument: str) -> str:
    flag, equals, value = argument.partition("=")
    if equals and _SECRET_FLAG.match(flag):
        return f"{flag}={_mask_value(value)}"
    return masked_text(argument)


def _mask_value(value: str) -> str:
    return value if not value or _PLAIN_VALUE.match(value) else MASK


def _mask_assigned(found: re.Match[str], depth: int = 0) -> str:
    name, value = found[1], found[2]
    if not _SECRET_NAME.search(name):
        # What is assigned may be an assignment itself, as in `env=KEY=...`. No honest text goes deeper than this.
        is_deep = depth == _MAX_DEPTH or "=" not in value
        return found[0] if is_deep else f"{name}={_ASSIGNED.sub(lambda inner: _mask_assigned(inner, depth + 1), value)}"
    quote = value[0] if value[0] in "\"'" else ""
    return f"{name}={quote}{_mask_value(value.strip(quote or None))}{quote}"


def _mask_field(found: re.Match[str]) -> str:
    return f'{found[1]}"{_mask_value(found[2])}"' if _is_secret_label(found[1]) else found[0]


def _mask_header(found: re.Match[str]) -> str:
    is_masked_already = MASK in found[2]
    return f"{found[1]}{_mask_value(found[2])}" if _is_secret_label(found[1]) and not is_masked_already else found[0]


def _is_secret_label(label: str) -> bool:
    return bool(_SECRET_NAME.search(label.strip().rstrip(":").strip().strip('"')))


def _mask_random(found: re.Match[str]) -> str:
    word = found[0]
    is_mixed = any(c.isupper() for c in word) and any(c.islower() for c in word) and sum(c.isdigit() for c in word) > 1
    return MASK if is_mixed and _bits_a_character(word) >= _RANDOM_BITS else word


def _bits_a_character(word: str) -> float:
    shares = (count / len(word) for count in Counter(word).values())
    return -sum(share * math.log2(share) for share in shares)
