"""The Helm chart: what it renders is what Kubernetes takes, asks for nothing of root, waits for the migration, and sets settings
that exist.

Helm itself renders it, where `make chart` put it or the machine has one.
"""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from routerweb import env
from training_app.management.commands import up

ROOT = Path(__file__).parent.parent
CHART = ROOT / "deploy" / "chart"
HELM = next((str(path) for path in [ROOT / ".venv-chart" / "helm"] if path.exists()), shutil.which("helm"))
pytestmark = [
    pytest.mark.any_database,
    pytest.mark.skipif(HELM is None and os.environ.get("REQUIRE_HELM") != "1", reason="make chart installs Helm"),
]


def helm(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(HELM), *words], capture_output=True, text=True, timeout=60)


def rendered(*words: str) -> dict[str, dict[str, Any]]:
    """The chart's objects with the values of its example and those words, by kind and name."""
    done = helm("template", "shop", str(CHART), "--values", str(CHART / "example.yaml"), *words)
    assert done.returncode == 0, done.stderr
    objects = [one for one in yaml.safe_load_all(done.stdout) if one]
    return {f"{one['kind']} {one['metadata']['name']}": one for one in objects}


def pods(objects: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {name: one["spec"]["template"]["spec"] for name, one in objects.items() if "template" in one["spec"]}


def components(objects: dict[str, dict[str, Any]]) -> set[str]:
    return {
        one["spec"]["template"]["metadata"]["labels"]["app.kubernetes.io/component"]
        for one in objects.values()
        if "template" in one["spec"]
    }


@pytest.fixture(scope="module")
def objects() -> dict[str, dict[str, Any]]:
    return rendered()


def test_it_passes_helms_own_check() -> None:
    done = helm("lint", "--strict", str(CHART), "--values", str(CHART / "example.yaml"))
    assert done.returncode == 0, done.stdout


# Two of Kubernetes' versions that its makers keep up. The objects of Prometheus' operator are no part of Kubernetes.
@pytest.mark.parametrize("version", ["1.34", "1.37"])
@pytest.mark.parametrize(
    "more", ["", "web.autoscaling.enabled=true,backup.enabled=true,backup.claim=backups,data.enabled=true"]
)
def test_kubernetes_takes_every_object_and_no_field_is_unknown(tmp_path: Path, version: str, more: str) -> None:
    validate = ROOT / ".venv-chart" / "bin" / "kubernetes-validate"
    if not validate.exists() and os.environ.get("REQUIRE_HELM") != "1":
        pytest.skip("make chart installs Kubernetes' schemas")
    objects = rendered(*(["--set", more] if more else []))
    for name, one in objects.items():
        (tmp_path / f"{name}.yaml").write_text(yaml.safe_dump(one))
    words = [str(validate), "--strict", "-k", version, *(str(path) for path in sorted(tmp_path.iterdir()))]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("passed") == len(objects)


@pytest.mark.parametrize("part", ["jobs", "training", "episodes"])
def test_a_worker_is_alive_while_it_does_something(objects: dict[str, Any], part: str) -> None:
    probe = pods(objects)[f"Deployment shop-{part}"]["containers"][0]["livenessProbe"]
    assert probe["exec"]["command"] == ["python", "manage.py", "worker_alive", part]


def test_it_makes_each_part_of_an_installation(objects: dict[str, Any]) -> None:
    assert set(objects) == {
        "Deployment shop-web", "Deployment shop-jobs", "Deployment shop-training", "Deployment shop-episodes", "Job shop-migrate",
        "Service shop", "Ingress shop", "PodDisruptionBudget shop-web", "NetworkPolicy shop-web", "NetworkPolicy shop-workers",
    }  # fmt: skip
    commands = {name: pod["containers"][0]["args"] for name, pod in pods(objects).items()}
    assert commands.pop("Job shop-migrate")[:3] == ["python", "manage.py", "migrate"]
    for python, manage, command, part in commands.values():
        assert (python, manage, command) == ("python", "manage.py", "up")
        assert part in {*up.parts(), "episodes"}


def test_no_pod_runs_as_root_or_may_write_to_its_image(objects: dict[str, Any]) -> None:
    for pod in pods(objects).values():
        (container,) = pod["containers"]
        assert pod["securityContext"]["runAsNonRoot"]
        assert pod["securityContext"]["runAsUser"] == 10001
        assert pod["automountServiceAccountToken"] is False
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]},
        }  # fmt: skip


def test_the_migration_is_done_before_anything_of_a_new_version_starts(objects: dict[str, Any]) -> None:
    migrate = objects["Job shop-migrate"]["metadata"]["annotations"]
    assert migrate["helm.sh/hook"] == "pre-install,pre-upgrade"
    made = rendered(
        "--set", "secret.existing=", "--set", "secret.values.SECRET_KEY=k",
        "--set", "secret.values.DATABASE_URL=postgresql://db/routerweb",
    )  # fmt: skip
    secret = made["Secret shop"]
    assert secret["stringData"] == {"SECRET_KEY": "k", "DATABASE_URL": "postgresql://db/routerweb"}
    assert secret["metadata"]["annotations"]["helm.sh/hook"] == migrate["helm.sh/hook"]
    assert int(secret["metadata"]["annotations"]["helm.sh/hook-weight"]) < int(migrate["helm.sh/hook-weight"])


