"""Proves that no test template can come up in training, however it is dressed.

    python3 tools/nano/check_held_out.py

Training puts greetings, openings, endings and filler words around and into its templates (Maker.casual,
Maker.rough, Maker.styled in conversations.py), the test greetings and endings. So a template is compared by
what is left of it without them, without capitals and without punctuation; what is left must differ from
that of every training template of any kind.
"""

import sys

import phrases
import phrases_test
import words

KINDS = ("CAPITAL", "FOLLOW_UP", "ADD", "SUBTRACT", "TELL", "ASK", "COPY", "REQUEST")
TRAIN, TEST = 0, 2
ENDINGS = [" Please.", " Thanks!", " Thank you.", " :)", " I am curious.", *phrases.STYLE_ENDINGS]


def _words(text):
    return phrases.plain(text).split()


OPENINGS_WORDS = [_words(o) for o in [*phrases.GREETINGS, *phrases.STYLE_OPENINGS]]
ENDINGS_WORDS = [w for w in map(_words, ENDINGS) if w]


def bare(template):
    """What is left of a template without openings, endings and fillers, as one string."""
    left = _words(template)
    changed = True
    while changed:
        changed = False
        for opening in OPENINGS_WORDS:
            if left[: len(opening)] == opening and len(left) > len(opening):
                left, changed = left[len(opening) :], True
        for ending in ENDINGS_WORDS:
            if left[-len(ending) :] == ending and len(left) > len(ending):
                left, changed = left[: -len(ending)], True
    return " ".join(w for w in left if w not in words.FILLERS)


def tables():
    """(name, (training, development, test)) of every kind of template."""
    for kind in KINDS:
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
