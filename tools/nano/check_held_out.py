"""Proves that no test template can come up in training, however it is dressed.

    python3 tools/nano/check_held_out.py

Training puts greetings, openings, endings and filler words around and into its templates (Maker.casual,
Maker.rough, Maker.styled in conversations.py), the test greetings and endings. So a template is compared by
what is left of it without them, without capitals and without punctuation; what is left must differ from
that of every training template of any kind.
"""

import sys

import phrases
from phrases import bare

TRAIN, TEST = 0, 2


def tables():
    """(name, (training, development, test)) of every kind of template."""
    for kind in phrases.KINDS:
        yield kind, getattr(phrases, kind)
    for style, table in phrases.STYLE.items():
        yield f"STYLE {style}", table


def coincidences(test_lists):
    """(name, template) of those of test_lists, {name: templates}, that training can make."""
    trained = {bare(t) for _, table in tables() for t in table[TRAIN]}
    return [(name, t) for name, templates in test_lists.items() for t in templates if bare(t) in trained]


def main():
    test_lists = {name: table[TEST] for name, table in tables()}
    found = coincidences(test_lists)
    for name, template in found:
        print(f"{name}: training can make {template!r}")
    n = sum(map(len, test_lists.values()))
    print(f"{n - len(found)} of {n} test templates cannot come up in training")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
