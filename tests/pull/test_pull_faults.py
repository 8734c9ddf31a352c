"""A hub and a storage that fail, lie and attack: osprey pull ends with right files, or with none."""

import os
import pathlib
import random
import signal
import subprocess
import sys
import time

import pytest
from conftest import LARGE_BYTES, REPO
from hub import COMMIT, Fault, random_bytes, sha256

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "http"))

GIVEN_UP_S = 30


def first(n, fault, side="storage", contains=""):
    """The first n requests of that kind meet the fault."""
    left = [n]

    def function(request):
        if request.side != side or contains not in request.path or left[0] == 0:
            return None
        left[0] -= 1
        return fault(request) if callable(fault) else fault

    return function


def always(fault, side="storage", contains=""):
    return first(-1, fault, side, contains)


def sometimes(share, fault, seed=1):
    generator = random.Random(seed)
    return lambda request: fault if request.side == "storage" and generator.random() < share else None


WRONG = random_bytes(LARGE_BYTES, "wrong")

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


# name -> (fault functions, what the error says): the pull fails, and nothing can be taken for a model
FATAL = {
    "always wrong content": ([always(lambda r: Fault(data=WRONG[: int(LARGE_BYTES)],
                                                    content_range=None if r.range is None else None))],
                             "wrong content: its sha256 is"),
    "a longer file": ([always(lambda r: Fault(length=LARGE_BYTES + 1) if r.range is None else None)],
                      "bytes, expected"),
    "another commit": ([always(Fault(headers={"X-Repo-Commit": COMMIT[::-1]}), "hub", "/resolve/")],
                       "the hub sends commit"),
    "another file than listed": ([always(Fault(headers={"X-Linked-Etag": f'"{sha256(b"x")}"'}), "hub", "/resolve/")],
                                 "the hub sends the file with digest"),
    "another size than listed": ([always(Fault(headers={"X-Linked-Size": "7"}), "hub", "/resolve/")],
                                 "the hub sends 7 bytes"),
    "no model": ([always(Fault(404, {"X-Error-Code": "RepoNotFound"}), "hub")], "there is no such model on the hub"),
    "no revision": ([always(Fault(404, {"X-Error-Code": "RevisionNotFound"}), "hub")],
                    "the model has no such branch, tag or commit"),
    "a file that is gone": ([always(Fault(404, {"X-Error-Code": "EntryNotFound"}), "hub", "/resolve/")],
                            "the model has no such file at this revision"),
    "a token is needed": ([always(Fault(401), "hub")], "set HF_TOKEN, or run hf auth login"),
    "gated without a token": ([always(Fault(401, {"X-Error-Code": "GatedRepo"}), "hub", "/resolve/")],
                              "private or gated and needs a token"),
    "a long pause": ([always(Fault(429, {"Retry-After": "3600"}), "hub")], "asks for a pause of 3600 s"),
    "not JSON": ([always(Fault(200, body=b"<html>"), "hub")], "the answer is not JSON"),
    "no commit": ([always(Fault(200, body=b'{"sha": "../../x"}'), "hub")], "the answer has no commit"),
    "no list": ([always(Fault(200, body=b"{}"), "hub", "/tree/")], "not a list of files"),
    "redirects without an end": ([always(lambda r: Fault(302, {"Location": r.path}), "hub", "/resolve/")],
                                 "more than 8 redirects"),
    "a redirect to a file": ([always(Fault(302, {"Location": "file:///etc/passwd"}), "hub", "/resolve/")],
                             "expected an http or https URL"),
    "a redirect with a password": ([always(Fault(302, {"Location": "http://hub@127.0.0.1/x"}), "hub", "/resolve/")],
                                   "without a user name"),
    "compressed bytes": ([always(Fault(headers={"Content-Encoding": "gzip"}), "hub", "/config.json")],
                         "compressed bytes"),
    "the next page elsewhere": ([always(Fault(200, {"Link": '<http://127.0.0.1:1/x>; rel="next"'}, b"[]"), "hub",
                                        "/tree/")], "the next page of the listing is not at"),
}  # fmt: skip


@pytest.mark.parametrize("name", FATAL)
def test_fatal(case, name):
    faults, text = FATAL[name]
    case.hub.faults = faults
    began = time.monotonic()
    done = case.pull()
    assert done.returncode == 1 and text in done.stderr, done.stderr
    assert done.stdout == "" and time.monotonic() - began < GIVEN_UP_S
    case.check_nothing()
    case.hub.faults = []  # and the next pull succeeds
    assert case.pull().returncode == 0
    case.check_complete()


