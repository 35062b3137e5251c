"""Where the store is: in the fabric folder, or in a PostgreSQL database.

Commands that only read runs must know it, and must not load the whole configuration for it: that takes longer than the
reading. So the two settings are found here in plain files and variables. Where that is not certain, None is returned,
and the loader decides.
"""

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from agent_fabric.config.dotenv import read_dotenv
from agent_fabric.config.files import MAX_FILE_BYTES, parse_settings, read_beginning, user_folder
from agent_fabric.config.problems import ConfigProblem
from agent_fabric.config.secret_references import HIDDEN, NAME
from agent_fabric.config.variable_names import CONFIG_PATH, PREFIX

DEFAULT_POOL: Final = 8
MIN_POOL: Final = 2
"""One connection writes, the others read."""
MAX_POOL: Final = 1_000
URL_VARIABLE: Final = f"{PREFIX}STORE__URL"
POOL_VARIABLE: Final = f"{PREFIX}STORE__POOL"

_ADDRESS: Final = re.compile(r"postgres(?:ql)?://[!-~]*")
_REFERENCE: Final = re.compile(f"env:({NAME})")
_PASSWORD: Final = re.compile(r"(?<=://)([^:@/?]*):(.*)@")
_PASSWORD_OPTION: Final = re.compile(r"(?<=[?&])((?:ssl)?password)=([^&]*)")
_MENTIONS: Final = re.compile(rb"store|\\[uUx]")
"""A file without this sets nothing of the store; most are not parsed for it."""
_SUFFIXES: Final = (".json", ".yaml", ".yml", ".toml")
_KEYS: Final = frozenset({"url", "pool"})


class StoreAddress(NamedTuple):
    """Where the store is."""

    url: str = ""
    """Address of a PostgreSQL database; empty: the SQLite file in the fabric folder."""
    pool: int = DEFAULT_POOL
    """Most connections of one process."""
    from_folder: bool = False
    """Whether a file in or beside the fabric folder says so, which someone else may have written."""

    @property
    def is_remote(self) -> bool:
        """Whether the store is a database of its own."""
        return bool(self.url)

    def __repr__(self) -> str:
        return f"StoreAddress({without_password(self.url)!r}, pool={self.pool})"


def check_url(url: str) -> str:
    """Return an address as it stands in a setting.

    Raises:
        ConfigProblem: it is none.
    """
    if url and not _ADDRESS.fullmatch(url) and not _REFERENCE.fullmatch(url):
        raise ConfigProblem(
            "must be the address of a PostgreSQL database, or a reference such as 'env:DATABASE_URL'",
            hint="It looks like this: postgresql://USER:PASSWORD@HOST:5432/DATABASE. Other characters than ASCII, and "
            "@ : / ? # % and blanks in a password, are written as %40 and so on.",
        )
    return url


def resolve_url(url: str, environ: Mapping[str, str]) -> str:
    """Return the address itself where a setting refers to a variable.

    Raises:
        ConfigProblem: there is no such variable, or no address in it.
    """
    found = _REFERENCE.fullmatch(url)
    if found is None:
        return url
    value = environ.get(found[1], "").strip()
    if not _ADDRESS.fullmatch(value):
        state = "holds no address of a PostgreSQL database" if value else "is not set"
        raise ConfigProblem(
            f"store.url refers to the environment variable {found[1]}, which {state}",
            hint="It looks like this: postgresql://USER:PASSWORD@HOST:5432/DATABASE",
        )
    return value


def without_password(url: str) -> str:
    """Return an address as it may be shown. Too much is hidden rather than too little."""
    shown = _PASSWORD.sub(rf"\1:{HIDDEN}@", url)
    return _PASSWORD_OPTION.sub(rf"\1={HIDDEN}", shown)


def find_store_address(environ: Mapping[str, str], fabric_folder: Path) -> StoreAddress | None:
    """Return where the store of a folder is, without reading more than is needed; None: only the loader can tell.

    Raises:
        ConfigProblem: the address is a reference that leads nowhere.
    """
    try:
        found = _merge_layers(environ, fabric_folder)
    except (ConfigProblem, OSError):
        return None  # the loader says what is wrong
    if found is None:
        return None
    url, pool = found.get("url", ""), found.get("pool", DEFAULT_POOL)
    if not isinstance(url, str) or type(pool) is not int or not MIN_POOL <= pool <= MAX_POOL:
        return None
    try:
        check_url(url)
    except ConfigProblem:
        return None
    return StoreAddress(resolve_url(url, environ), pool, bool(found.get("from_folder")))


def _merge_layers(environ: Mapping[str, str], folder: Path) -> dict[str, Any] | None:
    """Return `url` and `pool` as the layers set them, the later over the earlier; None if that is not certain."""
    found: dict[str, Any] = {}
    for settings, is_of_folder in (*_of_files(environ, folder), *_of_dotenv(environ, folder)):
        store = settings.get("store", {})
        if not isinstance(store, dict) or not store.keys() <= _KEYS:
            return None
        found |= store
        if "url" in store:
            found["from_folder"] = is_of_folder
    store = _variables(environ)
    if store is None:
        return None
    found |= store
    if "url" in store:
        found["from_folder"] = False
    return found


def _of_files(environ: Mapping[str, str], folder: Path) -> Iterator[tuple[Mapping[str, Any], bool]]:
    chosen, own = environ.get(CONFIG_PATH), user_folder(environ)
    if chosen:
        places = [([Path(os.path.expanduser(chosen))], False)]  # noqa: PTH111 - unlike Path.expanduser it cannot fail
    else:
        places = [
            ([each / f"config{suffix}" for suffix in _SUFFIXES], each is folder)
            for each in (own, folder)
            if each is not None
        ]
    for paths, is_of_folder in places:
        texts = [(path, data) for path in paths if (data := _read(path)) is not None]
        mentioned = [each for each in texts if _MENTIONS.search(each[1])]
        if mentioned and len(texts) > 1:
            raise ConfigProblem("more than one file")
        for path, data in mentioned:
            yield parse_settings(data.decode("utf-8-sig"), path), is_of_folder


def _of_dotenv(environ: Mapping[str, str], folder: Path) -> Iterator[tuple[Mapping[str, Any], bool]]:
    given = {name: variable.value for name, variable in read_dotenv(folder).items() if not environ.get(name)}
    store = _variables(given)
    if store is None:
        raise ConfigProblem("the whole group in one variable")
    if store:
        yield {"store": store}, True


def _variables(environ: Mapping[str, str]) -> dict[str, Any] | None:
    """Return what variables set; None if the whole group is set at once, or a value is no number."""
    if environ.get(f"{PREFIX}STORE"):
        return None
    found: dict[str, Any] = {}
    if url := environ.get(URL_VARIABLE):
        found["url"] = url
    if pool := environ.get(POOL_VARIABLE):
        if not pool.isascii() or not pool.isdecimal():
            return None
        found["pool"] = int(pool)
    return found


def _read(path: Path) -> bytes | None:
    try:
        return read_beginning(path, MAX_FILE_BYTES) or b""
    except (FileNotFoundError, NotADirectoryError):
        return None
