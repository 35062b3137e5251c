"""The keys that seal what we keep."""

import base64
import os
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest
from cryptography.fernet import Fernet

from agent_fabric.domain.errors import ConfigError, FabricError, StoreUnavailable
from agent_fabric.infrastructure.secrets.keyring import FILE_NAME, SETTLE_S, open_keyring

A, B = Fernet.generate_key().decode(), Fernet.generate_key().decode()


def home(folder: Path) -> dict[str, str]:
    return {"HOME": str(folder)}


def key_file(folder: Path) -> Path:
    return folder / ".local" / "share" / "agent-fabric" / FILE_NAME


def test_the_key_is_made_when_it_is_first_needed_and_only_its_owner_reads_it(tmp_path: Path) -> None:
    keyring = open_keyring(home(tmp_path))
    assert keyring.generations() == ()
    assert not key_file(tmp_path).exists()

    sealed = keyring.seal(b"to be kept")

    assert b"to be kept" not in sealed
    assert stat.S_IMODE(key_file(tmp_path).stat().st_mode) == 0o600
    assert open_keyring(home(tmp_path)).unseal(sealed) == b"to be kept"
    assert keyring.generation not in key_file(tmp_path).read_text()


def test_the_environment_gives_keys_of_which_the_first_seals() -> None:
    old = open_keyring({"ENCRYPTION_KEY": A}).seal(b"x")
    both = open_keyring({"ENCRYPTION_KEY": f"{B}, {A}"})
    assert both.unseal(old) == b"x"
    assert both.generation == open_keyring({"ENCRYPTION_KEY": B}).generation
    assert Fernet(B).decrypt(both.reseal(old)) == b"x"
    assert both.generation_of(old) == open_keyring({"ENCRYPTION_KEY": A}).generation


@pytest.mark.parametrize("text", ["short", "ü" * 44, A[:-2], f"{A},nonsense", f"{A}{B}"])
def test_what_is_no_key_is_refused_with_how_to_make_one_and_not_repeated(text: str) -> None:
    with pytest.raises(ConfigError, match="ENCRYPTION_KEY") as caught:
        open_keyring({"ENCRYPTION_KEY": text})
    assert "urlsafe_b64encode" in caught.value.hint
    assert text not in caught.value.message


@pytest.mark.proves("WA-8")
@pytest.mark.parametrize("key", [bytes(32), bytes(range(32)), b"password" * 4, b"changemechangemechangemechangem1"])
def test_a_key_that_can_be_guessed_seals_nothing_but_still_opens(key: bytes) -> None:
    weak = base64.urlsafe_b64encode(key).decode()
    with pytest.raises(ConfigError, match=r"first key in ENCRYPTION_KEY .*guessed") as caught:
        open_keyring({"ENCRYPTION_KEY": weak})
    assert "fabric secrets rotate" in caught.value.hint
    assert weak not in caught.value.message + caught.value.hint
    assert open_keyring({"ENCRYPTION_KEY": f"{A},{weak}"}).unseal(Fernet(weak).encrypt(b"x")) == b"x"


@pytest.mark.parametrize("text", ["", "  "])
def test_an_empty_variable_counts_as_none(tmp_path: Path, text: str) -> None:
    assert open_keyring({**home(tmp_path), "ENCRYPTION_KEY": text}).place == str(key_file(tmp_path))


def test_a_user_without_a_home_is_told_to_give_a_key() -> None:
    with pytest.raises(ConfigError, match="no home") as caught:
        open_keyring({})
    assert "ENCRYPTION_KEY" in caught.value.hint


@pytest.mark.parametrize("sealed", [b"", b"nonsense", b"\xff\x00", b"gAAAAA" + b"A" * 100])
def test_what_no_key_opens_says_so(sealed: bytes) -> None:
    with pytest.raises(StoreUnavailable, match="no key in ENCRYPTION_KEY opens this") as caught:
        open_keyring({"ENCRYPTION_KEY": A}).unseal(sealed)
    assert "backup" in caught.value.hint


