"""How agent-fabric was installed, and so with which command an optional part is added."""

import json
import re
import shlex
import shutil
import sys
import tomllib
from collections.abc import Iterable
from importlib.metadata import Distribution, PackageNotFoundError
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

PACKAGE = "agent-fabric"
_HINT = re.compile(r'pip install (--upgrade )?"agent-fabric\[(\w+)\]"')


class Installation(NamedTuple):
    """An environment that has agent-fabric."""

    prefix: Path
    """Folder of the environment."""
    python: Path
    """Its interpreter."""
    checkout: Path | None
    """The folder of the source that it is installed from and that changes are made in."""
    has_pip: bool
    is_active: bool
    """Whether `pip` in a terminal is the one of this environment."""

    def command(self, extra: str, *, upgrade: bool = False) -> str:
        """Return the command that adds an optional part, or brings it up to date."""
        newer = "--upgrade " if upgrade else ""
        if (self.prefix / "pipx_metadata.json").exists():
            return f'pipx runpip {PACKAGE} install {newer}"{PACKAGE}[{extra}]"'
        if (receipt := self.prefix / "uv-receipt.toml").exists():
            extras = ",".join(sorted({*_extras_in(receipt), extra}))
            return f'uv tool install {newer}"{PACKAGE}[{extras}]"'
        what = f'"{PACKAGE}[{extra}]"' if self.checkout is None else f'-e "{self.checkout}[{extra}]"'
        if not self.has_pip:
            return f"uv pip install --python {shlex.quote(str(self.python))} {newer}{what}"
        pip = "pip" if self.is_active else f"{shlex.quote(str(self.python))} -m pip"
        return f"{pip} install {newer}{what}"


def this_installation() -> Installation:
    """Return the environment of this process."""
    prefix, python = Path(sys.prefix), Path(sys.executable)
    found = shutil.which("pip")
    return Installation(
        prefix=prefix,
        python=python,
        checkout=_checkout(),
        has_pip=find_spec("pip") is not None,
        is_active=found is not None and Path(found).parent == python.parent,
    )


def fit_install_hints(text: str) -> str:
    """Return a text in which every `pip install "agent-fabric[…]"` is the command for this installation."""
    if "pip install" not in text:
        return text
    return _HINT.sub(lambda found: this_installation().command(found[2], upgrade=bool(found[1])), text)


def _extras_in(receipt: Path) -> Iterable[str]:
    """Return the optional parts that `uv tool` has installed."""
    try:
        listed = tomllib.loads(receipt.read_text(encoding="utf-8"))["tool"]["requirements"]
        return [extra for each in listed if each["name"] == PACKAGE for extra in each.get("extras", ())]
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return ()  # a form of the file that we do not know


def _checkout() -> Path | None:
    try:
        text = Distribution.from_name(PACKAGE).read_text("direct_url.json")
        source = json.loads(text) if text else {}
    except (PackageNotFoundError, OSError, ValueError):
        return None
    if not source.get("dir_info", {}).get("editable"):
        return None
    return Path(unquote(urlsplit(source["url"]).path)) if source.get("url") else None
