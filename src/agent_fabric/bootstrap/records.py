"""Opens the runs of a fabric folder, for commands that read them; nothing that drives a run is imported."""

import getpass
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

from agent_fabric.application.ports.approvals import ApprovalRepository
from agent_fabric.application.ports.runs import RunListing, RunRepository
from agent_fabric.application.ports.storage import Storage
from agent_fabric.bootstrap.store_place import store_address
from agent_fabric.config.store_address import StoreAddress
from agent_fabric.domain.identity.principals import Kind, Principal, Scope, widen
from agent_fabric.domain.ids import RunId
from agent_fabric.infrastructure.audit.audit_head_file import audit_head_file
from agent_fabric.infrastructure.audit.audit_key_file import audit_key
from agent_fabric.infrastructure.clock import RandomIds, SystemClock
from agent_fabric.infrastructure.persistence.storage import open_storage
from agent_fabric.infrastructure.runs.log.folder_trust import claim
from agent_fabric.infrastructure.runs.log.jsonl_log import JsonlRunLog
from agent_fabric.infrastructure.runs.log.layout import Layout
from agent_fabric.infrastructure.runs.log.run_index import RunIndex

if TYPE_CHECKING:
    from agent_fabric.application.ports.cluster import Introduction
    from agent_fabric.application.ports.wake_ups import WakeUps
    from agent_fabric.infrastructure.runs.log.snapshots import SnapshotFolder
    from agent_fabric.infrastructure.runs.workspaces.saved_folders import SavedFolders
    from agent_fabric.infrastructure.secrets.keyring import Keyring


@dataclass(frozen=True, slots=True)
class Records:
    """The folder, the store and the log files of all runs."""

    layout: Layout
    storage: Storage
    runlog: JsonlRunLog
    run_index: RunIndex
    wake_ups: "WakeUps | None" = None
    """Wakes whoever waits for what is written here; None: others find it when they look."""
    archive: "SavedFolders | None" = None
    """Where files of runs are saved for other machines, if that is configured and known here."""

    @property
    def runs(self) -> RunRepository:
        """Runs and their logs."""
        if self.wake_ups is None:
            return self.storage.runs
        from agent_fabric.infrastructure.cluster.wake_ups.poking_repositories import PokingRuns  # noqa: PLC0415 - servers do

        return PokingRuns(self.storage.runs, self.wake_ups)

    @property
    def catalogue(self) -> RunListing:
        """Lists and searches."""
        return self.storage.catalogue

    @property
    def approvals(self) -> ApprovalRepository:
        """What runs have asked people."""
        if self.wake_ups is None:
            return self.storage.approvals
        from agent_fabric.infrastructure.cluster.wake_ups.poking_repositories import PokingApprovals  # noqa: PLC0415 - as above

        return PokingApprovals(self.storage.approvals, self.wake_ups)

    def has_server(self) -> bool:
        """Tell whether a server takes up these runs, so that an answer is enough for a run to continue."""
        return self.storage.leases.is_served()

    def snapshots_for(self, run_id: RunId) -> "SnapshotFolder":
        """Return the pages that a run has fetched."""
        from agent_fabric.infrastructure.runs.log.snapshots import SnapshotFolder  # noqa: PLC0415 - lists need none

        return SnapshotFolder(self.layout.snapshots(run_id), lambda: self.storage.encryption.cipher_of(run_id))

    def close(self) -> None:
        """Finish every write."""
        self.storage.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _keyring(root: Path) -> "Keyring":
    from agent_fabric.infrastructure.secrets.keyring import open_keyring  # noqa: PLC0415 - few runs need it

    return open_keyring(os.environ, root)


def open_records(
    root: Path, address: StoreAddress | None = None, *, introduction: "Introduction | None" = None
) -> Records:
    """Open the runs of a fabric folder, making it if needed; `address`: where their store is, if that is known.

    `introduction` is what this process says about itself to others that share the store.

    Raises:
        ConfigProblem, ConfigError: see `store_address`.
    """
    layout = Layout(root.absolute())
    key = audit_key(os.environ)
    place = store_address(layout.root) if address is None else address
    layout.make()
    claim(layout.root, key)
    runlog, run_index = JsonlRunLog(layout), RunIndex(layout)
    storage = open_storage(
        layout.root,
        address=place,
        clock=SystemClock(),
        ids=RandomIds(),
        run_dir=layout.own_run_dir,
        audit_key=key,
        audit_heads=audit_head_file(layout.root, key, os.environ),
        open_keyring=lambda: _keyring(layout.root),
        followers=(runlog, run_index),
        introduction=introduction,
    )
    return Records(layout, storage, runlog, run_index)


def owner_here() -> Principal:
    """Return who works in the fabric folder itself, at its terminal: they may do everything, unless it is a run."""
    from agent_fabric.infrastructure.sandbox.run_processes import acting_run  # noqa: PLC0415 - most commands change nothing

    owner, run = Principal(this_person(), Kind.LOCAL, widen((Scope.ADMIN,))), acting_run()
    return owner.acting_for(run) if run else owner


def this_person() -> str:
    """Name the person at this terminal, for the log."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return "unknown"
