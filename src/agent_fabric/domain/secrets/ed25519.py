"""Ed25519 (RFC 8032) in plain Python, for machines where no library has it.

Checked against the vectors of the RFC and against a native implementation. It is not constant-time: an attacker who
can time single signatures of a node on its own machine can read its key there as well.
"""

import hashlib
from functools import cache
from typing import Final

KEY_BYTES: Final = 32
SIGNATURE_BYTES: Final = 64

_P: Final = 2**255 - 19
_L: Final = 2**252 + 27742317777372353535851937790883648493
_D: Final = -121665 * pow(121666, _P - 2, _P) % _P
_D2: Final = 2 * _D % _P
_ROOT_OF_MINUS_ONE: Final = pow(2, (_P - 1) // 4, _P)

_Point = tuple[int, int, int, int]
"""Extended coordinates: x = X/Z, y = Y/Z, x·y = T/Z."""
_NEUTRAL: Final[_Point] = (0, 1, 1, 0)


def public_key(seed: bytes) -> bytes:
    """Return the public key of a secret seed of 32 bytes."""
    scalar, _ = _expand(seed)
    return _pack(_times_base(scalar))


def sign(seed: bytes, message: bytes) -> bytes:
    """Return the signature of a message."""
    scalar, prefix = _expand(seed)
    own = _pack(_times_base(scalar))
    nonce = _number(prefix, message) % _L
    commitment = _pack(_times_base(nonce))
    challenge = _number(commitment, own, message) % _L
    return commitment + ((nonce + challenge * scalar) % _L).to_bytes(32, "little")


def verify(key: bytes, message: bytes, signature: bytes) -> bool:
    """Tell whether a signature of a message was made with the seed of a public key; never raises."""
    if len(key) != KEY_BYTES or len(signature) != SIGNATURE_BYTES:
        return False
    owner, commitment = _unpack(key), _unpack(signature[:32])
    scalar = int.from_bytes(signature[32:], "little")
    if owner is None or commitment is None or scalar >= _L:
        return False
    challenge = _number(signature[:32], key, message) % _L
    return _equal(_times_base(scalar), _add(commitment, _times(owner, challenge)))


def is_weak(key: bytes) -> bool:
    """Tell whether a public key is none, or one of the few for which anyone can make signatures."""
    point = _unpack(key) if len(key) == KEY_BYTES else None
    if point is None:
        return True
    for _ in range(3):
        point = _add(point, point)
    return _equal(point, _NEUTRAL)


def _expand(seed: bytes) -> tuple[int, bytes]:
    if len(seed) != KEY_BYTES:
        raise ValueError("a seed has 32 bytes")
    digest = hashlib.sha512(seed).digest()
    scalar = int.from_bytes(digest[:32], "little") & ((1 << 254) - 8) | (1 << 254)
    return scalar, digest[32:]


def _number(*parts: bytes) -> int:
    return int.from_bytes(hashlib.sha512(b"".join(parts)).digest(), "little")


def _add(left: _Point, right: _Point) -> _Point:
    a = (left[1] - left[0]) * (right[1] - right[0]) % _P
    b = (left[1] + left[0]) * (right[1] + right[0]) % _P
    c = left[3] * _D2 * right[3] % _P
    d = 2 * left[2] * right[2] % _P
    e, f, g, h = b - a, d - c, d + c, b + a
    return e * f % _P, g * h % _P, f * g % _P, e * h % _P


def _double(point: _Point) -> _Point:
    x, y, z, _ = point
    a, b, c = x * x % _P, y * y % _P, 2 * z * z % _P
    h = a + b
    e = h - (x + y) * (x + y) % _P
    g = a - b
    f = c + g
    return e * f % _P, g * h % _P, f * g % _P, e * h % _P


def _times(point: _Point, scalar: int) -> _Point:
    """Multiply by windows of four bits."""
    table = [_NEUTRAL]
    for _ in range(15):
        table.append(_add(table[-1], point))
    result = _NEUTRAL
    for shift in range(252, -1, -4):
        result = _double(_double(_double(_double(result))))
        if digit := (scalar >> shift) & 15:
            result = _add(result, table[digit])
    return result


def _times_base(scalar: int) -> _Point:
    result = _NEUTRAL
    for row in _base_table():
        if digit := scalar & 15:
            result = _add(result, row[digit])
        scalar >>= 4
    return result


@cache
def _base_table() -> tuple[tuple[_Point, ...], ...]:
    """Return multiples of the base point: sixteen for each four bits of a scalar."""
    y = 4 * pow(5, _P - 2, _P) % _P
    x = _recover_x(y, 0)
    assert x is not None
    start, rows = (x, y, 1, x * y % _P), []
    for _ in range(64):
        row = [_NEUTRAL]
        for _ in range(15):
            row.append(_add(row[-1], start))
        rows.append(tuple(row))
        start = _add(row[-1], start)
    return tuple(rows)


def _recover_x(y: int, sign_bit: int) -> int | None:
    if y >= _P:
        return None
    square = (y * y - 1) * pow(_D * y * y + 1, _P - 2, _P) % _P
    if square == 0:
        return None if sign_bit else 0
    x = pow(square, (_P + 3) // 8, _P)
    if (x * x - square) % _P:
        x = x * _ROOT_OF_MINUS_ONE % _P
    if (x * x - square) % _P:
        return None
    return _P - x if x & 1 != sign_bit else x


def _equal(left: _Point, right: _Point) -> bool:
    same_x = (left[0] * right[2] - right[0] * left[2]) % _P == 0
    return same_x and (left[1] * right[2] - right[1] * left[2]) % _P == 0


def _pack(point: _Point) -> bytes:
    inverse = pow(point[2], _P - 2, _P)
    x, y = point[0] * inverse % _P, point[1] * inverse % _P
    return (y | (x & 1) << 255).to_bytes(32, "little")


def _unpack(data: bytes) -> _Point | None:
    packed = int.from_bytes(data, "little")
    y, sign_bit = packed & ((1 << 255) - 1), packed >> 255
    x = _recover_x(y, sign_bit)
    return None if x is None else (x, y, 1, x * y % _P)
