# SPDX-License-Identifier: Apache-2.0
"""The command line inside a sandbox: exec and its codes, terminals, coming back, ports."""

import hashlib
import os
import pty
import select
import signal
import socket
import ssl
import struct
import subprocess
import sys
import termios
import threading
import time
from fcntl import ioctl
from pathlib import Path

import pytest

from conftest import CAISSON, PATIENCE_S, wait_for

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from cutter import Cutter  # noqa: E402


class Term:
    """`caisson WORDS` at a terminal of its own."""

    def __init__(self, caisson, *words, rows=30, cols=100):
        self.seen = b""
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.execve(CAISSON, [CAISSON, *words], caisson.env)
        self.size(rows, cols)

    def size(self, rows, cols):
        ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))

    def type(self, text):
        os.write(self.fd, text.encode())

    def until(self, words):
        end = time.monotonic() + PATIENCE_S
        while words.encode() not in self.seen:
            assert time.monotonic() < end, (words, self.seen)
            if select.select([self.fd], [], [], 1)[0]:
                try:
                    self.seen += os.read(self.fd, 65536)
                except OSError:
                    raise AssertionError((words, self.seen)) from None

    def end(self):
        try:
            while os.read(self.fd, 65536):
                pass
        except OSError:
            pass
        _, st = os.waitpid(self.pid, 0)
        os.close(self.fd)
        return os.waitstatus_to_exitcode(st)


@pytest.mark.parametrize(("cmd", "code", "words"), [
    (["sh", "-c", "echo out; echo err >&2; exit 3"], 3, "err"),
    (["/no/such/program"], 127, ""),
    (["/etc/passwd"], 126, ""),
    (["sh", "-c", "kill -9 $$"], 137, "KILL"),
])
def test_exit_codes(caisson, sandbox, cmd, code, words):
    r = caisson.cli("exec", sandbox, "--", *cmd, check=False)
    assert (r.returncode, words in r.stderr) == (code, True), r


def test_a_timeout_is_124(caisson, sandbox):
    r = caisson.cli("exec", "--timeout", "1", sandbox, "--", "sleep", "60", check=False)
    assert r.returncode == 124, r


def test_without_i_there_is_no_input_and_with_it_all_of_it(caisson, sandbox):
    data = bytes(range(256)) * 12000
    r = caisson.cli("exec", sandbox, "--", "wc", "-c", stdin=data, text=False)
    assert r.stdout.split() == [b"0"]
    r = caisson.cli("exec", "-i", sandbox, "--", "sha256sum", stdin=data, text=False)
    assert r.stdout.split()[0].decode() == hashlib.sha256(data).hexdigest()


def test_a_line_that_breaks_is_not_noticed_by_the_bytes(caisson, sandbox):
    cutter = Cutter(("127.0.0.1", caisson.data_port), cuts=12, mean_bytes=120_000)
    data = os.urandom(1_000_000)
    env = dict(caisson.env, CAISSON_DATA_URL="http://127.0.0.1:%d" % cutter.address[1])
    r = subprocess.run([CAISSON, "exec", "-i", sandbox, "--", "cat"], env=env, input=data, capture_output=True, timeout=PATIENCE_S * 4)
    cutter.close()
    assert r.returncode == 0 and r.stdout == data, (r.returncode, len(r.stdout), r.stderr[-500:])
    assert b"connection lost at byte" in r.stderr and cutter.done > 0


class Tls:
    """TLS in front of a plain port, with a certificate of its own."""

    def __init__(self, port, folder):
        self.port, self.cert = port, folder / "cert.pem"
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
                        "-keyout", folder / "key.pem", "-out", self.cert, "-subj", "/CN=localhost", "-addext",
                        "subjectAltName=IP:127.0.0.1"], check=True, capture_output=True)
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(self.cert, folder / "key.pem")
        self.context.set_alpn_protocols(["http/1.1"])
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = "https://127.0.0.1:%d" % self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            c, _ = self.listener.accept()
            threading.Thread(target=self.serve, args=(c,), daemon=True).start()

    def serve(self, plain):
        try:
            near = self.context.wrap_socket(plain, server_side=True)
        except OSError:
            return
        far = socket.create_connection(("127.0.0.1", self.port))
        near.setblocking(False)
        far.setblocking(False)
        queues, ended = {near: b"", far: b""}, False
        while not ended:
            select.select([near, far] if not any(queues.values()) else [], [s for s in queues if queues[s]], [], 0.02)
            for a, b in ((near, far), (far, near)):
                try:
                    if not queues[b]:
                        queues[b] = a.recv(65536)
                        ended = ended or not queues[b]
                    queues[b] = queues[b][b.send(queues[b]):]
                except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
                    pass
                except OSError:
                    ended = True
        near.close(), far.close()


