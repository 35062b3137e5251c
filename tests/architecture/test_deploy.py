"""The files in `deploy/` say what the server understands. The image itself is not built here."""

import itertools
import json
import re
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from agent_fabric.config.loader import read_config

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
UNITS = sorted([*DEPLOY.glob("*.service"), *DEPLOY.glob("*.timer")])
BREAKS_THE_BOX = {
    "RestrictNamespaces",
    "ProtectKernelTunables",
    "ProtectKernelLogs",
    "ProtectHostname",
    "ProtectProc",
    "ProcSubset",
    "PrivateUsers",
    "PrivateDevices",
    "ProtectControlGroups",
    "MemoryDenyWriteExecute",
}
"""Of these, some were tried: with a part of /proc hidden or read-only, bubblewrap cannot mount its own."""


def unit(name: str = "agent-fabric.service") -> dict[str, list[str]]:
    """Return the settings of a unit, each with all its values."""
    found: dict[str, list[str]] = {}
    for line in (DEPLOY / name).read_text().splitlines():
        if line and not line.startswith(("#", "[")):
            setting, equals, value = line.partition("=")
            assert equals, line
            found.setdefault(setting, []).append(value)
    return found


def test_the_service_has_nothing_that_breaks_the_box_and_says_why() -> None:
    assert not BREAKS_THE_BOX & unit().keys()
    text = (DEPLOY / "agent-fabric.service").read_text()
    assert [name for name in sorted(BREAKS_THE_BOX) if name not in text] == []