def test_readiness_is_asked_by_the_host_that_the_site_answers_to(objects: dict[str, Any]) -> None:
    (web,) = objects["Deployment shop-web"]["spec"]["template"]["spec"]["containers"]
    asked = web["readinessProbe"]["httpGet"]
    assert asked["path"] == "/api/ready/"
    assert {one["name"]: one["value"] for one in asked["httpHeaders"]} == {
        "Host": "routes.example.com", "X-Forwarded-Proto": "https",
    }  # fmt: skip
    assert objects["Ingress shop"]["spec"]["rules"][0]["host"] == "routes.example.com"


def test_settings_reach_every_part_as_they_were_typed_and_exist(tmp_path: Path) -> None:
    values = tmp_path / "values.yaml"
    values.write_text("settings: {MAX_BODY_MB: 1000000, METRICS: true, ALARM: 0.25}")
    found = rendered("--values", str(values))
    for pod in pods(found).values():
        passed = {one["name"]: one["value"] for one in pod["containers"][0]["env"]}
        assert (passed["MAX_BODY_MB"], passed["METRICS"], passed.pop("ALARM")) == ("1000000", "true", "0.25")
        assert set(passed) <= set(env.DOCUMENTED)


def test_a_claim_is_made_for_the_data_folder_where_one_is_asked_for() -> None:
    found = rendered("--set", "data.enabled=true")
    assert "PersistentVolumeClaim shop-data" in found
    volumes = pods(found)["Deployment shop-training"]["volumes"]
    assert {"name": "data", "persistentVolumeClaim": {"claimName": "shop-data"}} in volumes
    assert "PersistentVolumeClaim shop-data" not in rendered("--set", "data.enabled=true,data.existingClaim=mine")


def test_one_web_server_may_be_drained() -> None:
    assert "PodDisruptionBudget shop-web" not in rendered("--set", "web.replicas=1")


def test_busy_web_servers_become_more() -> None:
    found = rendered("--set", "web.autoscaling.enabled=true")
    scaler = found["HorizontalPodAutoscaler shop-web"]["spec"]
    assert (scaler["minReplicas"], scaler["maxReplicas"]) == (2, 6)
    # A count in the deployment would take back at each upgrade what the scaler decided.
    assert "replicas" not in found["Deployment shop-web"]["spec"]


def test_nobody_reaches_what_answers_nobody(objects: dict[str, Any]) -> None:
    workers = objects["NetworkPolicy shop-workers"]["spec"]
    assert workers["policyTypes"] == ["Ingress"]
    assert "ingress" not in workers
    (expression,) = workers["podSelector"]["matchExpressions"]
    assert components(objects) - {"web"} <= set(expression["values"])


def test_prometheus_operator_gets_the_same_rules_and_a_key() -> None:
    found = rendered("--set", "monitoring.enabled=true,monitoring.keySecret=prometheus")
    rules = yaml.safe_load((ROOT / "monitoring" / "alerts.yml").read_text("utf-8"))
    assert found["PrometheusRule shop"]["spec"] == rules
    (endpoint,) = found["ServiceMonitor shop"]["spec"]["endpoints"]
    assert endpoint["authorization"]["credentials"] == {"name": "prometheus", "key": "key"}
    selected = found["ServiceMonitor shop"]["spec"]["selector"]["matchLabels"]
    assert selected.items() <= found["Service shop"]["metadata"]["labels"].items()


def test_a_backup_is_written_every_night_into_a_claim() -> None:
    found = rendered("--set", "backup.enabled=true,backup.claim=backups")
    pod = found["CronJob shop-backup"]["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert container["args"] == ["python", "manage.py", "backup", "/srv/backups", "--keep", "14"]
    assert {"name": "backups", "mountPath": "/srv/backups"} in container["volumeMounts"]
    assert {"name": "backups", "persistentVolumeClaim": {"claimName": "backups"}} in pod["volumes"]


@pytest.mark.parametrize(
    ("said", "named"),
    [
        ("backup.enabled=true", "claim"),
        ("monitoring.enabled=true", "keySecret"),
        ("host=", "/host"),
        ("secret.existing=", "/secret"),
        ("host=https://routes.example.com", "/host"),
        ("web.replica=2", "replica"),
        ("settings.lower=1", "lower"),
    ],
)
def test_a_value_that_cannot_be_is_named(said: str, named: str) -> None:
    done = helm("template", "shop", str(CHART), "--values", str(CHART / "example.yaml"), "--set", said)
    assert done.returncode != 0
    assert named in done.stderr


def test_the_charts_own_values_are_described() -> None:
    described = json.loads((CHART / "values.schema.json").read_text("utf-8"))["properties"]
    assert set(yaml.safe_load((CHART / "values.yaml").read_text("utf-8"))) <= set(described)
