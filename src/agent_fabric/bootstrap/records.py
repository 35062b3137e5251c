"""Opens what a fabric folder keeps: its store, its runs, its secrets and its backups.

Commands that only read import nothing else of `bootstrap`: nothing that drives a run is imported here.
"""

import getpass
import os
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from agent_fabric.config.store_address import StoreAddress, find_store_address, resolve_url
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import ConfigError
from agent_fabric.domain.identity.principals import Kind, Principal, Scope, widen
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.observability.findings import HealthFinding
from agent_fabric.infrastructure.audit.audit_head_file import audit_head_file
from agent_fabric.infrastructure.audit.audit_key_file import audit_key
from agent_fabric.infrastructure.clock import RandomIds, SystemClock
from agent_fabric.infrastructure.runs.log.folder_trust import claim, require_ours
from agent_fabric.infrastructure.runs.log.layout import Layout, recorded_server

if TYPE_CHECKING:
    from agent_fabric.application.audit.send_head import SendHead
    from agent_fabric.application.cluster.require_keys import KeyState
    from agent_fabric.application.identity.manage_api_keys import ManageApiKeys
    from agent_fabric.application.observability.check_services import FindProblem
    from agent_fabric.application.ports.approvals import ApprovalRepository
    from agent_fabric.application.ports.audit import AuditChain, ChainReport
    from agent_fabric.application.ports.cluster import Introduction
    from agent_fabric.application.ports.database import CopiedStore, DatabaseUpkeep, Tell
    from agent_fabric.application.ports.runs import RunListing, RunRepository
    from agent_fabric.application.ports.secrets import Resolve
    from agent_fabric.application.ports.storage import Storage
    from agent_fabric.application.ports.vitals import StoreStatus
    from agent_fabric.application.ports.wake_ups import WakeUps
    from agent_fabric.application.ports.workspace_archive import ObjectStore
    from agent_fabric.application.secrets.rotate_keys import RotateKeys
    from agent_fabric.config.schema.audit import AuditConfig
    from agent_fabric.config.schema.fabric import FabricConfig
    from agent_fabric.config.schema.secrets import SecretsConfig
    from agent_fabric.config.schema.store import StoreConfig
    from agent_fabric.domain.secrets.references import KnownSecrets
    from agent_fabric.infrastructure.backup.folder_backups import FolderBackups
    from agent_fabric.infrastructure.runs.log.jsonl_log import JsonlRunLog, RunIndex
    from agent_fabric.infrastructure.runs.log.snapshots import SnapshotFolder
    from agent_fabric.infrastructure.runs.workspaces.saved_folders import SavedFolders
    from agent_fabric.infrastructure.secrets.folder_secrets import Secrets
    from agent_fabric.infrastructure.secrets.key_needs import KeyNeeds
    from agent_fabric.infrastructure.secrets.keyring import Keyring


def has_store(root: Path) -> bool:
    """Tell whether a fabric folder has a store already; a database of its own counts, whatever is in it.

    Raises:
        ConfigProblem, ConfigError: see `store_address`.
    """
    return (root / "fabric.db").exists() or store_address(root).is_remote


def store_address(root: Path) -> StoreAddress:
    """Return where the store of a fabric folder is. The configuration is loaded only if there is no other way.

    Raises:
        ConfigProblem: the setting is wrong.
        ConfigError: it stands in a folder that was made elsewhere and is not trusted: it could name any server.
    """
    found = find_store_address(os.environ, root)
    if found is None:
        from agent_fabric.config.loader import load_config  # noqa: PLC0415 - see above

        require_ours(root, audit_key(os.environ))
        return configured_address(load_config(fabric_folder=root).config.store, os.environ)
    if found.from_folder and found.is_remote:
        require_ours(root, audit_key(os.environ))
    return found


def configured_address(store: "StoreConfig", environ: Mapping[str, str]) -> StoreAddress:
    """Return where the store is, of a configuration that was loaded.

    Raises:
        ConfigProblem: it refers to a variable that is not set.
    """
    return StoreAddress(resolve_url(store.url, environ), store.pool)


