"""The Helm chart, rendered by Helm's engine: valid objects, and what the values must change."""
import contextlib
import json
import os
import pathlib
import re
import subprocess
import sys
import urllib.request

import helm_python
import jsonschema
import kubernetes_validate
import pytest
import yaml

from conftest import ROOT
from machine import run, wait_until

sys.path.insert(0, str(ROOT / "deploy/helm"))
from render import CHART, documents  # noqa: E402

# The oldest release that Chart.yaml allows and that the schemas have, and the newest.
VERSIONS = ["1.25", "1.37"]
CUSTOM = {"PodMonitor", "HTTPRoute", "LeaderWorkerSet"}  # of CRDs, whose schemas Kubernetes does not have
RANKS = yaml.safe_load((ROOT / "deploy/helm/ranks.yaml").read_text())
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
    "ranks": RANKS,
}
CASES["ranks and everything"] = {**CASES["everything"], **RANKS, "gpu": {"count": 0, "runtimeClassName": "runc"}}


def fields(required=(), **properties):
    """The schema of an object that has no other fields."""
    return {"type": "object", "additionalProperties": False, "required": list(required), "properties": properties}


# What a LeaderWorkerSet of version v1 may have; the pod templates are checked as those of Kubernetes.
LEADER_WORKER_SET = fields(
    ["apiVersion", "kind", "metadata", "spec"],
    apiVersion={"const": "leaderworkerset.x-k8s.io/v1"}, kind={"const": "LeaderWorkerSet"}, metadata={"type": "object"},
    spec=fields(
        ["leaderWorkerTemplate"], replicas={"type": "integer", "minimum": 0},
        startupPolicy={"enum": ["LeaderCreated", "LeaderReady"]},
        networkConfig=fields(["subdomainPolicy"], subdomainPolicy={"enum": ["Shared", "UniquePerReplica"]}),
        rolloutStrategy={"type": "object"},
        leaderWorkerTemplate=fields(
            ["workerTemplate"], size={"type": "integer", "minimum": 1},
            restartPolicy={"enum": ["RecreateGroupOnPodRestart", "None"]},
            leaderTemplate={"type": "object"}, workerTemplate={"type": "object"})))


def objects(values):
    return [yaml.safe_load(text) for _, text in documents(values)]


def one(values, kind):
    found = [o for o in objects(values) if o["kind"] == kind]
    assert len(found) >= 1, kind
    return found[0]


def server(values):
    return one(values, "StatefulSet")["spec"]["template"]["spec"]


def group(values):
    """The LeaderWorkerSet's templates of a leader and of its workers."""
    template = one(values, "LeaderWorkerSet")["spec"]["leaderWorkerTemplate"]
    return template["leaderTemplate"], template["workerTemplate"]


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
    {"options": {"max-model-len": [1]}}, {"service": {"port": 0}}, {"ranks": {"size": 0}}, {"ranks": {"size": 17}},
    {"ranks": {"token": "x"}},
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


@pytest.mark.parametrize("name, values", [("osprey.yaml", []), ("ranks.yaml", [ROOT / "deploy/helm/ranks.yaml"])])
def test_manifests_are_those_of_the_chart(name, values):
    shipped = ROOT / "deploy/kubernetes" / name
    made = run([sys.executable, ROOT / "deploy/helm/render.py", *values])
    assert shipped.read_text() == made, "run: make manifests"


def test_chart_has_the_version_of_the_program(version):
    chart = yaml.safe_load((pathlib.Path(CHART) / "Chart.yaml").read_text())
    assert chart["appVersion"] == version


# ---- ranks: a LeaderWorkerSet ----


@pytest.mark.parametrize("case", ["ranks", "ranks and everything"])
@pytest.mark.parametrize("version", VERSIONS)
def test_leader_worker_set_fits_its_schema(case, version):
    jsonschema.validate(one(CASES[case], "LeaderWorkerSet"), LEADER_WORKER_SET)
    for template in group(CASES[case]):
        kubernetes_validate.validate(
            {"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": "x"}, "template": template}, version,
            strict=True)


@pytest.mark.parametrize("values, message", [
    ({**RANKS, "gpu": {"count": 1}}, "gpu.count=0"),
    ({**RANKS, "ranks": {"size": 2}}, "tokenSecret.existingSecret is empty"),
    ({"options": {"tensor-parallel-size": 2}}, "options.tensor-parallel-size: set ranks.size"),
    ({**RANKS, "options": {"hosts": "a,b"}}, "options.hosts: set ranks.size"),
])
def test_ranks_that_cannot_work_are_refused(values, message):
    with pytest.raises(helm_python.HelmError, match=message):
        objects(values)


def test_a_group_replaces_the_stateful_set():
    found = objects({**RANKS, "replicas": 3})
    assert "StatefulSet" not in [o["kind"] for o in found]
    services = [o for o in found if o["kind"] == "Service"]
    spec = one({**RANKS, "replicas": 3}, "LeaderWorkerSet")["spec"]
    assert spec["replicas"] == 3 and spec["leaderWorkerTemplate"]["size"] == 2
    # The operator makes a headless service that has the name of the set, and labels the leader with index 0.
    assert one(RANKS, "LeaderWorkerSet")["metadata"]["name"] not in [o["metadata"]["name"] for o in services]
    assert [o["spec"]["selector"]["leaderworkerset.sigs.k8s.io/worker-index"] for o in services] == ["0"]
    # Workers must start before the leader is ready, and a rank joins again by itself.
    assert spec["startupPolicy"] == "LeaderCreated" and spec["leaderWorkerTemplate"]["restartPolicy"] == "None"
    assert "LeaderWorkerSet" not in [o["kind"] for o in objects({})]


