# SPDX-License-Identifier: Apache-2.0
"""The native API as a client meets it: words that can be acted on, and nothing done twice."""

import json
import socket
import threading
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parent.parent.parent


def error(a):
    return a.json["error"]


def test_whoami(caisson):
    w = caisson.http("GET", "/v1/whoami").json
    assert w["role"] == "operator" and w["version"] and w["engines"]


def test_no_key_and_wrong_key(caisson):
    for h in ({"Authorization": None}, {"Authorization": "Bearer e2b_" + "0" * 40}):
        a = caisson.http("GET", "/v1/whoami", headers=h)
        assert a.status == 401 and error(a)["code"] == "unauthenticated" and error(a)["remedy"]


def test_x_api_key_works_too(caisson):
    assert caisson.http("GET", "/v1/whoami", headers={"Authorization": None, "X-API-Key": caisson.key}).status == 200


@pytest.mark.parametrize("body,field", [
    ({"template": "tiny", "lifetime": {"ttl_s": 0}}, "lifetime.ttl_s"),
    ({"template": "tiny", "lifetime": {"ttl_s": "10"}}, "lifetime.ttl_s"),
    ({"template": "tiny", "lifetime": {"tll_s": 10}}, "lifetime.tll_s"),
    ({"template": 7}, "template"),
    ({"template": "tiny", "labels": {"a": 1}}, "labels.a"),
    ({"template": "tiny", "no_such_field": 1}, "no_such_field"),
    ({"template": "tiny", "resources": {"memory_mib": -1}}, "resources.memory_mib"),
    ({"template": "tiny", "name": "Bad Name!"}, "name"),
])
def test_bad_field_is_named(caisson, body, field):
    a = caisson.http("POST", "/v1/sandboxes", body)
    e = error(a)
    assert a.status == 400 and e["field"] == field and f'"{field}"' in e["message"], e
    assert e["code"] in ("invalid_field", "unknown_field", "missing_field")


@pytest.mark.parametrize("raw", [b"", b"{", b"[]", b'{"template":"tiny","template":"base"}', b"\xff\xfe", b"{}x", b"[" * 5000])
def test_bad_json_is_400(caisson, raw):
    a = caisson.http("POST", "/v1/sandboxes", raw, headers={"Content-Type": "application/json"})
    assert a.status == 400 and error(a)["message"]


def test_unknown_template(caisson):
    a = caisson.http("POST", "/v1/sandboxes", {"template": "nowhere"})
    assert a.status == 404 and error(a)["code"] == "not_found" and "nowhere" in error(a)["message"]


def test_hardware_cannot_be_promised_here(caisson):
    level = {e.get("isolation") for e in caisson.http("GET", "/v1/whoami").json["engines"]}
    if "hardware" in level:
        pytest.skip("this node has hardware isolation")
    a = caisson.http("POST", "/v1/sandboxes", {"template": "tiny", "isolation": "hardware"})
    assert a.status == 409 and error(a)["code"] == "isolation_unavailable"


