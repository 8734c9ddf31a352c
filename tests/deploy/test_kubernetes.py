"""The Helm chart, rendered by Helm's engine: valid objects, and what the values must change."""
import pathlib
import subprocess
import sys

import helm_python
import kubernetes_validate
import pytest
import yaml

from conftest import ROOT
from machine import run

sys.path.insert(0, str(ROOT / "deploy/helm"))
from render import CHART, documents  # noqa: E402

# The oldest release that Chart.yaml allows and that the schemas have, and the newest.
VERSIONS = ["1.25", "1.37"]
CUSTOM = {"PodMonitor", "HTTPRoute"}  # of CRDs, whose schemas Kubernetes does not have
CASES = {
    "default": {},
    "cpu": {"gpu": {"count": 0}, "model": "", "persistence": {"enabled": False}},
    "everything": {
        "replicas": 3, "servedModelName": "a,b", "apiKeys": {"existingSecret": "keys"},
        "hubToken": {"existingSecret": "hub"}, "gpu": {"count": 1, "runtimeClassName": "nvidia"},
        "podMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
        "httpRoute": {"enabled": True, "parentRefs": [{"name": "gateway"}], "hostnames": ["llm.example.com"]},
        "podDisruptionBudget": {"enabled": True}, "persistence": {"existingClaim": "models"},
        "imagePullSecrets": [{"name": "registry"}], "nodeSelector": {"gpu": "h100"},
        "podAnnotations": {"a": "b"}, "podLabels": {"team": "x"}, "priorityClassName": "high",
        "service": {"type": "LoadBalancer", "annotations": {"x": "y"}},
    },
}


def objects(values):
    return [yaml.safe_load(text) for _, text in documents(values)]


def one(values, kind):
    found = [o for o in objects(values) if o["kind"] == kind]
    assert len(found) >= 1, kind
    return found[0]


def server(values):
    return one(values, "StatefulSet")["spec"]["template"]["spec"]


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("version", VERSIONS)
def test_objects_fit_the_schemas_of_kubernetes(case, version):
    found = objects(CASES[case])
    for o in found:
        if o["kind"] not in CUSTOM:
            kubernetes_validate.validate(o, version, strict=True)
    assert len(found) >= 5
    names = [(o["kind"], o["metadata"]["name"]) for o in found]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("case", CASES)
def test_helm_lint(case):
    report = helm_python.chart.lint(CHART, CASES[case], strict=True)
    assert report["errors"] == [] and all(m["severity"] <= 1 for m in report["messages"]), report


@pytest.mark.parametrize("values", [
    {"gpu": {"count": 2}}, {"replicas": -1}, {"modle": "x"}, {"persistence": {"size": "100 GB"}},
    {"options": {"max-model-len": [1]}}, {"service": {"port": 0}},
])
def test_wrong_values_are_refused(values):
    chart = helm_python.Chart.load(CHART)
    chart.validate_schema(chart.merge_values({}))
    with pytest.raises(helm_python.HelmError):
        chart.validate_schema(chart.merge_values(values))


def test_gateway_must_be_named():
    with pytest.raises(helm_python.HelmError, match="parentRefs"):
        objects({"httpRoute": {"enabled": True}})


def test_termination_is_longer_than_the_drain():
    for seconds in (30, 600):
        spec = server({"shutdownTimeoutSeconds": seconds})
        config = yaml.safe_load(one({"shutdownTimeoutSeconds": seconds}, "ConfigMap")["data"]["serve.yaml"])
        pre_stop = int(spec["containers"][0]["lifecycle"]["preStop"]["exec"]["command"][1])
        assert config["shutdown-timeout"] == seconds
        assert spec["terminationGracePeriodSeconds"] > seconds + pre_stop + 5


def test_probes_gpu_cache_and_rights():
    spec = server({})
    container = spec["containers"][0]
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        assert container[probe]["httpGet"] == {"path": "/health", "port": "http"}
    assert container["startupProbe"]["failureThreshold"] * container["startupProbe"]["periodSeconds"] == 30 * 60
    assert container["resources"]["limits"]["nvidia.com/gpu"] == 1
    assert {"name": "models", "mountPath": "/var/lib/osprey/huggingface"} in container["volumeMounts"]
    claims = one({}, "StatefulSet")["spec"]["volumeClaimTemplates"]
    assert claims[0]["metadata"]["name"] == "models"
    assert spec["securityContext"]["runAsNonRoot"] is True and spec["automountServiceAccountToken"] is False
    for one_container in spec["containers"] + spec["initContainers"]:
        assert one_container["securityContext"]["readOnlyRootFilesystem"] is True
        assert one_container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert "nvidia.com/gpu" not in str(server(CASES["cpu"])["containers"])


def test_secrets_reach_server_and_scrape():
    values = CASES["everything"]
    config = yaml.safe_load(one(values, "ConfigMap")["data"]["serve.yaml"])
    assert config["api-key-file"] == "/run/secrets/osprey/keys"
    endpoint = one(values, "PodMonitor")["spec"]["podMetricsEndpoints"][0]
    assert endpoint["authorization"]["credentials"] == {"name": "keys", "key": "keys"}
    pull = server(values)["initContainers"][0]
    assert pull["args"] == ["pull", "openai/gpt-oss-20b"] and pull["env"][0]["name"] == "HF_TOKEN"


def test_change_of_an_option_restarts_the_pods():
    def annotation(values):
        return one(values, "StatefulSet")["spec"]["template"]["metadata"]["annotations"]["checksum/config"]
    assert annotation({}) != annotation({"options": {"max-num-seqs": 8}})


@pytest.mark.parametrize("options", [{}, {"max-queue": 65536, "temperature": 0.7, "no-prefix-cache": True,
                                          "current-date": "2026-01-31", "max-body": 8388608}])
def test_osprey_reads_the_configuration(options, tmp_path):
    """The rendered file starts a server (without a GPU, with the bundled model)."""
    config = one({**CASES["cpu"], "options": options}, "ConfigMap")["data"]["serve.yaml"]
    path = tmp_path / "serve.yaml"
    path.write_text(config)
    with subprocess.Popen([ROOT / "build/osprey", "serve", "--config", path, "--port", "0", "-q"],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        url = process.stdout.readline()
        process.terminate()
        assert url.startswith("http://"), process.stderr.read()


def test_manifests_are_those_of_the_chart():
    shipped = ROOT / "deploy/kubernetes/osprey.yaml"
    made = run([sys.executable, ROOT / "deploy/helm/render.py"])
    assert shipped.read_text() == made, "run: make manifests"


def test_chart_has_the_version_of_the_program(version):
    chart = yaml.safe_load((pathlib.Path(CHART) / "Chart.yaml").read_text())
    assert chart["appVersion"] == version
