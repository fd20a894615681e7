# SPDX-License-Identifier: Apache-2.0
"""npm for the tests: the machine's, or its registry's tarball under build/. Debian's own package
brings 400 others along, so it is not asked for."""

import os
import shutil
import subprocess
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent


def _fetched():
    where = TOP / "build/npm"
    cli = where / "npm/bin/npm-cli.js"
    if cli.exists():
        return cli
    where.mkdir(parents=True, exist_ok=True)
    lines = [p.read_text() for p in (Path("/etc/npmrc"), Path.home() / ".npmrc") if p.exists()]
    (where / "npmrc").write_text("\n".join(lines))
    certs = Path("/etc/ssl/certs/ca-certificates.crt")
    (where / "ca.crt").write_bytes(certs.read_bytes() if certs.exists() else b"")
    registry = next((w.split("=", 1)[1].strip() for t in lines for w in t.splitlines() if w.strip().startswith("registry")), "https://registry.npmjs.org/")
    subprocess.run(["node", str(TOP / "templates/npm-fetch.js")], check=True, env=dict(os.environ, DIR=str(where), REGISTRY=registry, MAJOR="10"))
    shutil.rmtree(where / "npm", ignore_errors=True)
    (where / "npm.new").mkdir(exist_ok=True)
    subprocess.run(["tar", "-xzf", str(where / "npm.tgz"), "--strip-components=1", "-C", str(where / "npm.new")], check=True)
    (where / "npm.new").rename(where / "npm")
    return cli


def npm(*args, cwd):
    """Run npm; raises with its words if it fails."""
    argv = ["npm"] if shutil.which("npm") else ["node", str(_fetched())]
    r = subprocess.run([*argv, *args], cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=600)
    if r.returncode:
        raise RuntimeError(f"npm {' '.join(args)}: exit {r.returncode}\n{r.stdout[-3000:]}")
    return r.stdout


def project(name, source):
    """A copy of `source` under build/ with its packages as locked."""
    where = TOP / "build" / name
    shutil.rmtree(where, ignore_errors=True)
    shutil.copytree(source, where, ignore=shutil.ignore_patterns("node_modules", "dist"))
    npm("ci", "--no-fund", "--no-audit", cwd=where)
    return where
