"""A QR code (ISO/IEC 18004) of a short text: byte mode, error correction L, versions 1 to 6. Pure, and no more than a
link needs.

Law: `qr_code` gives the modules that a reader decodes to the same bytes, or None where the text is too long.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Final, TypeAlias

Modules: TypeAlias = list[list[bool]]

# Of each version: error correction codewords a block, blocks, data codewords a block.
_BLOCKS: Final = ((7, 1, 19), (10, 1, 34), (15, 1, 55), (20, 1, 80), (26, 1, 108), (18, 2, 68))
_LEVEL_L: Final = 0b01
_FORMAT_GENERATOR: Final = 0x537
_FORMAT_MASK: Final = 0x5412
_MASKS: Final[tuple[Callable[[int, int], bool], ...]] = (
    lambda r, c: (r + c) % 2 == 0,
    lambda r, _: r % 2 == 0,
    lambda _, c: c % 3 == 0,
    lambda r, c: (r + c) % 3 == 0,
    lambda r, c: (r // 2 + c // 3) % 2 == 0,
    lambda r, c: r * c % 2 + r * c % 3 == 0,
    lambda r, c: (r * c % 2 + r * c % 3) % 2 == 0,
    lambda r, c: ((r + c) % 2 + r * c % 3) % 2 == 0,
)
_FINDER_LIKE: Final = ("10111010000", "00001011101")


def qr_code(text: str) -> Modules | None:
    """The modules, row by row, true for dark, without the quiet zone. Of all masks the one that reads best."""
    raw = text.encode()
    version = next((number for number, (_, blocks, data) in enumerate(_BLOCKS, 1) if len(raw) <= blocks * data - 2), 0)
    if not version:
        return None
    bits = _bits(_codewords(raw, version))
    return min((_drawn(version, bits, mask) for mask in range(len(_MASKS))), key=penalty)


def _codewords(raw: bytes, version: int) -> bytes:
    """Data and error correction, interleaved by blocks."""
    correction, blocks, size = _BLOCKS[version - 1]
    room = blocks * size
    spelled = f"0100{len(raw):08b}" + "".join(f"{one:08b}" for one in raw) + "0000"
    data = bytes(int(spelled[at : at + 8], 2) for at in range(0, len(spelled), 8))
    data += bytes((0xEC, 0x11)[at % 2] for at in range(room - len(data)))
    parts = [data[at : at + size] for at in range(0, room, size)]
    checks = [_remainder(part, correction) for part in parts]
    return bytes(one for group in (parts, checks) for column in zip(*group, strict=True) for one in column)


def _times(a: int, b: int) -> int:
    """A product in GF(256) of the code."""
    found = 0
    while b:
        found ^= a if b & 1 else 0
        a = a << 1 ^ (0x11D if a & 0x80 else 0)
        b >>= 1
    return found


def _remainder(data: bytes, count: int) -> bytes:
    """The Reed-Solomon codewords of a block."""
    generator, root = [1], 1
    for _ in range(count):
        shifted = [*generator, 0]
        generator = [high ^ _times(low, root) for high, low in zip(shifted, [0, *generator], strict=True)]
        root = _times(root, 2)
    rest = [0] * count
    for one in data:
        factor = one ^ rest[0]
        rest = [kept ^ _times(part, factor) for kept, part in zip([*rest[1:], 0], generator[1:], strict=True)]
    return bytes(rest)


def _bits(codewords: bytes) -> list[bool]:
    return [bool(one >> place & 1) for one in codewords for place in range(7, -1, -1)]


def _drawn(version: int, bits: Sequence[bool], mask: int) -> Modules:
    grid = _patterns(version)
    size = len(grid)
    left, is_dark = iter(bits), _MASKS[mask]
    columns = [column for column in range(size - 1, 0, -2) if column > 6] + [5, 3, 1]
    is_upward = True
    for right in columns:
        for row in range(size - 1, -1, -1) if is_upward else range(size):
            for column in (right, right - 1):
                if grid[row][column] is None:
                    grid[row][column] = next(left, False) ^ is_dark(row, column)
        is_upward = not is_upward
    _write_format(grid, mask)
    return [[bool(one) for one in row] for row in grid]


def _patterns(version: int) -> list[list[bool | None]]:
    """What every code of a version has; None where data goes."""
    size = 17 + 4 * version
    grid: list[list[bool | None]] = [[None] * size for _ in range(size)]
    for top, left in ((0, 0), (0, size - 7), (size - 7, 0)):
        for row in range(max(0, top - 1), min(size, top + 8)):
            for column in range(max(0, left - 1), min(size, left + 8)):
                ring = max(abs(row - top - 3), abs(column - left - 3))
                grid[row][column] = ring in (0, 1, 3)
    if version > 1:
        centre = size - 7
        for row in range(centre - 2, centre + 3):
            for column in range(centre - 2, centre + 3):
                grid[row][column] = max(abs(row - centre), abs(column - centre)) != 1
    for at in range(8, size - 8):
        grid[6][at] = grid[at][6] = at % 2 == 0
    for row, column in (place for copy in _format_places(size) for place in copy):
        grid[row][column] = False
    grid[size - 8][8] = True
    return grid


def _format_places(size: int) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Where the format stands, twice, its highest bit first."""
    beside = [(8, at) for at in (0, 1, 2, 3, 4, 5, 7, 8)] + [(at, 8) for at in (7, 5, 4, 3, 2, 1, 0)]
    apart = [(size - 1 - at, 8) for at in range(7)] + [(8, size - 8 + at) for at in range(8)]
    return beside, apart


def _write_format(grid: list[list[bool | None]], mask: int) -> None:
    data = _LEVEL_L << 3 | mask
    rest = data << 10
    for place in range(14, 9, -1):
        rest ^= _FORMAT_GENERATOR << (place - 10) if rest >> place & 1 else 0
    spelled = (data << 10 | rest) ^ _FORMAT_MASK
    for copy in _format_places(len(grid)):
        for place, (row, column) in enumerate(copy):
            grid[row][column] = bool(spelled >> (14 - place) & 1)


def penalty(modules: Modules) -> int:
    """How hard a code is to read, by the four rules of the standard."""
    size = len(modules)
    lines = [[*row] for row in modules] + [[*column] for column in zip(*modules, strict=True)]
    found = 0
    for line in lines:
        spelled = "".join("01"[one] for one in line)
        runs = spelled.replace("01", "0 1").replace("10", "1 0").split()
        found += sum(len(run) - 2 for run in runs if len(run) >= 5)
        found += 40 * sum(spelled.startswith(one, at) for one in _FINDER_LIKE for at in range(size - 10))
    for upper, lower in pairwise(modules):
        found += 3 * sum(upper[at] == upper[at + 1] == lower[at] == lower[at + 1] for at in range(size - 1))
    dark = sum(map(sum, modules))
    return found + 10 * int(abs(dark * 20 - size * size * 10) / (size * size))


def half_blocks(modules: Modules, quiet: int = 2) -> list[str]:
    """Lines of a terminal, two rows of modules each, dark as blocks, with a quiet zone around."""
    width = len(modules) + 2 * quiet
    empty = [False] * width
    rows = [empty] * quiet + [[False] * quiet + row + [False] * quiet for row in modules] + [empty] * quiet
    rows += [empty] * (len(rows) % 2)
    pairs = zip(rows[::2], rows[1::2], strict=True)
    return ["".join(" ▄▀█"[2 * up + down] for up, down in zip(upper, lower, strict=True)) for upper, lower in pairs]
