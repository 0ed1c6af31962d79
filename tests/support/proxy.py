"""A proxy on loopback between a client and a broker, whose connections can be reset or cut."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading


class Proxy:
    """Forwards every connection to `target`; a context manager."""

    def __init__(self, target=0):
        self.target = target
        self.open = True
        self.pairs = []
        self.server = socket.create_server(("127.0.0.1", 0))
        self.port = self.server.getsockname()[1]
        self.threads = []
        self.lock = threading.Lock()

    def __enter__(self):
        self.accepting = self.start(self.accept)
        return self

    def __exit__(self, *_):
        self.server.shutdown(socket.SHUT_RDWR)
        self.accepting.join(10)
        self.server.close()
        self.reset()
        for thread in self.threads:
            thread.join(10)

    def start(self, work, *arguments):
        thread = threading.Thread(target=work, args=arguments, daemon=True)
        self.threads.append(thread)
        thread.start()
        return thread

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                self.join(self.server.accept()[0])

    def join(self, near):
        """Carry a connection on to the target; end it where there is none, or nothing is let through."""
        try:
            far = socket.create_connection(("127.0.0.1", self.target), 10)
        except OSError:
            near.close()
            return
        far.settimeout(None)
        with self.lock:
            if self.open:
                self.pairs.append((near, far))
                self.start(self.forward, near, far)
                self.start(self.forward, far, near)
                return
        near.close()
        far.close()

    def forward(self, source, sink):
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                sink.sendall(data)
        for one in (source, sink):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def reset(self):
        """End all connections with a RST, in the middle of whatever they carry."""
        with self.lock:
            pairs, self.pairs = self.pairs, []
        for pair in pairs:
            for one in pair:
                with contextlib.suppress(OSError):
                    one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    one.shutdown(socket.SHUT_RDWR)
                one.close()

    def cut(self):
        """Let nothing through until `heal`."""
        with self.lock:
            self.open = False
        self.reset()

    def heal(self):
        self.open = True
