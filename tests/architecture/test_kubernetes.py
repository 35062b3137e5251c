"""The Helm chart and the plain manifests: valid for the API, restricted, and they say what the program understands.

No cluster is asked: the manifests are checked against the API's schemas.
"""

import importlib
import itertools
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from agent_fabric import __version__
from agent_fabric.config.loader import read_config

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
CHART = DEPLOY / "helm/agent-fabric"
PLAIN = DEPLOY / "kubernetes/agent-fabric.yaml"
GIVEN = ("domain=fabric.example.org", "secret=agent-fabric")
MORE = (
    "workspaces.kind=shared",
    "ingress.enabled=true",
    "ingress.tlsSecret=certificate",
    "nats.url=nats://nats:4222",
    "redis.url=redis://redis:6379/0",
    "workers.default.autoscaling.enabled=true",
    "workers.gpu.slots=2",
    "networkPolicy.to[0].ipBlock.cidr=10.0.0.0/8",
    "config.server.max_running=7",
)
OBJECTS = ("workspaces.kind=objects", "workspaces.backend=s3://fabric/workspaces")
HELM = shutil.which("helm", path=str(Path(sys.executable).parent)) or shutil.which("helm") or ""

pytestmark = pytest.mark.proves("RL-3")
needs_helm = pytest.mark.skipif(not HELM, reason="helm is not installed here; its package has none for this processor")


def helm(*arguments: str, code: int = 0) -> str:
    done = subprocess.run([HELM, *arguments], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == code, done.stderr
    return done.stdout if code == 0 else done.stderr


def rendered(*settings: str) -> str:
    return helm("template", "agent-fabric", str(CHART), *(f"--set={each}" for each in (*GIVEN, *settings)))


def objects(text: str) -> list[dict[str, Any]]:
    return [each for each in yaml.safe_load_all(text) if each]


def pods(text: str) -> dict[str, dict[str, Any]]:
    """Return the pods that manifests start, by their container."""
    found = [each["spec"]["template"] for each in objects(text) if each["kind"] in {"Deployment", "Job"}]
    return {pod["spec"]["containers"][0]["name"]: pod for pod in found}


def config_in(text: str) -> dict[str, Any]:
    (told,) = [each for each in objects(text) if each["kind"] == "ConfigMap"]
    config: dict[str, Any] = yaml.safe_load(told["data"]["config.yaml"])
    return config


VARIANTS = [pytest.param((), id="defaults"), pytest.param(MORE, id="everything"), pytest.param(OBJECTS, id="objects")]


@needs_helm
@pytest.mark.parametrize("settings", VARIANTS)
def test_the_api_of_kubernetes_knows_every_field(settings: tuple[str, ...]) -> None:
    kubernetes_validate: Any = importlib.import_module("kubernetes_validate")  # has no types
    for each in objects(rendered(*settings)):
        kubernetes_validate.validate(each, kubernetes_validate.latest_version(), strict=True)


@needs_helm
def test_the_chart_has_no_faults_and_wants_what_it_needs() -> None:
    assert "0 chart(s) failed" in helm("lint", "--strict", str(CHART), *(f"--set={each}" for each in GIVEN))
    missing = helm("template", "x", str(CHART), code=1)
    assert "domain" in missing
    assert "secret" in missing
    assert "backend" in helm(
        "template", "x", str(CHART), *(f"--set={each}" for each in (*GIVEN, "workspaces.kind=objects")), code=1
    )
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert chart["appVersion"] == __version__


@needs_helm
def test_the_plain_manifests_are_those_of_the_chart() -> None:
    assert objects(PLAIN.read_text()) == objects(rendered())


def test_pods_are_restricted() -> None:
    """As the profile `restricted` of the Pod Security Standards wants it."""
    for name, pod in pods(PLAIN.read_text()).items():
        spec = pod["spec"]
        assert spec["securityContext"]["runAsNonRoot"], name
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert spec["automountServiceAccountToken"] is False
        assert not {"hostNetwork", "hostPID", "hostIPC"} & spec.keys()
        assert all({"emptyDir", "configMap", "persistentVolumeClaim"} & volume.keys() for volume in spec["volumes"])
        for container in spec["containers"]:
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }
            assert container["resources"]["limits"]["memory"]
            assert container["envFrom"] == [{"secretRef": {"name": "agent-fabric"}}]
        user = f"--uid {spec['securityContext']['runAsUser']} "
        assert user in (DEPLOY / "Dockerfile").read_text(), "the user of the image"


@needs_helm
def test_the_settings_are_ones_that_the_program_understands(tmp_path: Path) -> None:
    def read(settings: tuple[str, ...]) -> Any:
        path = tmp_path / "config.yaml"
        path.write_text(json.dumps(config_in(rendered(*settings))))
        return read_config({"FABRIC_CONFIG_PATH": str(path)}).config

    plain, more, objects_ = read(()), read(MORE), read(OBJECTS)
    assert (plain.server.host, plain.server.hosts) == ("0.0.0.0", ("fabric.example.org",))
    assert (plain.nats.url, plain.redis.url, plain.limits.storage) == (None, None, "memory")
    assert (more.nats.url, more.limits.storage) == ("nats://nats:4222", "redis")
    assert (more.cluster.home, more.server.max_running, more.log.format) == ("volume:agent-fabric", 7, "json")
    assert objects_.workspaces.backend == "s3://fabric/workspaces"


def test_pods_run_commands_that_exist() -> None:
    reference = (DEPLOY.parent / "docs/reference/cli.md").read_text()
    started = {name: pod["spec"]["containers"][0]["args"] for name, pod in pods(PLAIN.read_text()).items()}
    assert started.keys() == {"server", "worker", "migrate"}
    for command in started.values():
        words = list(itertools.takewhile(lambda word: not word.startswith("-"), command))
        (line,) = [each for each in reference.splitlines() if each.startswith(f"| `fabric {' '.join(words)}` |")]
        assert all(f"`{word}" in line for word in command if word.startswith("--")), line


@needs_helm
def test_each_pool_has_its_workers_and_they_follow_the_queue() -> None:
    found = objects(rendered(*MORE))
    workers = {
        each["metadata"]["labels"]["agent-fabric/pool"]: each
        for each in found
        if each["kind"] == "Deployment" and each["metadata"]["labels"]["app.kubernetes.io/component"] == "worker"
    }
    assert workers.keys() == {"default", "gpu"}
    command = workers["gpu"]["spec"]["template"]["spec"]["containers"][0]["args"]
    assert command[:5] == ["worker", "--slots", "2", "--pool", "gpu"]
    assert "replicas" not in workers["default"]["spec"], "the autoscaler decides"
    (scaler,) = [each for each in found if each["kind"] == "HorizontalPodAutoscaler"]
    (metric,) = scaler["spec"]["metrics"]
    monitoring = (DEPLOY.parent / "docs/operate/monitoring.md").read_text()
    assert f"`{metric['external']['metric']['name']}`" in monitoring, "a number that /metrics has"
    budgets = [each for each in found if each["kind"] == "PodDisruptionBudget"]
    assert len(budgets) == 3
