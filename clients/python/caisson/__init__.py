# SPDX-License-Identifier: Apache-2.0
"""Caisson's native API: a method per call, and exec attach.

    from caisson import Caisson
    c = Caisson()                         # the command line's context, or url=, data_url=, key=
    sb = c.create("base")
    result = c.run(sb["id"], ["python3", "-c", "print(6 * 7)"])
    print(result.stdout)                  # b'42\\n'
    c.end(sb["id"])
"""

import threading
from dataclasses import dataclass, field

from .attach import Attach, Lost, Refused
from .generated import Calls
from .transport import CaissonError, Stream, Transport

__all__ = ["Attach", "Caisson", "CaissonError", "Lost", "Refused", "Result", "Stream", "Transport"]


@dataclass
class Result:
    """What a command wrote and how it ended; `exit` is the whole exit fact."""
    stdout: bytes = b""
    stderr: bytes = b""
    exit: dict = field(default_factory=dict)

    @property
    def code(self):
        return self.exit.get("code")


class Caisson(Calls):
    """All generated calls, and a few that are used together."""

    def create(self, template, **body):
        """A running sandbox's record. Raises if it is not running within 60 s."""
        answer = self._json("POST", "/v1/sandboxes", {"wait_s": 60}, {"template": template, **body}, data=False, headers=None)
        if answer["sandbox"]["state"] != "running":
            raise CaissonError(202, answer["operation"].get("error") or {"code": "capacity", "message": "the sandbox does not run yet: " + answer["operation"]["id"]})
        return answer["sandbox"]

    def end(self, sandbox):
        """End it, from any state; twice is the same."""
        return self._json("DELETE", f"/v1/sandboxes/{sandbox}", {"wait_s": 60}, None, data=False, headers=None)

    def exec(self, sandbox, cmd, **spec):
        """Make an exec session and return its stream; iterating it starts the command."""
        words = {"shell": cmd} if isinstance(cmd, str) else {"cmd": list(cmd)}
        record = self._json("POST", f"/v1/sandboxes/{sandbox}/execs", {}, {**words, **spec}, data=False, headers=None)
        return self.attach(record)

    def attach(self, record, **how):
        """The stream of an exec's record that holds `attach` (a new one, or that of `/token`)."""
        return Attach(f"{self.data_url}/v1/execs/{record['id']}/attach", record["attach"]["token"], **how)

    def run(self, sandbox, cmd, stdin=None, **spec):
        """Run a command to its end, with `stdin` as bytes; a Result."""
        stream = self.exec(sandbox, cmd, stdin=stdin is not None, **spec)
        if stdin is not None:
            threading.Thread(target=_feed, args=(stream, stdin), daemon=True).start()
        parts = {"stdout": [], "stderr": [], "pty": []}
        for kind, data in stream:
            if kind in parts:
                parts[kind].append(data)
        return Result(b"".join(parts["stdout"] + parts["pty"]), b"".join(parts["stderr"]), stream.exit)


def _feed(stream, data):
    try:
        stream.write(data)
        stream.close_stdin()
    except BrokenPipeError:
        pass  # it ended without reading
