"""A local server of an archive that may break off."""

from __future__ import annotations

import http.server


class Shelf(http.server.BaseHTTPRequestHandler):
    """Serves one archive, in ranges; `cut` breaks answers off after so many bytes."""

    data, cut, ranges, asked = b"", None, True, []

    def do_GET(self):
        wanted = self.headers.get("Range")
        Shelf.asked.append(wanted)
        start = int(wanted[len("bytes=") : -1]) if wanted and Shelf.ranges else 0
        if not self.path.endswith("mini.tar.gz"):
            self.send_error(404)
            return
        if start >= len(Shelf.data):
            self.send_error(416)
            return
        rest = Shelf.data[start:]
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(rest)))
        self.end_headers()
        self.wfile.write(rest[: Shelf.cut])

    def log_message(self, *_):
        pass