@dataclass(frozen=True, slots=True)
class Records:
    """The folder and the store of all runs."""

    layout: Layout
    storage: "Storage"
    wake_ups: "WakeUps | None" = None
    """Wakes what waits for what is written here; None: others find it when they look."""
    archive: "SavedFolders | None" = None
    """Where files of runs are saved for other machines, if that is configured and known here."""

    @property
    def runs(self) -> "RunRepository":
        if self.wake_ups is None:
            return self.storage.runs
        from agent_fabric.infrastructure.cluster.wake_ups.pokes import PokingRuns  # noqa: PLC0415 - servers do

        return PokingRuns(self.storage.runs, self.wake_ups)

    @property
    def catalogue(self) -> "RunListing":
        return self.storage.catalogue

    @property
    def approvals(self) -> "ApprovalRepository":
        """What runs have asked people."""
        if self.wake_ups is None:
            return self.storage.approvals
        from agent_fabric.infrastructure.cluster.wake_ups.pokes import PokingApprovals  # noqa: PLC0415 - as above

        return PokingApprovals(self.storage.approvals, self.wake_ups)

    def has_server(self) -> bool:
        """Tell whether a server takes up these runs, so that an answer is enough for a run to continue."""
        return self.storage.leases.is_served()

    def snapshots_for(self, run_id: RunId) -> "SnapshotFolder":
        """Return the pages that a run has fetched."""
        from agent_fabric.infrastructure.runs.log.snapshots import SnapshotFolder  # noqa: PLC0415 - lists need none

        return SnapshotFolder(self.layout.snapshots(run_id), lambda: self.storage.encryption.cipher_of(run_id))

    def close(self) -> None:
        self.storage.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _keyring(root: Path) -> "Keyring":
    from agent_fabric.infrastructure.secrets.keyring import open_keyring  # noqa: PLC0415 - few runs need it

    return open_keyring(os.environ, root)


def _open_storage(layout: Layout, address: StoreAddress, **more: Any) -> "Storage":
    from agent_fabric.infrastructure.persistence.storage import open_storage  # noqa: PLC0415 - commands for a server open none

    key = audit_key(os.environ)
    heads = audit_head_file(layout.root, key, os.environ)
    return open_storage(
        layout.root, address=address, clock=SystemClock(), ids=RandomIds(), audit_key=key, audit_heads=heads, **more
    )


def open_records(
    root: Path, address: StoreAddress | None = None, *, introduction: "Introduction | None" = None
) -> Records:
    """Open the runs of a fabric folder, making it if needed; `address`: where their store is, if that is known.

    `introduction` is what this process says about itself to others that share the store.

    Raises:
        ConfigProblem, ConfigError: see `store_address`.
    """
    layout = Layout(root.absolute())
    place = store_address(layout.root) if address is None else address
    layout.make()
    claim(layout.root, audit_key(os.environ))
    storage = _open_storage(
        layout,
        place,
        run_dir=layout.own_run_dir,
        open_keyring=lambda: _keyring(layout.root),
        followers=lambda: _mirrors(layout),
        introduction=introduction,
    )
    return Records(layout, storage)


def _mirrors(layout: Layout) -> "tuple[JsonlRunLog, RunIndex]":
    from agent_fabric.infrastructure.runs.log.jsonl_log import JsonlRunLog, RunIndex  # noqa: PLC0415 - those who write need it

    return JsonlRunLog(layout), RunIndex(layout)


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


@contextmanager
def opened_store(root: Path) -> "Iterator[Storage]":
    """Give the store. Nothing is opened before something is read or written."""
    layout = Layout(root.absolute())
    storage = _open_storage(layout, store_address(layout.root), run_dir=layout.run_dir)
    try:
        yield storage
    finally:
        storage.close()


def running_server(root: Path) -> str | None:
    """Return the address of the server that runs for a folder; None without one."""
    url = recorded_server(root)
    if url is None:
        return None
    from agent_fabric.infrastructure.persistence.storage import open_storage  # noqa: PLC0415 - mostly, no server runs

    storage = open_storage(root, clock=SystemClock(), ids=RandomIds(), run_dir=Layout(root).run_dir)
    return url if storage.leases.is_served() else None


