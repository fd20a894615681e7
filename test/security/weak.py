# SPDX-License-Identifier: Apache-2.0
"""Weak subjects: each does what a careless product would, so that a probe that cannot see an
escape is found out. Used as context managers; they never leave the lab's folder."""

import contextlib
import http.server
import io
import os
import shutil
import socket
import tarfile
import threading
import urllib.parse


class HostFiles:
    """A file service that joins paths on the host and follows what the guest made."""

    def __init__(self, lab):
        self.lab = lab
        self.folder = lab.root / "weak-files"

    def __enter__(self):
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir()
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.folder, ignore_errors=True)

    def _at(self, path):
        # decodes twice, strips one slash, joins: three classic faults
        return os.path.join(self.folder, urllib.parse.unquote(urllib.parse.unquote(path)).replace("\0", "").lstrip("/") if not path.startswith("//") else path)

    def read(self, path):
        for p in (self._at(path), urllib.parse.unquote(path).split("\0")[0]):
            try:
                with open(p, "rb") as f:
                    return 200, f.read(65536)
            except (OSError, ValueError):
                continue
        return 404, b""

    def link(self, name, target):
        os.symlink(target, self.folder / name)

    def special(self, name):
        os.mkfifo(self.folder / name)

    def read_in_time(self, name, limit_s):
        """None when it did not answer: opening a FIFO waits for a writer."""
        got = []
        t = threading.Thread(target=lambda: got.append(self.read("/" + name)), daemon=True)
        t.start()
        t.join(limit_s)
        if not got:
            # let it go, so that nothing stays behind
            fd = os.open(self.folder / name, os.O_WRONLY | os.O_NONBLOCK)
            os.close(fd)
            t.join()
            return None
        return got[0]


class HostUntar:
    """Unpacks whatever it gets, where it is told, without looking."""

    def __init__(self, lab):
        self.lab = lab

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def unpack(self, blob, folder):
        with tarfile.open(fileobj=io.BytesIO(blob)) as t:
            with contextlib.suppress(OSError, tarfile.TarError, KeyError):
                t.extractall(folder, numeric_owner=True)
        return True


class Unbounded:
    """Holds in memory whatever arrives, for as long as it comes."""

    def __init__(self, lab):
        self.lab = lab

    def __enter__(self):
        self.held = bytearray()
        return self

    def __exit__(self, *_):
        self.held = None

    def take(self, blob):
        self.held += blob

    def grown(self):
        return len(self.held)


class NoTenancy:
    """An API in which every key is the victim's: ids are authority."""

    def __init__(self, lab):
        self.lab = lab

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def key(self):
        return self.lab.caisson.key


class OpenServer:
    """An HTTP service without authentication that tells everything it knows."""

    def __init__(self, lab):
        self.lab = lab

    def __enter__(self):
        body = (f'{{"secret": "{self.lab.secret}", "sql": "SELECT * FROM caisson.api_keys", "at": "/usr/lib/caisson/api.c:1"}}').encode()

        class Handler(http.server.BaseHTTPRequestHandler):
            def answer(self):
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(body)
            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = do_HEAD = answer

            def log_message(self, *_):
                pass
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()


class TrustingChannel:
    """A host that takes the guest's word: memory for each length that is announced, a
    descriptor for each session, every byte for the client, any version."""

    def __init__(self, lab):
        self.lab = lab

    def __enter__(self):
        self.bytes, self.files, self.typed, self.alive = 0, [], True, True
        return self

    def __exit__(self, *_):
        for f in self.files:
            f.close()

    @property
    def fds(self):
        return len(self.files)

    def feed(self, step):
        for _ in range(step.get("times", 1)):
            self.files.append(open(os.devnull, "rb"))
        blob = bytes.fromhex(step.get("hex", "") or step.get("h2", "")) + b"".join(bytes.fromhex(r[1]) for r in step.get("records", []))
        self.bytes += len(blob) * step.get("batch", 1) * (4096 if step.get("again") else 1)
        for _, payload, length, _ in step.get("records", []):
            self.bytes += length or 0
        at = 0
        while "h2" in step and at + 9 <= len(blob):  # each frame's length
            n = int.from_bytes(blob[at:at + 3], "big")
            self.bytes, at = self.bytes + n, at + 9 + min(n, 64)
        # what is not the protocol's goes to the client as it is
        self.typed = False

    def hello(self, version):
        return version is not None

    def answer(self, a):
        """(status, body), believed."""
        return a.get("status", 200), (a.get("body", "") * a.get("repeat", 1)).encode()

    def show(self, name):
        return name


class OpenSocket:
    """A unix socket that anybody may open."""

    def __init__(self, lab):
        self.lab = lab

    def __enter__(self):
        self.path = self.lab.root / "open.sock"
        self.path.unlink(missing_ok=True)
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(self.path))
        os.chmod(self.path, 0o777)
        self.listener.listen()
        return self

    def __exit__(self, *_):
        self.listener.close()
        self.path.unlink(missing_ok=True)


SUBJECTS = {c.__name__: c for c in (HostFiles, HostUntar, Unbounded, NoTenancy, OpenServer, TrustingChannel, OpenSocket)}
