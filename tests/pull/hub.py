"""A stand-in for the Hugging Face hub and its storage, on two ports of this machine.

The hub lists repositories and redirects files of large storage to the other port, with signed URLs that
expire. Both misbehave on request: `hub.faults` is a list of functions that see each request before it
is answered, see Fault. Everything that was asked is in `hub.log`.
"""

import functools
import hashlib
import http.server
import json
import pathlib
import re
import socket
import ssl
import threading
import time
import urllib.parse

COMMIT = "1234567890abcdef1234567890abcdef12345678"
LFS_BYTES = 4096  # from this size on a file is in large file storage
SLICE = 64 << 10


@functools.cache
def git_sha1(data):
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


@functools.cache
def sha256(data):
    return hashlib.sha256(data).hexdigest()


class Request:
    """What a fault function sees."""

    def __init__(self, handler, side):
        self.side = side  # "hub" or "storage"
        self.method = handler.command
        self.path = urllib.parse.unquote(handler.path.split("?")[0])
        self.query = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(handler.path).query))
        self.range = handler.headers.get("Range")
        self.authorization = handler.headers.get("Authorization")
        self.host = handler.headers.get("Host")
        self.is_file = "/resolve/" in self.path or side == "storage"
        self.name = self.path.split("/resolve/")[-1].split("/", 1)[-1] if "/resolve/" in self.path else self.path


class Fault:
    """What a fault function may return; None: the right answer.

    status, headers, body: instead of the answer. cut: close the connection after so many bytes of the
    body. stall: keep it open without sending more. ignore_range: 200 with the whole file. data: other
    bytes. rate: bytes a second.
    """

    def __init__(self, status=None, headers=(), body=b"", cut=None, stall=False, ignore_range=False, data=None,
                 rate=None, length=None, content_range=None):
        self.status, self.headers, self.body = status, dict(headers), body
        self.cut, self.stall, self.ignore_range = cut, stall, ignore_range
        self.data, self.rate, self.length, self.content_range = data, rate, length, content_range