def open_secrets(
    config: "SecretsConfig",
    root: Path,
    environ: Mapping[str, str],
    *,
    known: "KnownSecrets | None" = None,
    never: Iterable[str] = (),
) -> "Secrets":
    """Return the secrets of a fabric folder; `known` learns those that are used, `never` are for no workflow."""
    from agent_fabric.infrastructure.secrets import folder_secrets  # noqa: PLC0415 - lists need none

    def learn(values: Mapping[str, str]) -> None:
        from agent_fabric.infrastructure.observability.operations_log import keep_out  # noqa: PLC0415 - as above

        keep_out(values.values())
        if known is not None:
            known.learn(values)

    return folder_secrets.open_secrets(config, root, environ, learn=learn, never=never)


def listed_keys(records: Records) -> "ManageApiKeys":
    """Return the use case that lists the API keys of a folder; who makes some opens all of `identity`."""
    from agent_fabric.application.identity.manage_api_keys import ManageApiKeys  # noqa: PLC0415 - few list keys
    from agent_fabric.infrastructure.identity.own_secrets import PepperedHash, key_pepper  # noqa: PLC0415 - as above

    hasher = PepperedHash(key_pepper(records.layout.root, os.environ))
    return ManageApiKeys(records.storage.api_keys, hasher, records.storage.clock)


def resealing(secrets: "Secrets", storage: "Storage") -> "RotateKeys":
    """Return the use case that seals everything anew."""
    from agent_fabric.application.secrets.rotate_keys import RotateKeys  # noqa: PLC0415 - few need it

    return RotateKeys(secrets.keyring(), secrets.file, storage)


def key_needs() -> "KeyNeeds":
    """Return what knows which keys folders and backups need."""
    from agent_fabric.infrastructure.secrets.key_needs import KeyNeeds  # noqa: PLC0415 - few need it

    return KeyNeeds(opened_store)


def folder_backups(root: Path) -> "FolderBackups":
    """Return the backups of a fabric folder."""
    from agent_fabric.application.audit.verify_chain import AcceptHead  # noqa: PLC0415 - few need it
    from agent_fabric.infrastructure.backup.folder_backups import FolderBackups  # noqa: PLC0415 - as above

    return FolderBackups(root, opened_store, lambda storage, act: AcceptHead(storage.chain, storage.acts)(act))


def missing_record(root: Path) -> "ChainReport | None":
    """Report that a fabric folder has no store any more, although a head of it was kept; None if none was."""
    from agent_fabric.application.ports.audit import ChainReport, HeadDamaged  # noqa: PLC0415 - few need it

    heads = audit_head_file(root, audit_key(os.environ), os.environ)
    try:
        kept = None if heads is None else heads.read()
    except HeadDamaged:
        return None
    if kept is None or not kept.position:
        return None
    said = (
        f"the store is gone: {kept.position} entries of its chain were recorded outside of it; restore it with "
        "`fabric db restore`"
    )
    return ChainReport(entries=0, runs=0, removed=0, head="", damage=(said,), kept_head=kept.hash.hex())


@asynccontextmanager
async def head_sender(
    chain: "AuditChain", root: Path, config: "AuditConfig", resolve: "Resolve"
) -> AsyncIterator["SendHead"]:
    """Give the use case that sends heads of the audit chain to where the configuration says."""
    from agent_fabric.application.audit.send_head import SendHead  # noqa: PLC0415 - few do
    from agent_fabric.infrastructure.audit.audit_head_places import head_place  # noqa: PLC0415 - as above
    from agent_fabric.infrastructure.observability.alert_webhook import AlertWebhook  # noqa: PLC0415 - as above

    clock = SystemClock()
    addresses = {place: config.secret for place in config.head_to if "://" in place}
    webhook = AlertWebhook(addresses, resolve, clock, setting="audit")
    try:
        yield SendHead(chain, [head_place(name, webhook) for name in config.head_to], clock, str(root))
    finally:
        await webhook.aclose()


async def store_status(root: Path, *, check: bool) -> "StoreStatus":
    """Return the status of the store of a fabric folder."""
    with opened_store(root) as storage:
        return await storage.gauge.status(check=check)


def database_of(root: Path, address: StoreAddress | None = None) -> "DatabaseUpkeep | None":
    """Return what looks after the database of a fabric folder; None if its store is a file in it.

    Raises:
        ConfigProblem, ConfigError: see `store_address`.
        MissingExtra: the driver is not installed.
    """
    place = store_address(root) if address is None else address
    if not place.is_remote:
        return None
    from agent_fabric.infrastructure.persistence.storage import open_upkeep  # noqa: PLC0415 - most stores are files

    return open_upkeep(place, audit_key=audit_key(os.environ), open_keyring=lambda: _keyring(root.absolute()))


