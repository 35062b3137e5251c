"""One signature covers a plan, and nothing beside it."""

import hashlib
from pathlib import Path

import pytest

from agent_fabric.domain.fleet.binding import approval_message
from agent_fabric.domain.fleet.plan_signatures import paths_of, plan_message, root_from, root_of, signatures_for
from agent_fabric.infrastructure.fleet.signing import SigningKey
from agent_fabric.infrastructure.node.floor_file import Floor

ADA, EVE = SigningKey.of(bytes([1]) * 32), SigningKey.of(bytes([2]) * 32)


def hashes(count: int) -> list[str]:
    return [hashlib.sha256(str(number).encode()).hexdigest() for number in range(count)]


@pytest.mark.proves("FL-24")
@pytest.mark.parametrize("count", [1, 2, 3, 5, 8, 13, 100])
def test_every_call_of_a_plan_leads_to_its_root_and_no_other_does(count: int) -> None:
    calls = hashes(count)
    root, paths = root_of(calls), paths_of(calls)
    assert all(root_from(call, path) == root for call, path in zip(calls, paths, strict=True))
    other = hashlib.sha256(b"other").hexdigest()
    assert all(root_from(other, path) != root for path in paths)
    assert root_of([*calls, other]) != root


def test_five_thousand_machines_need_thirteen_hashes_each() -> None:
    assert max(map(len, paths_of(hashes(5_000)))) == 13


@pytest.mark.proves("FL-18", "FL-19", "FL-24")
def test_a_machine_believes_a_signed_plan_for_its_own_call_only(tmp_path: Path) -> None:
    floor = Floor(signed=True, approvers={"ada": ADA.public}, quorum=1)
    calls = hashes(5)
    paths = paths_of(calls)
    signed = [{"approver": "ada", "signature": ADA.sign(plan_message(root_of(calls)))}]
    approval = {"hash": calls[3], "signatures": list(signatures_for(3, paths, signed))}
    assert floor.check_approval(calls[3], approval) == ""
    foreign = hashlib.sha256(b"foreign").hexdigest()
    for wrong in (
        {"hash": foreign, "signatures": list(signatures_for(3, paths, signed))},
        {"hash": calls[2], "signatures": list(signatures_for(3, paths, signed))},
        {"hash": calls[3], "signatures": signed},  # without its way to the root
        {"hash": calls[3], "signatures": [{**signed[0], "path": []}]},
        {"hash": calls[3], "signatures": [{**signed[0], "path": [["up", "00" * 32]]}]},
        {"hash": calls[3], "signatures": [{**signed[0], "path": [["left", "00" * 31]]}]},
        {"hash": calls[3], "signatures": [{**signed[0], "path": "x"}]},
        {"hash": calls[3], "signatures": [{**signed[0], "path": [7] * 40}]},
        {"hash": calls[3], "signatures": [{"approver": "ada", "signature": EVE.sign(plan_message(root_of(calls)))}]},
    ):
        assert floor.check_approval(str(wrong["hash"]), wrong), wrong
    # A root that is signed as a single call, and a call that is signed as a root, are good for neither.
    root = root_of(calls)
    single = {"approver": "ada", "signature": ADA.sign(approval_message(root))}
    assert floor.check_approval(calls[3], {"hash": calls[3], "signatures": [{**single, "path": paths[3]}]})
    bare = {"approver": "ada", "signature": ADA.sign(plan_message(calls[3]))}
    assert floor.check_approval(calls[3], {"hash": calls[3], "signatures": [{**bare, "path": []}]})