def test_what_was_changed_by_one_letter_is_refused() -> None:
    keyring = open_keyring({"ENCRYPTION_KEY": A})
    sealed = bytearray(keyring.seal(b"x" * 64))
    sealed[60] = ord("A") if sealed[60] != ord("A") else ord("B")
    with pytest.raises(StoreUnavailable):
        keyring.unseal(bytes(sealed))


def test_opening_makes_no_key(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable, match="there is no key"):
        open_keyring(home(tmp_path)).unseal(b"something")
    assert not key_file(tmp_path).exists()


def test_a_rotation_elsewhere_counts_at_once_and_old_keys_still_open(tmp_path: Path) -> None:
    ours, theirs = open_keyring(home(tmp_path)), open_keyring(home(tmp_path))
    before, first = ours.seal(b"x"), ours.generation
    second = theirs.rotate()
    assert ours.generation == second != first
    assert ours.generation_of(ours.seal(b"y")) == second
    assert ours.unseal(before) == b"x"
    assert ours.reseal(before) != before
    assert ours.reseal(ours.reseal(before)) != before
    assert ours.generations() == (second, first)


def test_what_is_sealed_with_the_newest_key_is_not_sealed_again() -> None:
    keyring = open_keyring({"ENCRYPTION_KEY": A})
    sealed = keyring.seal(b"x")
    assert keyring.reseal(sealed) == sealed


def test_old_keys_are_forgotten_only_when_nobody_can_still_be_using_them(tmp_path: Path) -> None:
    keyring = open_keyring(home(tmp_path))
    before = keyring.seal(b"x")
    keyring.rotate()
    with pytest.raises(ConfigError, match="just now"):
        keyring.drop_old()
    long_ago = time.time() - SETTLE_S - 1
    os.utime(key_file(tmp_path), (long_ago, long_ago))
    keyring.drop_old()
    assert len(keyring.generations()) == 1
    with pytest.raises(StoreUnavailable):
        keyring.unseal(before)


def test_keys_of_the_environment_are_not_ours_to_change() -> None:
    keyring = open_keyring({"ENCRYPTION_KEY": f"{B},{A}"})
    assert not keyring.makes_keys
    with pytest.raises(ConfigError, match="yours to add"):
        keyring.rotate()
    with pytest.raises(ConfigError, match="yours to remove"):
        keyring.drop_old()


@pytest.mark.parametrize("content", [b"not a key\n", b"\x00\xff\n", (A + "\nrubbish\n").encode()])
def test_a_damaged_key_file_is_never_replaced(tmp_path: Path, content: bytes) -> None:
    path = key_file(tmp_path)
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    path.chmod(0o600)
    with pytest.raises(StoreUnavailable, match="damaged"):
        open_keyring(home(tmp_path)).seal(b"x")
    assert path.read_bytes() == content


def test_a_key_file_that_others_may_read_is_refused(tmp_path: Path) -> None:
    keyring = open_keyring(home(tmp_path))
    keyring.seal(b"x")
    key_file(tmp_path).chmod(0o640)
    with pytest.raises(StoreUnavailable, match="others on this machine") as caught:
        open_keyring(home(tmp_path)).seal(b"x")
    assert "chmod 600" in caught.value.hint


def test_a_place_that_cannot_be_written_is_explained(tmp_path: Path) -> None:
    (tmp_path / ".local").write_text("a file, not a folder")
    with pytest.raises(FabricError) as caught:
        open_keyring(home(tmp_path)).seal(b"x")
    assert caught.value.hint


def test_processes_that_start_at_once_agree_on_one_key(tmp_path: Path) -> None:
    program = (
        "import os\n"
        "from agent_fabric.infrastructure.secrets.keyring import open_keyring\n"
        "print(open_keyring(os.environ).generation)\n"
    )
    processes = [
        subprocess.Popen([sys.executable, "-c", program], env=home(tmp_path), stdout=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    assert len({process.communicate(timeout=60)[0] for process in processes}) == 1
    assert len(open_keyring(home(tmp_path)).generations()) == 1
