"""A hub and a storage that refuse, lie and attack: osprey pull says why, and nothing of it can be taken
for a model."""

import pathlib
import sys
import time

import pytest
from conftest import LARGE_BYTES
from faults import WRONG, always
from hub import COMMIT, Fault, sha256

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "http"))

GIVEN_UP_S = 30

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