class Hub:
    def __init__(self, url_life_s=60, direct=False, tls=None, page=1000):
        self.repos = {}  # name -> {path: bytes}
        self.lies = {}  # path -> members that replace those of its entry in the listing
        self.extra_entries = []  # of the listing
        self.faults = []
        self.log = []
        self.url_life_s = url_life_s
        self.direct = direct  # the hub itself sends all files
        self.token = None  # requests to the hub need it
        self.page = page  # entries of one page of the listing
        self.commit = COMMIT
        self.hold = threading.Event()  # a stalled answer ends when this is set
        self.lock = threading.Lock()
        self.active, self.most_active = 0, 0
        self.storage = Server(self, "storage", tls)
        self.hub = Server(self, "hub", tls)
        self.endpoint = self.hub.url
        self.bytes_sent = 0

    def add(self, repo, files):
        self.repos[repo] = dict(files)

    def requests(self, side=None, contains=""):
        with self.lock:
            return [r for r in self.log if (side is None or r.side == side) and contains in r.path]

    def close(self):
        self.hold.set()
        self.hub.close()
        self.storage.close()

    def sign(self, path, expires):
        return sha256(f"{path}:{expires}:key".encode())[:16]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def __init__(self, hub, side, tls):
        super().__init__(("127.0.0.1", 0), Handler)
        self.hub_state, self.side = hub, side
        self.url = f"{'https' if tls else 'http'}://127.0.0.1:{self.server_address[1]}"
        if tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*tls)
            self.socket = context.wrap_socket(self.socket, server_side=True)
        threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()

    def handle_error(self, request, client_address):
        pass  # clients that were killed

    def close(self):
        self.shutdown()
        self.server_close()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_HEAD(self):
        self.answer()

    def do_GET(self):
        self.answer()

    @property
    def hub(self):
        return self.server.hub_state

    def answer(self):
        request = Request(self, self.server.side)
        with self.hub.lock:
            self.hub.log.append(request)
            self.hub.active += 1
            self.hub.most_active = max(self.hub.most_active, self.hub.active)
        try:
            self.answer_request(request)
        finally:
            with self.hub.lock:
                self.hub.active -= 1

    def answer_request(self, request):
        fault = None
        for function in self.hub.faults:
            fault = fault or function(request)
        if fault and fault.status:
            self.send(fault.status, fault.headers, fault.body, fault.length)
        elif request.side == "storage":
            self.answer_storage(request, fault)
        elif self.hub.token and request.authorization != f"Bearer {self.hub.token}":
            self.send(401, {"X-Error-Code": "GatedRepo" if request.is_file else "RepoNotFound",
                            "X-Error-Message": "Invalid username or password."})
        else:
            self.answer_hub(request, fault)

    def send(self, status, headers=(), body=b"", length=None):
        self.send_response(status)
        for name, value in dict(headers).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body) if length is None else length))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)
        self.close_connection = self.close_connection or length is not None

    def send_json(self, value, headers=()):
        self.send(200, {"Content-Type": "application/json", **dict(headers)}, json.dumps(value).encode())

    # ---- the hub ----

    def answer_hub(self, request, fault):
        found = re.fullmatch(r"/api/models/([^/]+/[^/]+)/(revision|tree|refs)(?:/(.+))?", request.path)
        file = re.fullmatch(r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", request.path)
        repo = (found or file) and self.hub.repos.get((found or file).group(1))
        if repo is None:
            self.send(404, {"X-Error-Code": "RepoNotFound", "X-Error-Message": "Repository not found"})
        elif found and found.group(2) == "refs":
            self.send_json({"branches": [{"name": "main", "ref": "refs/heads/main",
                                          "targetCommit": self.hub.commit}], "tags": [], "converts": []})
        elif (found or file).group(3 if found else 2) not in ("main", "refs/pr/1", self.hub.commit):
            self.send(404, {"X-Error-Code": "RevisionNotFound", "X-Error-Message": "Invalid rev id"})
        elif found and found.group(2) == "revision":
            self.send_json({"id": found.group(1), "sha": self.hub.commit,
                            "siblings": [{"rfilename": path} for path in repo]})
        elif found:
            self.answer_tree(request, found.group(1), repo)
        elif file.group(3) not in repo:
            self.send(404, {"X-Error-Code": "EntryNotFound", "X-Error-Message": "Entry not found"})
        else:
            self.answer_file(request, file.group(3), repo[file.group(3)], fault)

    def entry(self, path, data):
        entry = {"type": "file", "oid": git_sha1(data), "size": len(data), "path": path}
        if len(data) >= LFS_BYTES:
            entry["lfs"] = {"oid": sha256(data), "size": len(data), "pointerSize": 135}
        lie = dict(self.hub.lies.get(path, {}))
        if "lfs" in lie and "lfs" in entry:
            entry["lfs"].update(lie.pop("lfs"))
        entry.update(lie)
        return entry

    def answer_tree(self, request, name, repo):
        entries = [self.entry(path, data) for path, data in repo.items()] + self.hub.extra_entries
        start = int(request.query.get("cursor", 0))
        headers = {}
        if start + self.hub.page < len(entries):
            cursor = start + self.hub.page
            headers["Link"] = (f'<{self.hub.endpoint}/api/models/{name}/tree/{self.hub.commit}'
                               f'?recursive=true&cursor={cursor}>; rel="next"')
        self.send_json(entries[start:start + self.hub.page], headers)

    def answer_file(self, request, path, data, fault):
        etag = sha256(data) if len(data) >= LFS_BYTES else git_sha1(data)
        headers = {"X-Repo-Commit": self.hub.commit, "ETag": f'"{etag}"'}
        if len(data) >= LFS_BYTES:
            headers.update({"X-Linked-Etag": f'"{etag}"', "X-Linked-Size": str(len(data))})
        if fault:
            headers.update(fault.headers)
        if len(data) < LFS_BYTES or self.hub.direct:
            self.send_bytes(request, data, headers, fault)
            return
        expires = f"{time.time() + self.hub.url_life_s:.3f}"
        stored = f"/blobs/{etag}"
        query = urllib.parse.urlencode({"Expires": expires, "Signature": self.hub.sign(stored, expires)})
        body = b"Found. Redirecting to the storage"  # the hub sends such a body, too
        self.send(302, {**headers, "Location": f"{self.hub.storage.url}{stored}?{query}"}, body)

    # ---- the storage ----

    def answer_storage(self, request, fault):
        expires = request.query.get("Expires", "0")
        data = next((d for files in self.hub.repos.values() for d in files.values()
                     if request.path == f"/blobs/{sha256(d)}"), None)
        if request.authorization:
            self.send(400, body=b"credentials were sent to the storage")
        elif request.query.get("Signature") != self.hub.sign(request.path, expires) or float(expires) < time.time():
            self.send(403, body=b"<Error><Code>AccessDenied</Code></Error>")
        elif data is None:
            self.send(404)
        else:
            self.send_bytes(request, data, {}, fault)

    # ---- bytes ----

    def send_bytes(self, request, data, headers, fault):
        fault = fault or Fault()
        size = len(data)
        data = data if fault.data is None else fault.data
        first, last, status = 0, len(data) - 1, 200
        wanted = re.fullmatch(r"bytes=(\d+)-(\d*)", request.range or "")
        if wanted and not fault.ignore_range:
            first, status = int(wanted.group(1)), 206
            last = min(int(wanted.group(2) or last), last)
        if status == 206 and first > last:
            self.send(416, {"Content-Range": f"bytes */{len(data)}"})
            return
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Accept-Ranges", "none" if fault.ignore_range else "bytes")
        self.send_header("Content-Length", str(last - first + 1 if fault.length is None else fault.length))
        if status == 206:
            self.send_header("Content-Range", fault.content_range or f"bytes {first}-{last}/{size}")
        self.end_headers()
        if self.command != "HEAD":
            self.send_body(data[first:last + 1], fault)

    def send_body(self, body, fault):
        whole = len(body)
        body = body if fault.cut is None else body[:fault.cut]
        for at in range(0, len(body), SLICE):
            piece = body[at:at + SLICE]
            self.wfile.write(piece)
            with self.hub.lock:
                self.hub.bytes_sent += len(piece)
            if fault.rate:
                time.sleep(len(piece) / fault.rate)
        if fault.stall:
            self.wfile.flush()
            self.hub.hold.wait(60)
        if len(body) < whole or fault.stall:
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)


@functools.cache
def random_bytes(n, seed):
    """The same bytes for the same seed, on every machine."""
    return hashlib.shake_256(f"{seed}".encode()).digest(n)


def nano_files():
    """The bundled model as a repository, with the folders that a pull leaves out."""
    folder = pathlib.Path(__file__).resolve().parents[2] / "models" / "osprey-nano"
    files = {p.name: p.read_bytes() for p in sorted(folder.iterdir()) if p.is_file()}
    files["original/model.safetensors"] = random_bytes(8192, "original")
    files["metal/model.bin"] = random_bytes(8192, "metal")
    files["README.md"] = b"# model card\n"
    return files
