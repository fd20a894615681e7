#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""WebSockets against an implementation that is not ours (python3-websockets),
both roles. Usage: test-ws_peer.py NET-RIG. Exit status 77 = it is missing."""

import asyncio
import subprocess
import sys

try:
    import websockets
except ImportError:
    print("python3-websockets is not installed")
    sys.exit(77)

RIG = sys.argv[1]
failed = []


def check(what, ok, got=""):
    print(("ok " if ok else "not ok ") + what + (f": {got}" if not ok else ""))
    if not ok:
        failed.append(what)


async def closes_with(uri, code, send):
    async with websockets.connect(uri, max_size=None) as ws:
        await send(ws)
        try:
            while True:
                await asyncio.wait_for(ws.recv(), 60)
        except websockets.ConnectionClosed:
            pass
        check(f"closed with {code}", ws.close_code == code, ws.close_code)


async def our_server(port):
    uri = f"ws://127.0.0.1:{port}/ws"
    async with websockets.connect(uri, max_size=None, subprotocols=["x", "echo"]) as ws:
        check("subprotocol", ws.subprotocol == "echo", ws.subprotocol)
        for n in (0, 1, 125, 126, 65535, 65536, 1000000):
            for message in ("é" * (n // 2), bytes(range(256)) * (n // 256)):
                await ws.send(message)
                got = await asyncio.wait_for(ws.recv(), 60)
                check(f"echo of {n} {type(message).__name__}", got == message)
        await ws.send(["frag", "ments", "", "!"])
        check("fragments", await ws.recv() == "fragments!")
        await asyncio.wait_for(await ws.ping(b"are you there"), 60)
        check("ping", True)
        await asyncio.gather(*(ws.send(f"m{i}") for i in range(500)))
        got = [await asyncio.wait_for(ws.recv(), 60) for _ in range(500)]
        check("order", got == [f"m{i}" for i in range(500)])
        await ws.close(4000, "that is it")
        check("close", ws.close_code == 4000, ws.close_code)
    # its extension is declined, not misunderstood
    async with websockets.connect(uri, compression="deflate") as ws:
        check("no extension", not ws.extensions, ws.extensions)
        await ws.send("plain")
        check("plain", await ws.recv() == "plain")
    await closes_with(uri, 1009, lambda ws: ws.send(b"x" * 1048577))
    try:
        async with websockets.connect(f"ws://127.0.0.1:{port}/"):
            check("refusal", False)
    except websockets.InvalidStatusCode as e:
        check("refusal", e.status_code == 200, e.status_code)


async def their_server():
    seen = {}

    async def echo(ws, path=None):
        seen["subprotocol"] = ws.subprotocol
        async for message in ws:
            await ws.send(message)
        seen["code"] = ws.close_code

    async with websockets.serve(echo, "127.0.0.1", 0, max_size=None,
                                subprotocols=["echo"], ping_interval=0.05) as server:
        port = server.sockets[0].getsockname()[1]
        p = await asyncio.create_subprocess_exec(
            RIG, "connect", str(port), stdout=subprocess.PIPE)
        out, _ = await asyncio.wait_for(p.communicate(), 120)
        check("our client", p.returncode == 0, out)
        check("closed 1000", b"closed 1000 all is said after 9" in out, out)
        check("offered", seen.get("subprotocol") == "echo", seen)
        check("their close code", seen.get("code") == 1000, seen)


def main():
    rig = subprocess.Popen([RIG, "serve"], stdout=subprocess.PIPE, text=True)
    try:
        asyncio.run(our_server(int(rig.stdout.readline())))
        asyncio.run(their_server())
        check("still there", rig.poll() is None)
    finally:
        rig.terminate()
        check("exit status", rig.wait(60) == 0, rig.returncode)
    return 1 if failed else 0


sys.exit(main())