ENTRY = {"type": "file", "oid": "0" * 40, "size": 1}
LISTINGS = {
    "a path that leaves the folder": ({"path": "../../../x"}, "could leave the model's folder"),
    "an absolute path": ({"path": "/tmp/x"}, "could leave the model's folder"),
    "a path with a control character": ({"path": "a\x1b[2Jb"}, "could leave the model's folder"),
    "a path with backslashes": ({"path": "..\\x"}, "could leave the model's folder"),
    "a digest that is a path": ({"path": "x", "oid": "../../../../../../../../../../../etc/passwd"}, "its digest"),
    "a negative size": ({"path": "x", "size": -1}, "its size"),
    "a size beyond all limits": ({"path": "x", "size": 2**62}, "its size"),
    "the same file twice": ({"path": "config.json"}, "is listed twice"),
    "more than the disk has": ({"path": "x.safetensors", "lfs": {"oid": "0" * 64, "size": 2**40}}, "the download needs"),
}


@pytest.mark.parametrize("name", LISTINGS)
def test_hostile_listing(case, name):
    entry, text = LISTINGS[name]
    case.hub.extra_entries = [{**ENTRY, **entry}]
    done = case.pull()
    assert done.returncode == 1 and text in done.stderr, done.stderr
    assert "\x1b" not in done.stderr
    assert case.hub.requests(contains="/resolve/") == []
    case.check_nothing()


LIES = {
    "a larger size": {"lfs": {"size": LARGE_BYTES + 5}},
    "a smaller size": {"lfs": {"size": LARGE_BYTES - 5}},
    "another digest": {"lfs": {"oid": sha256(b"x")}},
}


@pytest.mark.parametrize("name", LIES)
@pytest.mark.parametrize("direct", [False, True])
def test_lies_about_a_file(make_case, name, direct):
    case = make_case(direct=direct)
    case.hub.lies = {"model-00000-of-00001.safetensors": LIES[name]}
    # only the listing lies: the file's own headers say nothing
    case.hub.faults = [always(lambda r: Fault(headers={"X-Linked-Etag": "", "X-Linked-Size": ""}), "hub", "/resolve/")]
    done = case.pull(HF_HUB_DOWNLOAD_TIMEOUT="2")
    assert done.returncode == 1, done.stderr
    case.check_nothing()
    case.hub.lies, case.hub.faults = {}, []
    assert case.pull().returncode == 0
    case.check_complete()


def test_a_lie_about_a_small_file(case):
    case.hub.lies = {"config.json": {"oid": "0" * 40}}
    done = case.pull()
    assert done.returncode == 1 and "wrong content: its git sha1 is" in done.stderr
    case.check_nothing()


# ---- credentials ----


def test_the_token_goes_to_the_hub_only(case):
    case.hub.token = "hf_secret"
    done = case.pull()
    assert done.returncode == 1 and "set HF_TOKEN" in done.stderr
    done = case.pull(HF_TOKEN="hf_wrong")
    assert done.returncode == 1 and "does not accept this token" in done.stderr
    assert case.pull(HF_TOKEN="hf_secret").returncode == 0
    case.check_complete()
    storage = case.hub.requests("storage")
    assert storage and not any(r.authorization for r in storage)
    assert "hf_" not in done.stderr


def test_token_of_hf_auth_login(case):
    case.hub.token = "hf_secret"
    case.home.mkdir(parents=True)
    (case.home / "token").write_text("hf_secret\n")
    assert case.pull().returncode == 0
    case.check_complete()


def test_a_gated_model_with_a_token(case):
    case.hub.faults = [always(Fault(403, {"X-Error-Code": "GatedRepo", "X-Error-Message": "Ask\x1b[2J for access"}),
                              "hub", "/resolve/")]
    done = case.pull(HF_TOKEN="hf_x")
    assert done.returncode == 1 and "ask for access on the model's page" in done.stderr and "\x1b" not in done.stderr


def test_no_downgrade_from_https(make_case, tmp_path):
    import certificates

    certificate, key = certificates.make(tmp_path)
    case = make_case(tls=(certificate, key))
    done = case.pull()
    assert done.returncode == 1 and "SSL_CERT_FILE" in done.stderr
    trusted = {"SSL_CERT_FILE": str(certificate), "HF_TOKEN": "hf_x"}
    plain = make_case()
    case.hub.faults = [always(lambda r: Fault(302, {"Location": plain.hub.endpoint + r.path}), "hub", "/resolve/")]
    done = case.pull(**trusted)
    assert done.returncode == 1 and "redirects from https to the unencrypted http://127.0.0.1" in done.stderr
    assert plain.hub.log == []
    case.check_nothing()
    case.hub.faults = []
    assert case.pull(**trusted).returncode == 0
    case.check_complete()


