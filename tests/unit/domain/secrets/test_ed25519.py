"""Signatures in plain Python are those of everybody else."""

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_fabric.domain.secrets import ed25519
from effort import examples

RFC_8032 = (
    (
        "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
        "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
        "",
        "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b",
    ),
    (
        "4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb",
        "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
        "72",
        "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00",
    ),
)


@pytest.mark.parametrize(("seed", "public", "message", "signature"), RFC_8032)
def test_it_signs_as_the_rfc_does(seed: str, public: str, message: str, signature: str) -> None:
    assert ed25519.public_key(bytes.fromhex(seed)).hex() == public
    assert ed25519.sign(bytes.fromhex(seed), bytes.fromhex(message)).hex() == signature
    assert ed25519.verify(bytes.fromhex(public), bytes.fromhex(message), bytes.fromhex(signature))


@settings(deadline=None, max_examples=examples(100))
@given(st.binary(min_size=32, max_size=32), st.binary(max_size=200), st.integers(0, 511))
def test_it_agrees_with_the_native_one_and_sees_every_flipped_bit(seed: bytes, message: bytes, bit: int) -> None:
    native = Ed25519PrivateKey.from_private_bytes(seed)
    signature = ed25519.sign(seed, message)
    assert signature == native.sign(message)
    public = native.public_key().public_bytes_raw()
    flipped = bytearray(signature)
    flipped[bit // 8] ^= 1 << bit % 8
    assert not ed25519.verify(public, message, bytes(flipped))


@pytest.mark.parametrize("key", [b"", b"\xff" * 32, bytes(31), (2**255 - 19).to_bytes(32, "little")])
def test_what_is_no_key_verifies_nothing(key: bytes) -> None:
    assert not ed25519.verify(key, b"", bytes(64))