def test_the_service_is_nobody_special_and_keeps_keys_apart() -> None:
    said = unit()
    assert said["NoNewPrivileges"] == ["yes"]
    assert said["CapabilityBoundingSet"] == [""]
    assert said["ProtectSystem"] == ["strict"]
    assert said["StateDirectory"] == ["agent-fabric agent-fabric-keys"]
    assert "XDG_DATA_HOME=/var/lib/agent-fabric-keys" in said["Environment"]
    stop_s, default_s = float(said["TimeoutStopSec"][0]), read_config({}).config.server.shutdown_timeout_s
    assert stop_s > default_s, "or runs are killed before they are stopped"


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed here")
def test_systemd_knows_every_setting_of_every_unit(tmp_path: Path) -> None:
    for unit_file in UNITS:
        text = unit_file.read_text().replace("/opt/agent-fabric/bin/fabric", shutil.which("true") or "")
        (tmp_path / unit_file.name).write_text(text)
    command = ["systemd-analyze", "verify", "--man=no", *(str(tmp_path / each.name) for each in UNITS)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_backups_are_made_with_the_same_user_and_keys_as_the_server() -> None:
    server, backup = unit(), unit("agent-fabric-backup.service")
    for name in ("User", "Environment", "StateDirectory", "EnvironmentFile"):
        assert backup[name] == server[name]


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed here")
def test_the_service_may_make_every_call_that_the_boxes_need() -> None:
    (filtered,) = unit()["SystemCallFilter"]
    assert filtered.startswith("~"), "a list of what is refused"
    command = ["systemd-analyze", "syscall-filter", *filtered.removeprefix("~").split()]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    refused = {line.strip() for line in done.stdout.splitlines() if line.startswith(" ")}
    assert "kexec_load" in refused
    needed = (
        "mount umount2 pivot_root unshare clone clone3 setns prctl seccomp capset openat2 prlimit64 setresuid chroot"
    )
    assert refused & {*needed.split(), "landlock_restrict_self", "mount_setattr", "move_mount", "open_tree"} == set()


def compose() -> dict[str, Any]:
    """Return what the compose file says."""
    said: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    return said


def test_the_compose_file_configures_what_the_server_understands() -> None:
    fabric = compose()["services"]["fabric"]
    assert fabric["build"] == {"context": "..", "dockerfile": "deploy/Dockerfile"}
    environment = {
        name: re.sub(r"\$\{FABRIC_DOMAIN[^}]*\}", "fabric.example.org", value)
        for name, value in fabric["environment"].items()
    }
    config = read_config(environment).config
    assert (config.server.host, config.server.hosts) == ("0.0.0.0", ("fabric.example.org",))
    subnet = compose()["networks"]["front"]["ipam"]["config"][0]["subnet"]
    assert config.server.trusted_proxies == (subnet,)
    assert "ports" not in fabric, "only the proxy reaches it"
    assert fabric["cap_drop"] == ["ALL"]
    mounted = {volume.partition(":")[0] for volume in fabric["volumes"]}
    assert mounted <= compose()["volumes"].keys()


@pytest.mark.proves("FC-008")
def test_a_server_to_develop_with_takes_the_source_and_is_reached_from_this_machine_only() -> None:
    said = yaml.safe_load((DEPLOY / "compose.dev.yaml").read_text())
    fabric = said["services"]["fabric"]
    source = fabric["environment"].pop("PYTHONPATH")
    config = read_config(fabric["environment"]).config
    assert (config.server.host, config.server.hosts) == ("0.0.0.0", ("127.0.0.1", "localhost"))
    assert fabric["ports"] == [f"127.0.0.1:{config.server.port}:{config.server.port}"]
    mounted = dict(volume.split(":")[:2] for volume in fabric["volumes"])
    assert mounted.pop("../src") == source
    assert (DEPLOY / "../src/agent_fabric/interfaces/node/main.py").exists(), "the node's program runs from source"
    assert mounted.keys() <= said["volumes"].keys()


def test_the_proxy_waits_for_readiness_and_streams() -> None:
    proxy = compose()["services"]["proxy"]
    assert proxy["depends_on"] == {"fabric": {"condition": "service_healthy"}}
    caddy = (DEPLOY / "Caddyfile").read_text()
    assert caddy.count("{") == caddy.count("}")
    assert "flush_interval -1" in caddy
    nginx = (DEPLOY / "nginx.conf").read_text()
    assert "proxy_buffering off" in nginx
    assert nginx.count("{") == nginx.count("}")


def cluster() -> dict[str, Any]:
    """Return what the compose file of a cluster says."""
    said: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.cluster.yaml").read_text())
    return said


def _set(value: str) -> str:
    """Return a value with the variables filled in that it needs."""
    return re.sub(
        r"\$\{FABRIC_DB_PASSWORD[^}]*\}", "pw1", re.sub(r"\$\{FABRIC_DOMAIN[^}]*\}", "fabric.example.org", value)
    )


PROCESSES = ("server-1", "server-2", "worker-1", "worker-2")


@pytest.mark.proves("SC-1")
def test_the_processes_of_a_cluster_differ_only_in_what_they_do() -> None:
    services = cluster()["services"]
    labels = []
    for name in (*PROCESSES, "migrate"):
        service = services[name]
        assert service["image"] == "agent-fabric"
        assert (service["cap_drop"], service["read_only"], "ports" in service) == (["ALL"], True, False)
        config = read_config({key: _set(value) for key, value in service["environment"].items()}).config
        assert config.store.url == "postgresql://fabric:pw1@postgres/fabric"
        assert (config.nats.url, config.redis.url) == ("nats://nats:4222", "redis://redis:6379/0")
        assert (config.limits.storage, config.cluster.home) == ("redis", "volume:state")
        labels += [config.cluster.label]
    assert labels == [*PROCESSES, ""]
    same = [{key: services[name][key] for key in ("volumes", "networks", "tmpfs")} for name in PROCESSES]
    assert all(each == same[0] for each in same)


@pytest.mark.proves("C06")
def test_no_service_is_used_unless_somebody_configures_it() -> None:
    config = read_config({}).config
    assert (config.store.url, config.nats.url, config.redis.url) == ("", None, None)
    assert config.limits.storage == "memory"
    services = cluster()["services"]
    assert {"postgres", "nats", "redis"} <= services.keys()
    assert not {"postgres", "nats", "redis"} & compose()["services"].keys()


def test_what_a_cluster_runs_are_commands_that_exist() -> None:
    services = cluster()["services"]
    commands = [services[name]["command"] for name in (*PROCESSES, "migrate")]
    assert [command[0] for command in commands] == ["serve", "serve", "worker", "worker", "db"]
    reference = (DEPLOY.parent / "docs/reference/cli.md").read_text()
    for command in commands:
        words = list(itertools.takewhile(lambda word: not word.startswith("-"), command))
        (line,) = [each for each in reference.splitlines() if each.startswith(f"| `fabric {' '.join(words)}` |")]
        assert all(f"`{word}" in line for word in command if word.startswith("--")), line


def test_a_cluster_starts_in_an_order_that_works_and_hides_its_stores() -> None:
    said = cluster()
    services = said["services"]
    for name, service in services.items():
        for other, wanted in service.get("depends_on", {}).items():
            condition = wanted["condition"]
            if condition == "service_healthy" and services[other]["image"] != "agent-fabric":
                assert services[other]["healthcheck"]["test"][0] == "CMD", (name, other)
            else:
                assert condition in {"service_healthy", "service_completed_successfully"}
        assert set(service["networks"]) <= said["networks"].keys()
        for volume in service.get("volumes", ()):
            source = volume.partition(":")[0]
            assert source in said["volumes"] or (DEPLOY / source).is_file(), volume
    assert said["networks"]["back"] == {"internal": True}
    assert [name for name, each in services.items() if "ports" in each] == ["proxy"]
    assert {name for name, each in services.items() if each["networks"] == ["back"]} == {"postgres", "nats", "redis"}
    subnet = said["networks"]["front"]["ipam"]["config"][0]["subnet"]
    assert subnet in services["server-1"]["environment"]["FABRIC_SERVER__TRUSTED_PROXIES"]
    caddy = (DEPLOY / "Caddyfile.cluster").read_text()
    assert caddy.count("{") == caddy.count("}")
    assert "reverse_proxy server-1:8787 server-2:8787" in caddy
    assert "flush_interval -1" in caddy


KNOWN_KEYS = {
    *("build", "cap_drop", "command", "depends_on", "environment", "healthcheck", "image", "init", "networks"),
    *("pids_limit", "ports", "profiles", "read_only", "restart", "security_opt", "shm_size", "stop_grace_period"),
    *("tmpfs", "volumes"),
}
"""Of the Compose specification, what our files use."""


@pytest.mark.parametrize("file", ["compose.yaml", "compose.cluster.yaml"])
def test_a_compose_file_has_no_key_that_compose_does_not_know(file: str) -> None:
    said = yaml.safe_load((DEPLOY / file).read_text())
    top = {key for key in said if not key.startswith("x-")}
    assert top == {"name", "services", "networks", "volumes"}
    for service in said["services"].values():
        assert service.keys() <= KNOWN_KEYS
        assert service["image"]
        if "healthcheck" in service:
            assert service["healthcheck"].keys() <= {"test", "interval", "timeout", "retries", "disable"}
        values = service.get("environment", {}).values()
        assert all(isinstance(value, str) for value in values), "or YAML makes a number or a date of it"


def test_the_image_has_what_a_cluster_needs() -> None:
    assert "'.[cluster," in (DEPLOY / "Dockerfile").read_text()


def test_the_image_is_pinned_and_not_run_as_root() -> None:
    lines = (DEPLOY / "Dockerfile").read_text().replace("\\\n", " ").splitlines()
    steps = [line.split(maxsplit=1) for line in lines if line and not line.startswith("#")]
    known = {"FROM", "WORKDIR", "COPY", "RUN", "ENV", "USER", "VOLUME", "EXPOSE", "STOPSIGNAL", "HEALTHCHECK"}
    assert {step[0] for step in steps} - known == {"ENTRYPOINT", "CMD"}
    images = {step[1].split()[0] for step in steps if step[0] == "FROM"}
    assert all(":" in image and "/" not in image for image in images)
    (install,) = [step[1] for step in steps if step[0] == "RUN" and "pip install" in step[1]]
    assert "-c constraints.txt" in install
    users = [step[1] for step in steps if step[0] == "USER"]
    assert users == ["10001:10001"]
    for step in steps:
        if step[0] in {"ENTRYPOINT", "CMD", "VOLUME"}:
            assert json.loads(step[1]), "as a list: no shell between"
    (copied,) = [step[1] for step in steps if step[0] == "COPY" and step[1].startswith("constraints.txt")]
    assert all((DEPLOY.parent / name).exists() for name in copied.split()[:-1])


@pytest.mark.proves("C11")
def test_one_install_is_enough_and_everything_else_is_optional() -> None:
    project = tomllib.loads((DEPLOY.parent / "pyproject.toml").read_text())["project"]
    needed = {re.split(r"[<>=;\[ ]", each)[0] for each in project["dependencies"]}
    services = {"asyncpg", "psycopg", "redis", "nats-py", "sqlalchemy", "docker"}
    assert not needed & services, "no service is ever required to start"
    assert "telemetry" in project["optional-dependencies"]
    makefile = (DEPLOY.parent / "Makefile").read_text()
    assert "compose" not in makefile
