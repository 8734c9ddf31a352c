#!/usr/bin/env python3
"""Prints the chart's manifests, rendered by Helm's own engine (the package helm-python-sdk).

    deploy/helm/render.py [VALUES.yaml...] >deploy/kubernetes/osprey.yaml

`make manifests` writes deploy/kubernetes/osprey.yaml with it, from the default values.
"""
import pathlib
import sys

import helm_python
import yaml

CHART = pathlib.Path(__file__).parent / "osprey"
HEADER = """# Made from deploy/helm/osprey by `make manifests`; change the chart instead.
#
#   kubectl create namespace llm
#   kubectl -n llm apply -f deploy/kubernetes/osprey.yaml
"""


def merge(into, values):
    for key, value in values.items():
        if isinstance(value, dict) and isinstance(into.get(key), dict):
            merge(into[key], value)
        else:
            into[key] = value
    return into


def documents(values=None, name="osprey", namespace="llm"):
    """(template, text of the document) of everything that helm install would create."""
    rendered = helm_python.Chart.load(CHART).render(values or {}, name=name, namespace=namespace)
    for path, text in sorted(rendered.items()):
        template = path.removeprefix("osprey/templates/")
        if template.endswith(".yaml"):
            for document in text.split("\n---\n"):
                if yaml.safe_load(document):
                    yield template, document.strip()


def main():
    values = {}
    for path in sys.argv[1:]:
        merge(values, yaml.safe_load(pathlib.Path(path).read_text()) or {})
    print(HEADER, end="")
    for template, document in documents(values):
        if not template.startswith("tests/"):
            print(f"---\n{document}")


if __name__ == "__main__":
    main()