def test_same_key_same_sandbox(caisson):
    h = {"Idempotency-Key": "create-once-1"}
    answers = []

    def call():
        answers.append(caisson.http("POST", "/v1/sandboxes?wait_s=60", {"template": "tiny"}, headers=h))

    threads = [threading.Thread(target=call) for _ in range(6)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert {a.status for a in answers} <= {200, 201, 202}, [a.body for a in answers]
    ids = {a.json["sandbox"]["id"] for a in answers}
    assert len(ids) == 1
    again = caisson.http("POST", "/v1/sandboxes?wait_s=60", {"template": "tiny"}, headers=h)
    assert again.json["sandbox"]["id"] in ids and again.headers["Idempotent-Replayed"] == "true"
    other = caisson.http("POST", "/v1/sandboxes", {"template": "base"}, headers=h)
    assert other.status == 409 and error(other)["code"] == "idempotency_mismatch"
    caisson.end(ids.pop())


def test_operation_tells_how_it_went(caisson):
    a = caisson.http("POST", "/v1/sandboxes", {"template": "tiny"})
    assert a.status == 202 and a.headers["Location"].startswith("/v1/operations/op_")
    op = caisson.http("GET", a.headers["Location"] + "?wait_s=60").json["operation"]
    assert op["state"] == "succeeded", op
    caisson.end(a.json["sandbox"]["id"])


def test_name_is_an_address_and_unique(caisson):
    sb = caisson.create("tiny", name="the-one")
    assert caisson.http("GET", "/v1/sandboxes/@the-one").json["id"] == sb["id"]
    a = caisson.http("POST", "/v1/sandboxes", {"template": "tiny", "name": "the-one"})
    assert a.status == 409 and error(a)["code"] == "name_taken"
    caisson.end(sb["id"])
    again = caisson.create("tiny", name="the-one")
    caisson.end(again["id"])


def test_lists_page_without_repeats(caisson):
    ids = [caisson.create("tiny", labels={"set": "page"})["id"] for _ in range(5)]
    seen, after = [], None
    while True:
        page = caisson.http("GET", "/v1/sandboxes?limit=2&label=set=page&state=running" + (f"&after={after}" if after else "")).json
        seen += [s["id"] for s in page["items"]]
        after = page["next"]
        if not after:
            break
    assert sorted(seen) == sorted(ids) and seen == list(reversed(ids))
    for sb in ids:
        caisson.end(sb)


def test_bad_cursor(caisson):
    a = caisson.http("GET", "/v1/sandboxes?after=%00garbage")
    assert a.status == 400 and error(a)["code"] == "bad_cursor"


@pytest.mark.parametrize("path", ["/v1/sandboxes/sb" + "a" * 20, "/v1/operations/op_" + "a" * 20, "/v1/execs/ex_" + "a" * 28,
                                  "/v1/sandboxes/../../etc", "/v1/nothing-here"])
def test_what_is_not_there_is_404(caisson, path):
    a = caisson.http("GET", path)
    assert a.status == 404 and error(a)["code"] == "not_found"


def test_keys_and_roles(caisson):
    made = caisson.http("POST", "/v1/keys", {"role": "viewer"})
    assert made.status == 201, made.body
    secret = made.json["secret"]
    assert caisson.http("GET", "/v1/sandboxes", key=secret).status == 200
    a = caisson.http("POST", "/v1/sandboxes", {"template": "tiny"}, key=secret)
    assert a.status == 403 and error(a)["code"] == "role_required"
    listed = caisson.http("GET", "/v1/keys")
    assert secret not in listed.body.decode()
    assert caisson.http("DELETE", f"/v1/keys/{made.json['id']}").status in (200, 204)
    import time
    end = time.monotonic() + 60
    while caisson.http("GET", "/v1/sandboxes", key=secret).status != 401:
        assert time.monotonic() < end, "a revoked key still works"
        time.sleep(0.5)


def documented():
    doc = json.loads((TOP / "doc/openapi.json").read_text())
    return [(m.upper(), p, op) for p, verbs in doc["paths"].items() for m, op in verbs.items() if m in ("get", "post", "put", "patch", "delete", "head")]


def test_served_document_is_the_one_in_the_tree(caisson):
    assert caisson.http("GET", "/v1/openapi.json").json == json.loads((TOP / "doc/openapi.json").read_text())


def fill(path):
    import re
    return re.sub(r"\{[^}]*\}", "x" + "a" * 20, path)


def test_every_documented_route_answers(caisson):
    """No documented route is unknown to the server, and what is not supported says so."""
    for method, path, op in documented():
        if method == "HEAD":
            continue
        data = any("7710" in s["url"] for s in op.get("servers", []))
        full = path if path.startswith(("/v1", "/healthz", "/readyz", "/metrics")) else "/v1" + path
        a = caisson.http(method, fill(full), {} if method in ("POST", "PUT", "PATCH") else None, data=data)
        unknown = a.status == 404 and "no such path" in a.body.decode().lower()
        assert not unknown and a.status != 405 and a.status < 500, (method, path, a.status, a.body[:200])
        if op.get("x-caisson-supported") is False:
            assert a.status == 422 and error(a)["code"] == "not_supported", (method, path, a.body)


def test_no_other_route_answers(caisson):
    known = {p for _, p, _ in documented()}
    for path in ("/v1/admin", "/v1/sandboxes/x/unknown", "/v2/sandboxes", "/debug", "/v1", "/"):
        assert path not in known
        assert caisson.http("GET", path).status == 404, path


def test_wrong_verb_says_which(caisson):
    a = caisson.http("PUT", "/v1/whoami", {})
    assert a.status == 405 and "GET" in a.headers["Allow"]


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "169.254.169.254"])
def test_foreign_host_header_is_refused(caisson, host):
    assert caisson.http("GET", "/v1/whoami", headers={"Host": host}).status in (400, 403, 421)


def test_foreign_origin_is_refused(caisson):
    assert caisson.http("GET", "/v1/whoami", headers={"Origin": "https://evil.example"}).status == 403


@pytest.mark.parametrize("raw", [
    b"GET /v1/whoami HTTP/1.1\r\n\r\n",
    b"GET /v1/whoami HTTP/1.1\r\nHost: 127.0.0.1\r\nHost: 127.0.0.1\r\n\r\n",
    b"POST /v1/sandboxes HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    b"GET /v1/whoami HTTP/1.1\r\nHost: 127.0.0.1\r\n folded: x\r\n\r\n",
    b"GET /v1/whoami HTTP/1.1\nHost: 127.0.0.1\n\n",
    b"GET  /v1/whoami HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
])
def test_ambiguous_http_is_400(caisson, raw):
    with socket.create_connection(("127.0.0.1", caisson.port), 60) as s:
        s.sendall(raw)
        assert s.recv(4096).startswith(b"HTTP/1.1 400")


def test_metrics_for_operators(caisson):
    a = caisson.http("GET", "/metrics")
    assert a.status == 200 and b"caisson_" in a.body and b"# TYPE" in a.body
    assert caisson.http("GET", "/metrics", headers={"Authorization": None}).status == 401


def test_health_is_open(caisson):
    for p in ("/healthz", "/readyz"):
        assert caisson.http("GET", p, headers={"Authorization": None}).status == 200
