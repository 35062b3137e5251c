"""Keeps a switch of our llama-server for the next start."""

import contextlib
import hashlib
import json
import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from agent_fabric.config.folders import base_folder, temporary_folder
from agent_fabric.config.schema.models import ManagedLlamaConfig

_LOG: Final = logging.getLogger("agent_fabric.models")
_ONLY_CONFIGURED: Final = frozenset({"command", "extra_args"})
"""They decide which program runs, so that a file beside the configuration must not set them."""


class SwitchedModel:
    """What a person switched to, in a file of the user's own; a changed configuration counts for more."""

    def __init__(self, configured: ManagedLlamaConfig, root: Path, environ: Mapping[str, str]) -> None:
        """Take the switch of one fabric folder, `root`."""
        self._configured = configured
        state = base_folder(environ, "XDG_STATE_HOME", ".local", "state") or temporary_folder()
        told = json.dumps([str(root.absolute()), configured.model_dump(mode="json")], sort_keys=True)
        self._path = state / "switched-models" / f"{hashlib.sha256(told.encode()).hexdigest()[:32]}.json"

    def read(self) -> ManagedLlamaConfig:
        """Return what to start with: what was switched to last, else what is configured."""
        try:
            changes = json.loads(self._path.read_bytes())
            kept = {name: value for name, value in changes.items() if name not in _ONLY_CONFIGURED}
            return ManagedLlamaConfig.model_validate({**self._configured.model_dump(), **kept})
        except FileNotFoundError:
            return self._configured
        except (OSError, ValueError, AttributeError, ValidationError) as problem:
            _LOG.warning("The last switch of the model in %s cannot be used: %s", self._path, problem)
            return self._configured

    def write(self, now: ManagedLlamaConfig) -> None:
        """Keep what was switched to; that it cannot be kept is logged, since the switch itself has happened."""
        before: dict[str, Any] = self._configured.model_dump(mode="json")
        changes = {name: value for name, value in now.model_dump(mode="json").items() if value != before[name]}
        fresh = self._path.with_suffix(f".{os.getpid()}.new")
        try:
            if not changes:
                self._path.unlink(missing_ok=True)
                return
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            fresh.write_text(json.dumps(changes))
            fresh.replace(self._path)
        except OSError as problem:
            _LOG.warning("The switch of the model is forgotten at the next start: %s", problem)
        finally:
            with contextlib.suppress(OSError):
                fresh.unlink(missing_ok=True)
