"""What is sealed can be read in its own place only, and tells nothing to whoever has no key."""

import json
from dataclasses import replace
from typing import Any

import pytest

from agent_fabric.domain.errors import RunKeyMissing, StoreUnavailable
from agent_fabric.domain.ids import RunId
from agent_fabric.infrastructure.persistence.runs.codec import decode, encode
from agent_fabric.infrastructure.persistence.secrets.run_encryption import RunCipher, new_key
from agent_fabric.infrastructure.persistence.secrets.sealing import (
    HASH_BYTES,
    RunKeys,
    event_place,
    owner_of,
    sealed_json,
    unsealed_json,
)
from agent_fabric.wire.json_codec import load_json
from contract.run_repository_contract import run_created

RUN, OTHER = RunId("run-1"), RunId("run-2")
PLACE = event_place(3, "tool_result")
KEY = new_key()
CIPHER = RunCipher(RUN, KEY)


@pytest.mark.parametrize("data", [b"", b"x", b'{"a":1}', b" {}", b"\0" * 1_000_000])
def test_what_was_sealed_is_read_back(data: bytes) -> None:
    sealed = sealed_json(CIPHER, PLACE, data)
    assert unsealed_json(RunCipher(RUN, KEY), PLACE, sealed) == data


def test_a_sealed_text_is_json_that_holds_nothing_else() -> None:
    value = json.loads(sealed_json(CIPHER, PLACE, b'{"prompt":"marker"}'))
    assert list(value) == ["$sealed"]
    assert "marker" not in str(value)


def test_the_same_text_looks_different_every_time() -> None:
    assert len({sealed_json(CIPHER, PLACE, b"same") for _ in range(50)}) == 50


@pytest.mark.parametrize(
    ("cipher", "place"),
    [
        (CIPHER, event_place(4, "tool_result")),
        (CIPHER, event_place(3, "tool_call")),
        (RunCipher(OTHER, KEY), PLACE),
        (RunCipher(RUN, new_key()), PLACE),
    ],
    ids=["another seq", "another kind", "another run", "another key"],
)
def test_in_another_place_it_cannot_be_read(cipher: RunCipher, place: str) -> None:
    with pytest.raises(ValueError, match="was changed, or belongs elsewhere"):
        unsealed_json(cipher, place, sealed_json(CIPHER, PLACE, b"{}"))


@pytest.mark.parametrize("at", range(12, 60, 7))
def test_a_changed_byte_is_noticed(at: int) -> None:
    sealed = bytearray(sealed_json(CIPHER, PLACE, b"some content"))
    sealed[at] = ord("A") if sealed[at] != ord("A") else ord("B")
    with pytest.raises(ValueError, match=r"event 3 tool_result"):
        unsealed_json(CIPHER, PLACE, bytes(sealed))


@pytest.mark.parametrize("stored", [b"{}", b"", b'{"$sealed":"', b'{"$sealed":"!"}', b'{"$sealed":""}', b'{"a":1}'])
def test_what_is_not_sealed_at_all_is_refused(stored: bytes) -> None:
    with pytest.raises(ValueError, match=r"event 3 tool_result"):
        unsealed_json(CIPHER, PLACE, stored)


def test_addresses_of_blobs_tell_whose_they_are_and_nothing_of_their_content() -> None:
    address = CIPHER.address(b"content")
    assert address == RunCipher(RUN, KEY).address(b"content") != CIPHER.address(b"other content")
    assert address.startswith(owner_of(RUN))
    assert len(address) > HASH_BYTES
    assert RunCipher(RUN, new_key()).address(b"content") != address


def test_long_texts_of_an_encrypted_run_are_named_by_its_own_addresses() -> None:
    body = replace(run_created("long " * 10_000), encrypted=True)
    payload, blobs = encode(body, CIPHER.address)
    (address,) = blobs
    assert address == CIPHER.address(b"long " * 10_000)
    assert load_json(payload)["prompt"]["$blob"] == address.hex()
    assert decode(body.kind, 1, payload, blobs.__getitem__) == body


class Ring:
    """A keyring that opens what it has sealed itself."""

    def __init__(self, name: bytes = b"key:") -> None:
        self.name = name

    def seal(self, data: bytes) -> bytes:
        return self.name + data[::-1]

    def unseal(self, data: bytes) -> bytes:
        if not data.startswith(self.name):
            raise StoreUnavailable("no key fits")
        return data[len(self.name) :][::-1]

    def reseal(self, data: bytes) -> bytes:
        return self.seal(self.unseal(data))


def test_a_runs_key_is_stored_sealed_and_opened_again() -> None:
    keys = RunKeys(Ring)
    cipher, sealed = keys.new(RUN)
    again = keys.cipher(RUN, sealed)
    assert again is not None
    assert again.unseal("place", cipher.seal("place", b"data")) == b"data"


def test_a_run_without_a_key_is_not_encrypted_and_no_keyring_is_opened() -> None:
    def never() -> Any:
        raise AssertionError

    assert RunKeys(never).cipher(RUN, None) is None


@pytest.mark.parametrize("keys", [RunKeys(lambda: Ring(b"other:")), RunKeys()], ids=["another keyring", "no keyring"])
def test_without_its_key_a_run_says_so(keys: RunKeys) -> None:
    _, sealed = RunKeys(Ring).new(RUN)
    with pytest.raises(RunKeyMissing, match="Run run-1 is encrypted and its key is not here") as raised:
        keys.cipher(RUN, sealed)
    assert "ENCRYPTION_KEY" in raised.value.hint