def copy_store(source: Path, root: Path, *, by: Principal, damaged: bool, tell: "Tell") -> "CopiedStore":
    """Copy the store of a folder into the database of another, or of the same one. It goes into the audit chain.

    Raises:
        ConfigError: no database is configured.
        FabricError: see `DatabaseUpkeep.copy_from`.
    """
    from agent_fabric.domain.audit.acts import Act, Deed  # noqa: PLC0415 - one command needs it
    from agent_fabric.infrastructure.threads import wait_for  # noqa: PLC0415 - as above

    database = database_of(root)
    if database is None:
        raise ConfigError(
            "No database is configured that the folder could be copied into",
            hint="Set `store.url`, for example: export FABRIC_STORE__URL=postgresql://fabric@localhost/fabric",
        )
    done = database.copy_from(source.absolute(), damaged=damaged, tell=tell)
    detail = f"{done.runs} runs and {done.events} events into {database.place}"
    act = Act.of(by, Deed.STORE_COPIED, at=SystemClock().now(), about=str(source.absolute()), detail=detail)
    with opened_store(root) as storage:
        wait_for(storage.acts.record(act))
    return done


def store_findings(root: Path, address: StoreAddress) -> "list[HealthFinding]":
    """Tell whether the database can hold runs; nothing about a file in the folder."""
    from agent_fabric.application.observability.check_database import examine_database  # noqa: PLC0415 - few need it

    return examine_database(lambda: database_of(root, address), pool=address.pool)


async def service_findings(config: "FabricConfig", root: Path) -> "list[HealthFinding]":
    """Return a line for each service of a cluster that is configured. Without them a task can run all the same."""
    from agent_fabric.application.observability.check_services import CheckServices  # noqa: PLC0415 - few need it
    from agent_fabric.infrastructure.runs.workspaces.open_archive import open_objects  # noqa: PLC0415 - as above

    def redis() -> "FindProblem":
        from agent_fabric.infrastructure.identity.limits.redis_limiter import find_redis_problem  # noqa: PLC0415 - few have it

        return find_redis_problem

    def nats() -> "FindProblem":
        from agent_fabric.infrastructure.cluster.nats.connection import find_nats_problem  # noqa: PLC0415 - few have it

        return find_nats_problem

    def objects() -> "ObjectStore":
        return open_objects(config.workspaces, open_secrets(config.secrets, root, os.environ).chain.resolve)

    return await CheckServices(redis, nats, objects)(config, os.environ)


def key_states(root: Path, config: "FabricConfig", *, accept: bool = False) -> "list[KeyState]":
    """Compare all keys of this process with those of the cluster; `accept` lets those here count from now on.

    Raises:
        FabricError: a key cannot be had, or the store not be used.
    """
    from agent_fabric.application.cluster import require_keys as keys  # noqa: PLC0415 - one command needs it
    from agent_fabric.application.ports.key_fingerprints import ENCRYPTION  # noqa: PLC0415 - as above
    from agent_fabric.infrastructure.fleet.key_files import hub_key  # noqa: PLC0415 - it loads ciphers
    from agent_fabric.infrastructure.identity.own_secrets import key_pepper, token_secret  # noqa: PLC0415 - as above
    from agent_fabric.infrastructure.threads import wait_for  # noqa: PLC0415 - as above

    resolve, pepper = open_secrets(config.secrets, root, os.environ).chain.resolve, key_pepper(root, os.environ)
    signing = token_secret(root, config.identity.jwt_secret, os.environ, resolve, shared=bool(config.store.url))
    own = {
        keys.AUDIT: audit_key(os.environ).name,
        ENCRYPTION: _keyring(root).generation,
        keys.JWT: keys.fingerprint(keys.JWT, signing),
        keys.HUB: keys.fingerprint(keys.HUB, hub_key(root, pepper=pepper).seed),
        keys.PEPPER: keys.fingerprint(keys.PEPPER, pepper),
    }
    with opened_store(root) as storage:
        return wait_for(keys.compare_keys(storage.fingerprints, own, accept=accept))
