# SPDX-License-Identifier: Apache-2.0
"""`caisson mcp` with the official client of the Model Context Protocol."""

import json
import subprocess

import npm
from conftest import CAISSON, PATIENCE_S, TOP


def test_official_client(caisson):
    where = npm.project("sdk-mcp", TOP / "test/sdk/mcp")
    r = subprocess.run(["node", "client.mjs", CAISSON, "mcp"], cwd=where, env=caisson.env, capture_output=True, text=True, timeout=PATIENCE_S * 4)
    assert r.returncode == 0 and "mcp ok" in r.stdout, r.stdout + r.stderr


def test_lines_that_are_no_messages_are_answered(caisson):
    lines = ["{", "[]", '{"jsonrpc":"2.0","id":1,"method":"nonsense"}', '{"jsonrpc":"2.0","id":2,"method":"ping"}',
             '{"jsonrpc":"2.0","id":3,"method":"initialize","params":{"protocolVersion":"2024-11-05"}}']
    r = caisson.cli("mcp", stdin="\n".join(lines) + "\n")
    out = [json.loads(x) for x in r.stdout.splitlines()]
    assert [o.get("error", {}).get("code") for o in out] == [-32700, -32600, -32601, None, None]
    assert out[4]["result"]["protocolVersion"] == "2024-11-05"
