"""openai-harmony and tiktoken as oracles, at full size: what tests/text compares in every `make test`, over many more
strings and conversations. COMPAT_STRINGS (10,000,000) and COMPAT_CONVERSATIONS (100,000) set how many."""

import collections
import os
import sys

import pytest

import suites

sys.path.insert(0, str(suites.ROOT / "tests" / "text"))
import test_harmony_library as library  # noqa: E402
import test_harmony_reader as reader  # noqa: E402
import test_tiktoken as tokens  # noqa: E402

N_STRINGS = int(os.environ.get("COMPAT_STRINGS", 10_000_000))
N_CONVERSATIONS = int(os.environ.get("COMPAT_CONVERSATIONS", 100_000))
SEED = 26


@pytest.fixture(scope="module")
def encoding():
    return library.harmony.load_harmony_encoding(library.harmony.HarmonyEncodingName.HARMONY_GPT_OSS)


def test_renders(encoding, record):
    osprey, requests = library.Osprey(), library.Requests(SEED)
    keep = library.harmony.RenderConversationConfig(auto_drop_analysis=False)
    n_tokens, different = 0, []
    for _ in range(N_CONVERSATIONS):
        request = requests.request()
        want = encoding.render_conversation_for_completion(library.conversation(request), library.harmony.Role.ASSISTANT, keep)
        n_tokens += len(want)
        if osprey.render(request) != want:
            different.append(request)
    record("openai-harmony, rendering", conversations=N_CONVERSATIONS, tokens=n_tokens, differences=len(different))
    assert not different, different[0]


def test_parses(encoding, record):
    n_failed, different = reader.compare(encoding, reader.Completions(SEED, encoding).whole, N_CONVERSATIONS)
    record("openai-harmony, parsing", completions=N_CONVERSATIONS, library_fails=n_failed, differences=len(different))
    reader.show(encoding, different)
    assert (n_failed, len(different)) == (0, 0)


def test_parses_mutated(encoding, record):
    n_failed, different = reader.compare(encoding, reader.Completions(SEED + 1, encoding).mutated, N_CONVERSATIONS)
    where = collections.Counter(reader.deviation(encoding, stream) for stream, _, _ in different)
    unexplained = [one for one in different if reader.deviation(encoding, one[0]) is None]
    record("openai-harmony, parsing of mutated streams", streams=N_CONVERSATIONS, library_fails=n_failed,
           equal=N_CONVERSATIONS - n_failed - len(different), by_rules_of_our_own=dict(where), differences=len(unexplained))
    reader.show(encoding, unexplained)
    assert not unexplained


def test_encodes(record):
    ranks = tokens.read_ranks()
    reference = tokens.tiktoken.Encoding("o200k_harmony", pat_str=tokens.PATTERN, mergeable_ranks=ranks,
                                         special_tokens=tokens.SPECIALS)
    strings = tokens.Strings(list(ranks))
    n_bytes = n_tokens = n_different = 0
    for seed, start in enumerate(range(0, N_STRINGS, tokens.BATCH)):
        batch = strings.make(1_000_000 + seed, min(tokens.BATCH, N_STRINGS - start))
        expected = reference.encode_ordinary_batch([tokens.text_of(s) for s in batch], num_threads=2)
        n_different += tokens.differences(batch, tokens.encode(tokens.VOCABULARY, batch), expected)
        n_tokens += sum(map(len, expected))
        n_bytes += sum(map(len, batch))
    record("tiktoken", strings=N_STRINGS, bytes=n_bytes, tokens=n_tokens, differences=n_different)
    assert n_different == 0
