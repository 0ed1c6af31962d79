"""A hub of weights on loopback: as much of the Hugging Face hub's protocol as downloading one file takes."""

from __future__ import annotations

import contextlib
import hashlib
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@contextlib.contextmanager
def serve(content, *, cuts=()):
    """Serve `content` under every file name ending in .safetensors; the first downloads end after `cuts` bytes.

    Gives the address and the list of requests: (method, Range header).
    """
    requests, cuts = [], list(cuts)
    digest = hashlib.sha256(content).hexdigest()

    class Handler(BaseHTTPRequestHandler):
        def do_HEAD(self):
            self.answer(b"")

        def do_GET(self):
            self.answer(content)

        def answer(self, body):
            wanted = self.headers.get("Range")
            requests.append((self.command, wanted))
            if not self.path.endswith(".safetensors"):
                self.send_error(404)
                return
            start = int(wanted.removeprefix("bytes=").partition("-")[0]) if wanted else 0
            self.send_response(206 if wanted else 200)
            if wanted:
                self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
            self.send_header("Content-Length", str(len(content) - start))
            self.send_header("X-Repo-Commit", "a" * 40)
            self.send_header("ETag", f'"{digest}"')
            self.send_header("Accept-Ranges", "bytes")
            self.end_headers()
            end = start + cuts.pop(0) if body and cuts else len(body)
            self.wfile.write(body[start:end])
            self.close_connection = True

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", requests
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
