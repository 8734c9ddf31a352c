"""A hub and a storage that fail: osprey pull ends with the right files all the same."""

import pytest
from conftest import LARGE_BYTES, REPO
from faults import WRONG, always, first, sometimes
from hub import Fault

# name -> fault functions: the pull succeeds, with right files
SURVIVED = {
    "connections are cut": [first(6, Fault(cut=300_000))],
    "connections are cut before the first byte": [first(3, Fault(cut=0))],
    "one connection in three is cut": [sometimes(0.33, Fault(cut=1_000_000))],
    "ranges are ignored": [always(Fault(ignore_range=True))],
    "ranges are ignored, and the first connections are cut": [first(3, Fault(ignore_range=True, cut=5_000_000)),
                                                             always(Fault(ignore_range=True))],
    "ranges are ignored later": [lambda r: None if r.range is None or r.range.startswith("bytes=0-") else
                                 Fault(ignore_range=True) if r.side == "storage" else None],
    "other bytes than asked for": [first(2, Fault(content_range=f"bytes 5-4194308/{LARGE_BYTES}"))],
    "a range of a file of another size": [first(2, Fault(content_range=f"bytes 0-4194303/{LARGE_BYTES + 1}"))],
    "a range that cannot be read": [first(2, Fault(content_range="bytes now"))],
    "wrong content, once": [first(1, Fault(data=WRONG, content_range=f"bytes 0-4194303/{LARGE_BYTES}"))],
    "the listing fails with 503": [first(2, Fault(503), "hub", "/api/")],
    "the listing is cut": [first(1, Fault(200, body=b"[{", length=99999), "hub", "/tree/")],
    "the hub answers 500 for files": [first(2, Fault(500), "hub", "/resolve/")],
    "the storage answers 503": [first(3, Fault(503))],
    "the storage has lost the file": [first(2, Fault(404))],
    "the storage refuses signed URLs": [first(4, Fault(403, body=b"expired"))],
    "429 with Retry-After for the listing": [first(1, Fault(429, {"Retry-After": "1"}), "hub", "/api/")],
    "429 with RateLimit for files": [first(1, Fault(429, {"RateLimit": '"resolvers";r=0;t=1'}), "hub", "/resolve/")],
    "429 of the storage": [first(1, Fault(429, {"Retry-After": "1"}))],
    "errors with long bodies": [first(1, Fault(503, body=bytes(1 << 20)), "hub", "/resolve/"),
                                first(1, Fault(403, body=bytes(1 << 20)))],
    "the hub redirects to itself": [first(1, lambda r: Fault(307, {"Location": "/moved" + r.path.replace("/moved", "")}),
                                          "hub", "/resolve/")],
}


@pytest.mark.parametrize("name", SURVIVED)
def test_survived(case, name):
    case.hub.faults = SURVIVED[name]
    done = case.pull()
    assert done.returncode == 0, done.stderr
    case.check_complete()


def test_stalled_connections_are_given_up(case):
    case.hub.faults = [first(2, Fault(cut=1_000_000, stall=True))]
    done = case.pull(HF_HUB_DOWNLOAD_TIMEOUT="1")
    assert done.returncode == 0 and "Operation too slow" in done.stderr, done.stderr
    case.check_complete()


def test_signed_urls_that_expire(make_case):
    """A URL lives shorter than the download of its file."""
    case = make_case(url_life_s=0.4)
    case.hub.faults = [always(Fault(rate=4_000_000))]
    done = case.pull(REPO, "--connections", "2")
    assert done.returncode == 0, done.stderr
    case.check_complete()
    assert len(case.hub.requests("hub", "model-00000")) >= 2
    assert "Signature" not in done.stderr


def test_a_hub_without_storage(make_case):
    case = make_case(direct=True)
    assert case.pull().returncode == 0
    case.check_complete()
    assert case.hub.requests("storage") == []
