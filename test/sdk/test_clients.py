# SPDX-License-Identifier: Apache-2.0
"""The native clients: what is generated is of the served document, and their examples run."""

import os
import subprocess
import sys

import pytest

import npm
from conftest import PATIENCE_S, TOP

sys.path.insert(0, str(TOP / "clients/python"))


@pytest.fixture(scope="module")
def env(caisson):
    return dict(os.environ, CAISSON_URL=f"http://127.0.0.1:{caisson.port}", CAISSON_DATA_URL=f"http://127.0.0.1:{caisson.data_port}", CAISSON_KEY=caisson.key,
                PYTHONPATH=str(TOP / "clients/python"))


@pytest.fixture(scope="module")
def typescript():
    where = npm.project("clients-typescript", TOP / "clients/typescript")
    subprocess.run(["node", "node_modules/typescript/bin/tsc", "-p", "."], cwd=where, check=True, timeout=PATIENCE_S * 3)
    return where


def examples(folder, pattern):
    return sorted(p.name for p in (TOP / "clients" / folder / "examples").glob(pattern))


def test_generated_files_are_the_documents():
    subprocess.run([sys.executable, str(TOP / "clients/generate.py"), "--check"], check=True, timeout=PATIENCE_S)


@pytest.mark.parametrize("name", examples("python", "*.py"))
def test_python_example(env, name):
    r = subprocess.run(["/usr/bin/python3", str(TOP / "clients/python/examples" / name)], env=env, capture_output=True, text=True, timeout=PATIENCE_S * 3)
    assert r.returncode == 0, r.stdout + r.stderr
    assert "ended ended" in r.stdout, r.stdout


@pytest.mark.parametrize("name", examples("typescript", "*.mjs"))
def test_typescript_example(env, typescript, name):
    r = subprocess.run(["node", f"examples/{name}"], cwd=typescript, env=env, capture_output=True, text=True, timeout=PATIENCE_S * 3)
    assert r.returncode == 0, r.stdout + r.stderr
    assert "sum 499500 exit 0" in r.stdout and "ended ended" in r.stdout, r.stdout


def test_refusals_are_typed(caisson):
    from caisson import Caisson, CaissonError
    c = Caisson(url=f"http://127.0.0.1:{caisson.port}", data_url=f"http://127.0.0.1:{caisson.data_port}", key=caisson.key)
    with pytest.raises(CaissonError) as e:
        c.create("no-such-template")
    assert e.value.status in (400, 404) and e.value.code and e.value.remedy


def test_every_call_of_the_document_is_a_method(caisson):
    import json
    from caisson import Caisson
    doc = json.loads((TOP / "doc/openapi.json").read_text())
    ids = [op["operationId"] for path, m in doc["paths"].items() for op in m.values()
           if op.get("x-caisson-supported") is not False and path.startswith("/v1/") and not path.endswith(("/attach", "/tunnel"))]
    assert len(ids) > 40
    for i in ids:
        assert hasattr(Caisson, i) or hasattr(Caisson, __import__("re").sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", i).lower()), i
