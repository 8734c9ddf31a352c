"""openai-harmony and tiktoken as oracles, at full size: what tests/text compares in every `make test`, over many more
strings and conversations. COMPAT_STRINGS (10,000,000) and COMPAT_CONVERSATIONS (100,000) set how many. They are made and
compared in parts, each from a seed of its own, by as many processes as there are CPUs."""

import collections
import concurrent.futures
import functools
import multiprocessing
import os
import sys

import suites

sys.path.insert(0, str(suites.ROOT / "tests" / "text"))
import test_harmony_library as library  # noqa: E402
import test_harmony_parser as reader  # noqa: E402
import test_tiktoken as tokens  # noqa: E402

N_STRINGS = int(os.environ.get("COMPAT_STRINGS", 10_000_000))
N_CONVERSATIONS = int(os.environ.get("COMPAT_CONVERSATIONS", 100_000))
CONVERSATIONS_A_PART = 2_500
SEED = 26


def in_parts(compare, n, part):
    """What compare(seed, how many) gives for each part of n: a counter of figures, and a list of differences. The counters are added up,
    the lists joined. A part's seed is its number, so that the machine does not matter."""
    figures, different = collections.Counter(), []
    sizes = [min(part, n - start) for start in range(0, n, part)]
    with concurrent.futures.ProcessPoolExecutor(len(os.sched_getaffinity(0)), multiprocessing.get_context("fork")) as pool:
        for counted, differences in pool.map(compare, range(len(sizes)), sizes):
            figures.update(counted)
            different += differences
    return figures, different


@functools.cache
def encoding():
    return library.harmony.load_harmony_encoding(library.harmony.HarmonyEncodingName.HARMONY_GPT_OSS)


@functools.cache
def osprey():
    return library.Osprey()


def rendered(part, n):
    requests = library.Requests(f"{SEED}/{part}")
    keep = library.harmony.RenderConversationConfig(auto_drop_analysis=False)
    n_tokens, different = 0, []
    for _ in range(n):
        request = requests.request()
        want = encoding().render_conversation_for_completion(library.conversation(request), library.harmony.Role.ASSISTANT, keep)
        n_tokens += len(want)
        if osprey().render(request) != want:
            different.append(request)
    return collections.Counter(conversations=n, tokens=n_tokens), different


def parsed(part, n):
    n_failed, different = reader.compare(encoding(), reader.Completions(f"{SEED}/{part}", encoding()).whole, n)
    return collections.Counter(completions=n, library_fails=n_failed), different


def parsed_mutated(part, n):
    n_failed, different = reader.compare(encoding(), reader.Completions(f"{SEED}/{part}/mutated", encoding()).mutated, n)
    counted = collections.Counter(streams=n, library_fails=n_failed, equal=n - n_failed - len(different))
    unexplained = []
    for one in different:
        rule = reader.deviation(encoding(), one[0])
        if rule is None:
            unexplained.append(one)
        else:
            counted[f"by our own rule: {rule}"] += 1
    return counted, unexplained


@functools.cache
def tiktoken_encoding():
    return tokens.tiktoken.Encoding("o200k_harmony", pat_str=tokens.PATTERN, mergeable_ranks=tokens.read_ranks(),
                                    special_tokens=tokens.SPECIALS)


@functools.cache
def maker():
    return tokens.Strings(list(tokens.read_ranks()))


def encoded(part, n):
    strings = maker().make(1_000_000 + part, n)
    expected = tiktoken_encoding().encode_ordinary_batch([tokens.text_of(s) for s in strings], num_threads=1)
    got = tokens.encode(tokens.VOCABULARY, strings)
    different = [one for one in zip(strings, got, expected, strict=True) if one[1] != one[2]]
    return collections.Counter(strings=n, bytes=sum(map(len, strings)), tokens=sum(map(len, expected))), different


def test_renders(record):
    figures, different = in_parts(rendered, N_CONVERSATIONS, CONVERSATIONS_A_PART)
    record("openai-harmony, rendering", **figures, differences=len(different))
    assert not different, different[0]


def test_parses(record):
    figures, different = in_parts(parsed, N_CONVERSATIONS, CONVERSATIONS_A_PART)
    record("openai-harmony, parsing", **figures, differences=len(different))
    reader.show(encoding(), different)
    assert (figures["library_fails"], len(different)) == (0, 0)


def test_parses_mutated(record):
    figures, unexplained = in_parts(parsed_mutated, N_CONVERSATIONS, CONVERSATIONS_A_PART)
    record("openai-harmony, parsing of mutated streams", **figures, differences=len(unexplained))
    reader.show(encoding(), unexplained)
    assert not unexplained


def test_encodes(record):
    figures, different = in_parts(encoded, N_STRINGS, tokens.BATCH)
    record("tiktoken", **figures, differences=len(different))
    assert not different, different[:tokens.N_SHOWN]
