"""Makes the sensors that the configuration and files of workflows ask for."""

from pathlib import Path

from agent_fabric.application.ports.sensors import Sensor
from agent_fabric.config.schema.automation import SensorConfig
from agent_fabric.domain.errors import ConfigError
from agent_fabric.infrastructure.automation.file_sensors import FileChangeSensor, FreshnessSensor
from agent_fabric.infrastructure.packs.plugins import open_packaged_sensor


def open_sensor(home: Path, name: str, config: SensorConfig) -> Sensor | None:
    """Return a sensor, whose patterns begin at `home`; None: it is told of events, and does not look.

    Raises:
        ConfigError: it cannot be made.
    """
    match config.kind:
        case "file_change":
            return FileChangeSensor(home, config.paths, config.settle_s)
        case "freshness" if config.max_age_s is not None:
            return FreshnessSensor(home, config.paths, config.max_age_s)
        case "freshness":
            raise ConfigError(
                f"The sensor {name!r} needs max_age_s", hint="How old the newest file may be, in seconds."
            )
        case "event":
            return None
        case other:
            packaged: Sensor = open_packaged_sensor(other, config.options)
            return packaged