def test_over_https(caisson, sandbox, tmp_path):
    tls = Tls(caisson.data_port, tmp_path)
    env = dict(caisson.env, CAISSON_DATA_URL=tls.address, CAISSON_CA_FILE=str(tls.cert))
    data = os.urandom(1_500_000)
    r = subprocess.run([CAISSON, "exec", "-i", sandbox, "--", "cat"], env=env, input=data, capture_output=True, timeout=PATIENCE_S * 4)
    assert r.returncode == 0 and r.stdout == data, (r.returncode, len(r.stdout), r.stderr[-500:])
    del env["CAISSON_CA_FILE"]
    r = subprocess.run([CAISSON, "exec", "--give-up", "1", sandbox, "--", "true"], env=env, capture_output=True, timeout=PATIENCE_S)
    assert r.returncode == 125 and b"certificate" in r.stderr, r


def test_a_terminal_has_its_size_its_keys_and_its_end(caisson, sandbox):
    t = Term(caisson, "exec", "-it", sandbox, "--", "sh")
    t.type("stty size; echo is-$((40+2))\n")
    t.until("is-42")
    t.size(50, 132)
    t.type("sleep 1; stty size\n")
    t.until("50 132")
    t.type("sleep 1000\n")
    time.sleep(1)
    t.type("\x03")
    t.type("echo after-$((1+1)); exit 5\n")
    t.until("after-2")
    assert t.end() == 5


def test_detach_and_come_back(caisson, sandbox):
    t = Term(caisson, "exec", "-it", sandbox, "--", "sh")
    t.type("x=kept; echo rea''dy\n")
    t.until("ready")
    t.type("\x10\x11")
    t.until("detached")
    assert t.end() == 0
    t = Term(caisson, "attach", sandbox)
    t.type("echo it-is-$x; exit 4\n")
    t.until("it-is-kept")
    assert t.end() == 4


def test_detached_work_is_listed_waited_for_and_read(caisson, sandbox):
    ex = caisson.cli("exec", "-d", sandbox, "--", "sh", "-c", "sleep 2; echo said; exit 6").stdout.strip()
    assert caisson.json("ps", sandbox)[sandbox][0]["id"] == ex
    r = caisson.cli("ps", sandbox, "--wait", check=False)
    assert r.returncode == 6 and "exit 6" in r.stdout, r
    assert caisson.cli("logs", sandbox, ex[-8:]).stdout == "said\n"
    assert caisson.cli("attach", sandbox, ex, "--from", "2", check=False).stdout == "id\n"


def test_ctrl_c_is_the_commands(caisson, sandbox):
    p = subprocess.Popen([CAISSON, "exec", sandbox, "--", "sh", "-c", "trap 'echo got it; exit 9' INT; echo up; while :; do sleep 1; done"],
                         env=caisson.env, stdout=subprocess.PIPE, text=True)
    assert p.stdout.readline() == "up\n"
    p.send_signal(signal.SIGINT)
    assert p.stdout.read() == "got it\n" and p.wait(PATIENCE_S) == 9


def test_console(caisson, sandbox):
    caisson.cli("exec", sandbox, "--", "sh", "-c", "echo to the console > /dev/console")
    wait_for("the console's line", lambda: "to the console" in caisson.cli("logs", sandbox).stdout)


def test_shell_reads_a_pipe(caisson, sandbox):
    assert caisson.cli("shell", sandbox, stdin="echo $((6*7))\n").stdout == "42\n"


def test_a_port_here_is_one_there(caisson, sandbox):
    caisson.cli("exec", "-d", sandbox, "--", "sh", "-c", "cd /etc && httpd -f -p 127.0.0.1:8080")
    p = subprocess.Popen([CAISSON, "forward", sandbox, "0:8080", "0:9"], env=caisson.env, stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE, text=True)
    ports = [int(p.stdout.readline().split(" ->")[0].rsplit(":", 1)[1]) for _ in range(2)]

    def get(port):
        try:
            with socket.create_connection(("127.0.0.1", port), PATIENCE_S) as s:
                s.sendall(b"GET /passwd HTTP/1.0\r\n\r\n")
                return b"".join(iter(lambda: s.recv(65536), b""))
        except ConnectionError:
            return b""  # nobody listens there, or not yet
    assert b"root:" in wait_for("an answer", lambda: get(ports[0]) or None)
    assert get(ports[1]) == b""
    p.send_signal(signal.SIGINT)
    _, err = p.communicate(timeout=PATIENCE_S)
    assert p.returncode == 0 and "port 9" in err, err
    r = caisson.cli("forward", "--stdio", sandbox, "8080", stdin="GET /passwd HTTP/1.0\r\n\r\n")
    assert "root:" in r.stdout
