#!/usr/bin/env python3
"""manifests.py: are the manifests what Kubernetes takes, and the ones that the page shows?

job.yaml is validated by the package kubernetes-validate against the schemas of the oldest and the
newest version that the page and the package know, where a field that does not exist is an error.
JobSet has no schema there: its Job is validated as one."""
import copy
import os
import re
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "..", "..")
VERSIONS = ("1.31", "1.34")

import kubernetes_validate  # noqa: E402  (requirements.txt; python.py finds it)
import yaml  # noqa: E402


def text_of(*names):
    with open(os.path.join(ROOT, *names), encoding="utf-8") as f:
        return f.read()


def load(name):
    return list(yaml.safe_load_all(text_of("deploy", "kubernetes", name)))


def values_of(tree, key):
    """Every value under `key`, at any depth."""
    if isinstance(tree, dict):
        for k, v in tree.items():
            if k == key:
                yield v
            yield from values_of(v, key)
    elif isinstance(tree, list):
        for v in tree:
            yield from values_of(v, key)


class Manifests(unittest.TestCase):
    def validate(self, document):
        for version in VERSIONS:
            kubernetes_validate.validate(document, version, strict=True)

    def refuses(self, document, change):
        wrong = copy.deepcopy(document)
        change(wrong["spec"])
        with self.assertRaises(kubernetes_validate.ValidationError):
            self.validate(wrong)

    def test_job(self):
        documents = load("job.yaml")
        self.assertEqual([d["kind"] for d in documents],
                         ["Service", "ConfigMap", "PersistentVolumeClaim", "Job"])
        for document in documents:
            self.validate(document)
        job = documents[-1]
        self.refuses(job, lambda spec: spec.update(backoffLimitPerIndeks=1))
        self.refuses(job, lambda spec: spec.update(completions="four"))
        self.refuses(job, lambda spec: spec["podFailurePolicy"]["rules"][0].pop("action"))

    def test_what_has_to_fit(self):
        """What no schema says: names that refer to each other, and numbers that stand twice."""
        service, config, claim, job = load("job.yaml")
        spec, pod = job["spec"], job["spec"]["template"]["spec"]
        [container] = pod["containers"]
        env = {e["name"]: e["value"] for e in container["env"]}
        self.assertEqual(service["spec"]["clusterIP"], "None")
        self.assertEqual(list(service["spec"]["selector"].values()), [job["metadata"]["name"]])
        self.assertEqual(pod["subdomain"], service["metadata"]["name"])
        self.assertEqual(env["MASTER_ADDR"],
                         f"{job['metadata']['name']}-0.{service['metadata']['name']}")
        self.assertEqual(env["WORLD_SIZE"], str(spec["completions"]))
        self.assertEqual(spec["parallelism"], spec["completions"])
        self.assertEqual(pod["restartPolicy"], "Never", "podFailurePolicy needs it")
        self.assertEqual(set(values_of(spec["podFailurePolicy"], "containerName")),
                         {container["name"]})
        self.assertEqual({v["name"] for v in pod["volumes"]},
                         {m["name"] for m in container["volumeMounts"]})
        self.assertEqual(list(values_of(pod, "claimName")), [claim["metadata"]["name"]])
        self.assertEqual(list(values_of(pod["volumes"], "configMap")),
                         [{"name": config["metadata"]["name"]}])
        self.assertEqual(list(values_of(pod, "defaultMode")), [0o400])

    def test_jobset(self):
        """Untested on a cluster, as its first line says; its Job is a right one."""
        self.assertRegex(text_of("deploy", "kubernetes", "jobset.yaml"), r"\A# UNTESTED")
        [jobset] = load("jobset.yaml")
        [ranks] = jobset["spec"]["replicatedJobs"]
        spec = copy.deepcopy(ranks["template"]["spec"])
        self.validate({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "train"},
                       "spec": spec})
        env = {e["name"]: e["value"] for e in spec["template"]["spec"]["containers"][0]["env"]}
        self.assertEqual(env["MASTER_ADDR"], f"{jobset['metadata']['name']}-{ranks['name']}-0-0."
                         f"{jobset['spec']['network']['subdomain']}")
        job = load("job.yaml")[-1]["spec"]
        env["MASTER_ADDR"] = "train-0.train"
        spec["template"]["spec"]["containers"][0]["env"] = [
            {"name": k, "value": v} for k, v in env.items()]
        job["template"]["spec"].pop("subdomain")
        self.assertEqual(spec, job, "the two differ in more than names")

    def test_page(self):
        """Each part of a manifest that the page shows stands in job.yaml, line by line."""
        page, manifest = text_of("docs", "KUBERNETES.md"), text_of("deploy/kubernetes/job.yaml")
        shown = re.findall(r"```yaml\n(.*?)```", page, re.S)
        self.assertTrue(shown)
        lines = {re.sub(r"\s+#.*", "", line).strip() for line in manifest.splitlines()}
        for line in "".join(shown).splitlines():
            self.assertIn(re.sub(r"\s+#.*", "", line).strip(), lines)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
