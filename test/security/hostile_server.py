# SPDX-License-Identifier: Apache-2.0
"""A server that speaks as much of the API as `caisson cp` needs and sends a hostile archive."""

import json
import os
import subprocess
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

SANDBOX = "sb" + "a" * 20


class ArchiveServer:
    def __init__(self, blob):
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                if "/archive" in self.path:
                    return self.send(blob, "application/x-tar")
                if "/files/stat" in self.path:
                    return self.send(json.dumps({"name": "tree", "path": "/root/tree", "type": "dir", "size": 0, "mode": "0755", "uid": 0, "gid": 0, "mtime": "2026-01-01T00:00:00.000Z"}).encode())
                if self.path.startswith("/v1/sandboxes/"):
                    return self.send(json.dumps({"id": SANDBOX, "name": None, "state": "running"}).encode())
                return self.send(json.dumps({"items": [{"id": SANDBOX, "name": None, "state": "running"}], "next": None}).encode())

            def do_HEAD(self):
                self.send(b"")

            def send(self, body, kind="application/json"):
                outer.seen.append(self.path)
                self.send_response(200)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(body)

            def log_message(self, *_):
                pass
        self.seen = []
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)

    def __enter__(self):
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()

    def cp(self, caisson, dest):
        """`caisson cp -r SB:/root/tree DEST` against this server; None if it hung."""
        from conftest import CAISSON
        url = f"http://127.0.0.1:{self.server.server_address[1]}"
        with tempfile.NamedTemporaryFile("w", suffix=".json") as f:
            json.dump({"current": "evil", "contexts": {"evil": {"url": url, "data_url": url, "key": "e2b_" + "0" * 40}}}, f)
            f.flush()
            os.chmod(f.name, 0o600)
            try:
                return subprocess.run([CAISSON, "cp", "-r", f"{SANDBOX}:/root/tree", str(dest)], env=dict(caisson.env, CAISSON_CONFIG=f.name),
                                      capture_output=True, text=True, errors="replace", timeout=120)
            except subprocess.TimeoutExpired:
                return None
