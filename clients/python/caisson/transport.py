# SPDX-License-Identifier: Apache-2.0
"""HTTP below the generated calls: the standard library, one connection per call.

Changing calls carry an Idempotency-Key, so one whose answer was lost is repeated without
doing anything twice."""

import http.client
import json
import os
import secrets
import time
from pathlib import Path
from urllib.parse import quote as _quote
from urllib.parse import urlsplit

RETRIES = 3


def quote(text):
    """Percent-encode a path segment or a query value; bytes stay what they are."""
    return _quote(text if isinstance(text, bytes) else str(text), safe="")


class CaissonError(Exception):
    """A typed refusal: `status` and the members of `error` as attributes."""

    def __init__(self, status, error):
        self.status, self.error = status, error
        self.code, self.message = error.get("code", ""), error.get("message", "")
        self.cause, self.remedy, self.field = error.get("cause"), error.get("remedy"), error.get("field")
        super().__init__(f"{self.code}: {self.message}" + (f" ({self.remedy})" if self.remedy else ""))


class Stream:
    """The body of an answer, read as it comes. Close it, or use it in `with`."""

    def __init__(self, response, connection):
        self.status, self.headers = response.status, response.headers
        self._response, self._connection = response, connection

    def read(self, n=-1):
        return self._response.read() if n < 0 else self._response.read(n)

    def __iter__(self):
        """Lines, as NDJSON and server-sent events have them."""
        return iter(self._response)

    def close(self):
        self._connection.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Transport:
    """`url` is the control listener, `data_url` the data listener. Without arguments: CAISSON_URL,
    CAISSON_DATA_URL and CAISSON_KEY, or the current context of the command line."""

    def __init__(self, url=None, data_url=None, key=None, timeout=120.0):
        context = {} if url or os.environ.get("CAISSON_URL") else _context()
        self.url = url or os.environ.get("CAISSON_URL") or context.get("url", "http://127.0.0.1:7700")
        self.data_url = data_url or os.environ.get("CAISSON_DATA_URL") or context.get("data_url", "http://127.0.0.1:7710")
        self.key = key or os.environ.get("CAISSON_KEY") or context.get("key", "")
        self.timeout = timeout

    def _connect(self, data):
        u = urlsplit(self.data_url if data else self.url)
        kind = http.client.HTTPSConnection if u.scheme == "https" else http.client.HTTPConnection
        return kind(u.hostname, u.port, timeout=self.timeout)

    def _send(self, method, path, query, body, data, headers, content_type="application/json"):
        h = {"Authorization": f"Bearer {self.key}", **(headers or {})}
        if method not in ("GET", "HEAD"):
            h.setdefault("Idempotency-Key", secrets.token_hex(16))
        raw = body
        if body is not None:
            h.setdefault("Content-Type", content_type)
            raw = json.dumps(body).encode() if content_type == "application/json" else body
        pairs = [(k, v) for k, vs in query.items() if vs is not None for v in (vs if isinstance(vs, (list, tuple)) else [vs])]
        target = path + ("?" + "&".join(f"{k}={quote(int(v) if isinstance(v, bool) else v)}" for k, v in pairs) if pairs else "")
        for attempt in range(RETRIES):
            connection = self._connect(data)
            try:
                connection.request(method, target, raw, h)
                return connection.getresponse(), connection
            except (OSError, http.client.HTTPException):
                connection.close()
                # a body that was an iterator is spent
                if attempt == RETRIES - 1 or not (raw is None or isinstance(raw, (bytes, str))):
                    raise
                time.sleep(0.1 * 4**attempt)
        raise AssertionError

    @staticmethod
    def _refuse(response):
        if response.status < 400:
            return
        raw = response.read(1 << 20)
        try:
            error = json.loads(raw)["error"]
        except (ValueError, KeyError, TypeError):
            error = {"code": "unknown", "message": f"HTTP {response.status}"}
        raise CaissonError(response.status, error)

    def _json(self, *a, **kw):
        response, connection = self._send(*a, **kw)
        try:
            self._refuse(response)
            raw = response.read()
            return json.loads(raw) if raw else None
        finally:
            connection.close()

    def _none(self, *a, **kw):
        self._json(*a, **kw)

    def _stream(self, *a, **kw):
        response, connection = self._send(*a, **kw)
        try:
            self._refuse(response)
        except CaissonError:
            connection.close()
            raise
        return Stream(response, connection)


def _context():
    path = Path(os.environ.get("CAISSON_CONFIG") or Path.home() / ".config/caisson/context.json")
    try:
        c = json.loads(path.read_text())
        return c["contexts"][c["current"]]
    except (OSError, ValueError, KeyError):
        return {}