def test_names_of_ranks_fit_into_labels():
    """controller-revision-hash is the name of the workers' StatefulSet and a hash of ten."""
    for _, text in documents(RANKS, name="o" * 53):
        o = yaml.safe_load(text)
        if o["kind"] == "LeaderWorkerSet":
            assert len(f"{o['metadata']['name']}-99-") + 10 <= 63


def test_probes_ports_and_rights_of_ranks():
    leader, worker = (template["spec"]["containers"][0] for template in group(CASES["ranks and everything"]))
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        assert leader[probe]["httpGet"] == {"path": "/health", "port": "http"} and probe not in worker
    assert {p["containerPort"] for p in leader["ports"]} == {8000, 29500} and "ports" not in worker
    assert "api-keys" in str(leader["volumeMounts"]) and "api-keys" not in str(worker)
    for template in group(RANKS):
        spec = template["spec"]
        config = yaml.safe_load(one(RANKS, "ConfigMap")["data"]["serve.yaml"])
        assert spec["terminationGracePeriodSeconds"] > config["shutdown-timeout"] + 10
        assert spec["securityContext"]["runAsNonRoot"] is True and spec["automountServiceAccountToken"] is False
        for container in spec["containers"] + spec["initContainers"]:
            assert container["securityContext"]["readOnlyRootFilesystem"] is True
            assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
        assert "nvidia.com" not in str(spec)


def test_ranks_share_one_cache():
    claim = one(RANKS, "PersistentVolumeClaim")
    assert claim["spec"]["accessModes"] == ["ReadWriteMany"]
    for values, name in ((RANKS, claim["metadata"]["name"]), ({**RANKS, "persistence": {"existingClaim": "x"}}, "x")):
        for template in group(values):
            volume = next(v for v in template["spec"]["volumes"] if v["name"] == "models")
            assert volume["persistentVolumeClaim"] == {"claimName": name}
    assert "PersistentVolumeClaim" not in [
        o["kind"] for o in objects({**RANKS, "persistence": {"existingClaim": "x"}})]


LEADER_IP = "127.0.0.77"  # the pods' ports are on addresses of their own: here of loopback


def pod_environment(template, index):
    """The variables of a pod's container: those of the template, and those that the operator of
    LeaderWorkerSets adds."""
    found = {"LWS_LEADER_ADDRESS": LEADER_IP, "LWS_GROUP_SIZE": "2", "LWS_WORKER_INDEX": str(index)}
    for variable in template["spec"]["containers"][0]["env"]:
        source = variable.get("valueFrom", {})
        value = variable.get("value", "token of the secret" if "secretKeyRef" in source else LEADER_IP)
        found[variable["name"]] = value.replace("$(POD_IP)", LEADER_IP)
    return found


def start_pod(stack, template, index, config):
    """Starts a pod's command as a process; of a worker in a process namespace, if root runs the test: a pod has one,
    and ranks that do not see each other's processes exchange by TCP."""
    inside = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"] if index and os.geteuid() == 0 else []
    words = [config if w == "/etc/osprey/serve.yaml" else w for w in template["spec"]["containers"][0]["args"]]
    process = subprocess.Popen(
        [*inside, ROOT / "build/osprey", *words, "--port", "0", "-t", "1"], text=True, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, env={**os.environ, **pod_environment(template, index)})
    stack.callback(process.communicate)
    stack.callback(process.kill)
    return process


def ranks_with_steps(url):
    with urllib.request.urlopen(f"{url}/metrics", timeout=60) as answer:
        return re.findall(r"^osprey:rank_steps_total\{.*\} [1-9]", answer.read().decode(), re.M)


def ask(leader):
    url = leader.stdout.readline().strip()
    assert url.startswith("http://"), leader.stderr.read()
    url = f"http://127.0.0.1:{url.rsplit(':', 1)[1]}"
    body = {"prompt": "The capital of France is", "max_tokens": 8, "temperature": 0, "ignore_eos": True}
    request = urllib.request.Request(f"{url}/v1/completions", json.dumps(body).encode(),
                                     {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        text = json.load(answer)["choices"][0]["text"]
    wait_until(lambda: len(ranks_with_steps(url)) == 2, "both ranks have counted steps", 10)
    return text


def test_two_pods_of_a_group_answer(tmp_path):
    """The commands and variables of the pods, without a cluster: the worker is there before the leader, the leader
    is restarted, and when it drains, the worker ends, too."""
    values = {**RANKS, "model": ""}
    leader, worker = group(values)
    config = tmp_path / "serve.yaml"
    config.write_text(one(values, "ConfigMap")["data"]["serve.yaml"])
    with contextlib.ExitStack() as stack:
        other = start_pod(stack, worker, 1, config)
        first = start_pod(stack, leader, 0, config)
        text = ask(first)
        first.kill()
        first.wait(10)
        second = start_pod(stack, leader, 0, config)
        assert ask(second) == text and other.poll() is None
        second.terminate()
        assert second.wait(20) == 0
        assert ("TCP connections" if os.geteuid() == 0 else "shared memory") in second.stderr.read()
        wait_until(lambda: other.poll() is not None, "the worker has ended", 20)
        assert other.returncode == 0