# ---- interruptions ----


def received(done):
    return done.stderr


def test_kill_at_random_moments(case):
    """SIGKILL, again and again: what was downloaded is kept, and the end is right."""
    generator = random.Random(7)
    case.hub.faults = [always(Fault(rate=3_000_000))]
    n_kills = 0
    for _ in range(25):
        process = case.start("pull", REPO)
        try:
            process.wait(generator.uniform(0.05, 0.7))
            break
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            n_kills += 1
        case.check_blobs()
        assert not (case.model / "refs" / "main").exists() or process.returncode == 0
    case.hub.faults = []
    done = case.pull()
    assert done.returncode == 0, done.stderr
    case.check_complete()
    assert n_kills >= 5
    total = sum(len(d) for d in case.hub.repos[REPO].values())
    # a kill loses at most the block of each connection
    assert case.hub.bytes_sent < total + n_kills * 8 * (4 << 20)
    print(f"{n_kills} kills, {case.hub.bytes_sent} bytes sent for {total}")


def test_damage_between_runs(case):
    """A block of an earlier run that changed on the disk, as after a loss of power."""
    case.hub.faults = [lambda r: Fault(404) if r.side == "storage" and case.hub.bytes_sent > 8 << 20 else None]
    assert case.pull(REPO, "--connections", "1").returncode == 1
    parts = list((case.model / "blobs").glob("*.osprey-part"))
    assert parts
    part = max(parts, key=lambda p: p.stat().st_size)
    with open(part, "r+b") as file:
        file.seek(4_200_000)
        file.write(b"damage")
    case.hub.faults = []
    done = case.pull()
    assert done.returncode == 0, done.stderr
    case.check_complete()


def test_ctrl_c(case):
    case.hub.faults = [always(Fault(rate=2_000_000))]
    process = case.start("pull", REPO)
    end = time.monotonic() + 30
    while case.hub.bytes_sent < 6 << 20 and time.monotonic() < end:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    err = process.communicate(timeout=10)[1]
    assert process.returncode == 128 + signal.SIGINT
    assert "stopped; " in err and "the same command continues" in err
    case.check_nothing()
    sent = case.hub.bytes_sent
    case.hub.faults = []
    assert case.pull().returncode == 0
    case.check_complete()
    total = sum(len(d) for d in case.hub.repos[REPO].values())
    assert case.hub.bytes_sent - sent < total


def test_two_pulls_share_one_download(case):
    case.hub.faults = [always(Fault(rate=8_000_000))]
    both = [case.start("pull", REPO, "--connections", "2") for _ in range(2)]
    for process in both:
        out, err = process.communicate(timeout=60)
        assert process.returncode == 0, err
        assert out == f"{case.snapshot}\n"
    case.check_complete()
    total = sum(len(d) for d in case.hub.repos[REPO].values())
    assert case.hub.bytes_sent < 1.05 * total


def test_osprey_and_huggingface_hub_at_once(case):
    """Each holds the locks of what it downloads, and the other waits for it."""
    case.hub.faults = [always(Fault(rate=8_000_000))]
    code = f"import huggingface_hub as h\nprint(h.snapshot_download('{REPO}', ignore_patterns=['original/*', 'README.md', '.git*', 'empty/*']))"
    theirs = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              env=case.environment)
    end = time.monotonic() + 30
    while not case.hub.requests("storage") and time.monotonic() < end:
        time.sleep(0.01)
    done = case.pull()
    out, err = theirs.communicate(timeout=60)
    assert done.returncode == 0 and theirs.returncode == 0, (done.stderr, err)
    assert out.strip() == done.stdout.strip() == str(case.snapshot)
    case.check_complete()
    total = sum(len(d) for d in case.hub.repos[REPO].values())
    assert case.hub.bytes_sent < 1.05 * total


def test_a_model_that_is_being_downloaded_is_not_removed(case):
    case.hub.faults = [always(Fault(rate=2_000_000))]
    process = case.start("pull", REPO)
    end = time.monotonic() + 30
    while case.hub.bytes_sent < 1 << 20 and time.monotonic() < end:
        time.sleep(0.01)
    done = case.pull(REPO, "--remove", "--yes")
    assert done.returncode == 1 and "another process downloads it" in done.stderr
    process.kill()
    process.communicate()
    assert case.pull(REPO, "--remove", "--yes").returncode == 0
    assert not case.model.exists() and os.path.isdir(case.cache)
