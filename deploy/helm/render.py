#!/usr/bin/env python3
"""Prints the chart's manifests, rendered by Helm's own engine (the package helm-python-sdk).

    deploy/helm/render.py [VALUES.yaml...] >deploy/kubernetes/osprey.yaml

`make manifests` writes deploy/kubernetes/osprey.yaml with it, from the default values, and
deploy/kubernetes/ranks.yaml, from deploy/helm/ranks.yaml. The comment at the top of the values is
printed, too.
"""
import itertools
import pathlib
import sys

import helm_python
import yaml

CHART = pathlib.Path(__file__).parent / "osprey"
HEADER = """# Made from deploy/helm/osprey by `make manifests`; change the chart instead.
#
#   kubectl create namespace llm
#   kubectl -n llm apply -f deploy/kubernetes/{name}
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


def first_comment(text):
    return "\n".join(itertools.takewhile(lambda line: line.startswith("#"), text.splitlines()))


def main():
    values, name, comments = {}, "osprey.yaml", []
    for path in map(pathlib.Path, sys.argv[1:]):
        text = path.read_text()
        merge(values, yaml.safe_load(text) or {})
        name = path.name
        comments.append(first_comment(text))
    print(HEADER.format(name=name), end="")
    for comment in filter(None, comments):
        print(f"#\n{comment}")
    for template, document in documents(values):
        if not template.startswith("tests/"):
            print(f"---\n{document}")


if __name__ == "__main__":
    main()
