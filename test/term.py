# SPDX-License-Identifier: Apache-2.0
"""A terminal for the tests: a program under a pty, its screen kept by pyte, which is a Linux console
(others repeat and erase in ways that it does not know)."""

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import termios
import threading
import time

import pyte

from conftest import PATIENCE_S, TOP, wait_for


class Screen(pyte.Screen):
    def select_graphic_rendition(self, *attrs, **_):
        """The emulator knows no private renditions (vim asks for one); they change nothing here."""
        if not _:
            super().select_graphic_rendition(*attrs)


class Terminal:
    def __init__(self, argv, env, cols=100, rows=30, term="linux"):
        self.screen = Screen(cols, rows)
        self.stream = pyte.ByteStream(self.screen)
        self.raw, self.lock = bytearray(), threading.Lock()
        self.master, slave = pty.openpty()
        self._size(cols, rows)
        self.before = termios.tcgetattr(slave)
        self.slave = slave
        self.process = subprocess.Popen(argv, stdin=slave, stdout=slave, stderr=slave, env=dict(env, TERM=term), start_new_session=True,
                                        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        self.over = False
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _size(self, cols, rows):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))

    def _read(self):
        while not self.over:
            try:
                if not select.select([self.master], [], [], 0.1)[0]:
                    continue
                data = os.read(self.master, 65536)
            except OSError:
                return
            with self.lock:
                self.raw += data
                self.stream.feed(data)

    def type(self, text):
        os.write(self.master, text.encode() if isinstance(text, str) else text)

    def resize(self, cols, rows):
        with self.lock:
            self.screen.resize(rows, cols)
        self._size(cols, rows)
        os.killpg(self.process.pid, signal.SIGWINCH)

    def lines(self):
        with self.lock:
            return [line.rstrip() for line in self.screen.display]

    def text(self):
        return "\n".join(self.lines())

    def colours(self):
        with self.lock:
            return {c.fg for row in self.screen.buffer.values() for c in row.values()} - {"default"}

    def see(self, what, limit_s=PATIENCE_S):
        """Wait until the screen shows `what` (a text or a predicate)."""
        probe = what if callable(what) else lambda: what in self.text()
        try:
            return wait_for(repr(what), probe, limit_s)
        except AssertionError as e:
            raise AssertionError(f"{e}; the screen:\n{self.text()}") from None

    def press(self, keys, what, limit_s=PATIENCE_S):
        """Type `keys` until the screen shows `what`: programs throw away what is typed while they
        set up the terminal or draw it anew. Only for keys that may be pressed twice."""
        end = time.monotonic() + limit_s
        while True:
            self.type(keys)
            try:
                return self.see(what, 5)
            except AssertionError:
                if time.monotonic() > end:
                    raise

    def capture(self, name):
        """Keep the screen under build/captures."""
        folder = TOP / "build/captures"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{name}.txt").write_text(self.text() + "\n")

    def restored(self):
        """Is the terminal as it was?"""
        return termios.tcgetattr(self.slave) == self.before

    def wait(self):
        """The exit code."""
        self.see(lambda: self.process.poll() is not None)
        return self.process.returncode

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        # before its descriptor's number becomes another terminal's
        self.over = True
        self.reader.join()
        os.close(self.master)
        os.close(self.slave)
