"""Shows and changes the settings that may be changed on the page. They count when the next process reads them."""

import asyncio
import json
import os
from collections.abc import Callable, Mapping
from functools import reduce
from pathlib import Path
from typing import Any, NamedTuple

from agent_fabric.application.ports.audit import ActLog
from agent_fabric.application.ports.clock import Clock
from agent_fabric.config.installed_packs import installed_packs
from agent_fabric.config.loader import Loaded, load_config, read_config
from agent_fabric.config.problems import ConfigProblem
from agent_fabric.config.schema.fabric import FabricConfig
from agent_fabric.config.stored import EDITABLE, STORED, EditableSetting, editable_settings, read_stored, stored_file
from agent_fabric.domain.audit.acts import Act, Deed
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import InvalidInputs
from agent_fabric.domain.identity.principals import Principal


class ShownSetting(NamedTuple):
    """A setting as the page shows it."""

    path: str
    about: str
    kind: str
    choices: tuple[str, ...]
    optional: bool
    value: Any
    """What counts for a process that starts now."""
    running: Any
    """What counts in this process."""
    origin: str
    stored: bool
    """Whether it was changed on the page."""
    overruled: bool
    """Whether the environment or a flag counts instead of what was changed on the page."""


@dataclass(frozen=True, slots=True)
class StoredSettings:
    """The settings of a fabric folder that may be changed on the page."""

    root: Path
    running: FabricConfig
    acts: ActLog
    clock: Clock
    write: Callable[[Path, bytes], None]
    """Replaces a file that only its owner may read."""

    async def show(self) -> "list[ShownSetting]":
        """Return all of them, as they stand.

        Raises:
            InvalidInputs: the files hold settings that cannot be used.
        """
        return await asyncio.to_thread(self._show_all)

    async def change(self, values: Mapping[str, Any], *, by: Principal) -> "list[ShownSetting]":
        """Change some; None takes a change back. All of them or none; return all of them as they stand then.

        Raises:
            InvalidInputs: one may not be changed here, or its value cannot be used.
        """
        if unknown := [path for path in values if path not in EDITABLE]:
            raise InvalidInputs(
                f"{unknown[0]!r} cannot be changed here", hint="Change it in the configuration file, at the server."
            )
        await asyncio.to_thread(self._write, values)
        for path, value in values.items():
            detail = "as in the files" if value is None else json.dumps(value)
            act = Act.of(by, Deed.SETTING_CHANGED, at=self.clock.now(), about=path, detail=detail)
            await self.acts.record(act)
        return await self.show()

    def _show_all(self) -> "list[ShownSetting]":
        loaded, stored = self._read(), read_stored(self.root)
        return [self._show_setting(each, loaded, stored) for each in editable_settings(loaded.config)]

    def _show_setting(self, each: EditableSetting, loaded: Loaded, stored: Mapping[str, Any]) -> ShownSetting:
        origin = loaded.origins.get(each.path, "default")
        is_stored = _at(stored, each.path) is not None
        return ShownSetting(
            *each,
            value=_value(loaded.config, each.path),
            running=_value(self.running, each.path),
            origin=origin,
            stored=is_stored,
            overruled=is_stored and origin != STORED,
        )

    def _read(self) -> Loaded:
        try:
            return read_config(os.environ, fabric_folder=self.root, packages=installed_packs)
        except ConfigProblem as problem:
            raise InvalidInputs(problem.message, hint=problem.hint) from None

    def _write(self, values: Mapping[str, Any]) -> None:
        before = dict(read_stored(self.root))
        after: dict[str, Any] = json.loads(json.dumps(before))
        for name, value in values.items():
            _put(after, name.split("."), value)
        path = stored_file(self.root)
        self.write(path, json.dumps(after, indent=2).encode())
        try:
            self._read()  # with everything else, it has to make sense
        except InvalidInputs:
            self.write(path, json.dumps(before, indent=2).encode())
            raise
        load_config.cache_clear()


def _put(settings: dict[str, Any], path: list[str], value: Any) -> None:
    for part in path[:-1]:
        settings = settings.setdefault(part, {})
    if value is None:
        settings.pop(path[-1], None)
    else:
        settings[path[-1]] = value


def _at(settings: Mapping[str, Any], path: str) -> Any:
    found: Any = settings
    for part in path.split("."):
        found = found.get(part) if isinstance(found, Mapping) else None
    return found


def _value(config: FabricConfig, path: str) -> Any:
    return reduce(getattr, path.split("."), config)
