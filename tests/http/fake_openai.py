"""A server with the OpenAI API that answers what a test says, for the commands that call servers."""

import http.server
import json
import ssl
import threading


def chunk(delta=None, finish_reason=None, **members):
    """A chunk of a chat completion as an event of the stream."""
    choice = {"index": 0, "delta": delta or {}, "finish_reason": finish_reason}
    return f"data: {json.dumps({'choices': [choice], **members})}\n\n"


USAGE = {"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 3}}
PARIS = [
    ": a comment\n\n",
    chunk({"role": "assistant"}),
    chunk({"reasoning": "The user ", "reasoning_content": "The user "}),
    chunk({"reasoning_content": "asks."}),
    chunk({"content": "Par"}),
    chunk({"content": "is"}, "stop"),
    f"data: {json.dumps(USAGE)}\n\n",
    "data: [DONE]\n\n",
]


class FakeServer:
    """`routes` maps paths to (status, body) or to a function that handles the request. `stream` is what
    /v1/chat/completions answers with status 200: events, and functions that are called in between."""

    def __init__(self, certificate=None):
        self.requests, self.bodies, self.headers = [], [], []
        self.stream = PARIS
        self.routes = {"/v1/models": (200, json.dumps({"data": [{"id": "first"}, {"id": "second"}]}))}
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def log_message(self, *_):
                pass

            def do_GET(self):
                outer.requests.append(self.path)
                outer.headers.append(self.headers)
                outer.answer(self)

            def do_POST(self):
                outer.bodies.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                self.do_GET()

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        scheme = "http"
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*certificate)
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
            scheme = "https"
        self.url = f"{scheme}://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    def answer(self, request):
        route = self.routes.get(request.path, (404, "no such route"))
        if request.path == "/v1/chat/completions" and request.path not in self.routes:
            self.answer_stream(request)
        elif callable(route):
            route(request)
        else:
            request.send_response(route[0])
            request.send_header("Content-Length", str(len(route[1].encode())))
            request.end_headers()
            request.wfile.write(route[1].encode())

    def answer_stream(self, request):
        request.send_response(200)
        request.send_header("Content-Type", "text/event-stream")
        request.end_headers()
        for event in self.stream:
            if callable(event):
                event(request)
            else:
                request.wfile.write(event.encode())
                request.wfile.flush()

    def close(self):
        self.server.shutdown()
        self.server.server_close()
