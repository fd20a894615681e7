# SPDX-License-Identifier: Apache-2.0
"""A sandbox, a file, a command with input, and the end."""

from caisson import Caisson

c = Caisson()
print("server", c.whoami()["version"])
sb = c.create("base", labels={"example": "first"})
try:
    c.write_file(sb["id"], b"print(sum(map(int, open(0))))\n", path="/tmp/sum.py")
    result = c.run(sb["id"], ["python3", "/tmp/sum.py"], stdin=b"".join(b"%d\n" % i for i in range(1000)))
    print("sum", result.stdout.decode().strip(), "exit", result.code)
    with c.read_file(sb["id"], path="/tmp/sum.py") as f:
        print("file", len(f.read()), "bytes")
finally:
    print("ended", c.end(sb["id"])["sandbox"]["state"])
