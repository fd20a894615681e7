#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Generate the thin clients from doc/openapi.json.

usage: generate.py [--check]

Writes python/caisson/generated.py and typescript/src/generated.ts: one method per supported
call and the types of what it takes and answers. With --check nothing is written; the exit
status says whether the files are those of the document.
"""

import json
import keyword
import re
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
DOCUMENT = json.loads((HERE.parent / "doc/openapi.json").read_text())
SCHEMAS = DOCUMENT["components"]["schemas"]
JSON = "application/json"


class Call:
    """One operation of the document, as both languages need it."""

    def __init__(self, path, method, op):
        self.path, self.method, self.op = path, method.upper(), op
        self.is_data = bool(op.get("servers"))
        self.words = re.sub(r"[^a-zA-Z0-9]+", "_", op.get("operationId") or self._name()).strip("_")
        params = op.get("parameters", [])
        self.path_params = [p["name"] for p in params if p["in"] == "path"]
        self.query = [p for p in params if p["in"] == "query"]
        content = op.get("requestBody", {}).get("content", {})
        self.body_type = next(iter(content), None)
        self.body = content.get(self.body_type, {}).get("schema") if self.body_type else None
        self.answer_type, self.answer = self._answer()

    def _name(self):
        parts = [p for p in self.path.removeprefix("/v1").split("/") if p and not p.startswith("{")]
        return "_".join([self.method.lower(), *parts])

    def _answer(self):
        for status in sorted(s for s in self.op["responses"] if s.startswith("2")):
            content = self.op["responses"][status].get("content")
            if content:
                kind = next(iter(content))
                return kind, content[kind].get("schema")
        return None, None

    @property
    def is_json(self):
        return self.answer_type == JSON

    @property
    def is_binary_body(self):
        return self.body_type not in (None, JSON)


def calls():
    out = []
    for path, methods in DOCUMENT["paths"].items():
        for method, op in methods.items():
            if op.get("x-caisson-supported") is False or not path.startswith("/v1/") or path.endswith(("/attach", "/tunnel")):
                continue
            out.append(Call(path, method, op))
    names = [c.words for c in out]
    assert len(names) == len(set(names)), sorted({n for n in names if names.count(n) > 1})
    return out


def snake(s):
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", s).lower()


def camel(s):
    head, *rest = snake(s).split("_")
    return head + "".join(w.capitalize() for w in rest)


# ---- Python ----


def py_type(s):
    if not s:
        return "Any"
    if "$ref" in s:
        return f'"{s["$ref"].rsplit("/", 1)[1]}"'
    if "enum" in s:
        return "Literal[" + ", ".join(json.dumps(v) if v is not None else "None" for v in s["enum"]) + "]"
    for key in ("anyOf", "oneOf"):
        if key in s:
            return "Union[" + ", ".join(py_type(x) for x in s[key]) + "]"
    kinds = s.get("type", "any")
    kinds = kinds if isinstance(kinds, list) else [kinds]
    if len(kinds) > 1:
        return "Union[" + ", ".join(py_type({**s, "type": k}) for k in kinds) + "]"
    return {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None",
            "array": f"List[{py_type(s.get('items'))}]", "object": py_object(s)}.get(kinds[0], "Any")


def py_object(s):
    more = s.get("additionalProperties")
    if not s.get("properties") and isinstance(more, dict):
        return f"Dict[str, {py_type(more)}]"
    return "Dict[str, Any]"


def py_name(s):
    s = snake(s).replace("-", "_")
    return s + "_" if keyword.iskeyword(s) else s


def py_schema(name, s):
    if s.get("type") != "object" or not s.get("properties"):
        return f"{name} = {py_type({k: v for k, v in s.items() if k != '$ref'})}\n"
    required = set(s.get("required", []))
    fields = ", ".join(f"{json.dumps(k)}: {py_type(v) if k in required else f'NotRequired[{py_type(v)}]'}" for k, v in s["properties"].items())
    return f"{name} = TypedDict({json.dumps(name)}, {{{fields}}})\n"


def py_method(c):
    args = ["self", *[py_name(p) + ": str" for p in c.path_params]]
    body = "None"
    if c.body is not None:
        args.append("body: " + ("Any" if c.is_binary_body else py_type(c.body)))
        body = "body"
    required = [p for p in c.query if p.get("required")]
    optional = [p for p in c.query if not p.get("required")]
    args += [f"{py_name(p['name'])}: {py_query(p)}" for p in required]
    args += ["*"] + [f"{py_name(p['name'])}: Optional[{py_query(p)}] = None" for p in optional] + ["headers: Optional[Dict[str, str]] = None"]
    query = "{" + ", ".join(f"{json.dumps(p['name'])}: {py_name(p['name'])}" for p in c.query) + "}"
    path = "f" + json.dumps(re.sub(r"\{(\w+)\}", lambda m: "{quote(" + py_name(m.group(1)) + ")}", c.path))
    how = "self._json" if c.is_json else "self._stream" if c.answer_type else "self._none"
    answer = py_type(c.answer) if c.is_json else "Stream" if c.answer_type else "None"
    extra = f", content_type={json.dumps(c.body_type)}" if c.is_binary_body else ""
    return (f"    def {snake(c.words)}({', '.join(args)}) -> {answer}:\n"
            f"        \"\"\"{c.op['summary'][:1].upper()}{c.op['summary'][1:]}. `{c.method} {c.path}`\"\"\"\n"
            f"        return {how}({json.dumps(c.method)}, {path}, {query}, {body}, data={c.is_data}, headers=headers{extra})\n")


def query_kind(p):
    """The one type of a parameter's values; None if there are several."""
    t = p.get("schema", {}).get("type")
    return t if isinstance(t, str) else None


def py_query(p):
    t = query_kind(p)
    return {"integer": "int", "boolean": "bool"}.get(t, "Union[str, bytes, int, Sequence[str]]" if t == "string" else "Any")


def python():
    out = ["# SPDX-License-Identifier: Apache-2.0", "# Generated by clients/generate.py from doc/openapi.json. Do not edit.",
           '"""Every call of the API as a method, and the types of its bodies."""\n', "from __future__ import annotations\n",
           "import sys", "from typing import Any, Dict, List, Literal, Optional, Sequence, Union\n",
           "from .transport import Stream, Transport, quote\n",
           "if sys.version_info >= (3, 11):", "    from typing import NotRequired, TypedDict", "else:", "    from typing_extensions import NotRequired, TypedDict\n"]
    out += [py_schema(n, s) for n, s in SCHEMAS.items()]
    out += ["\nclass Calls(Transport):", '    """One method per call; arguments are those of the document."""\n']
    out += [py_method(c) for c in calls()]
    return "\n".join(out)


# ---- TypeScript ----


def ts_type(s):
    if not s:
        return "unknown"
    if "$ref" in s:
        return s["$ref"].rsplit("/", 1)[1]
    if "enum" in s:
        return " | ".join(json.dumps(v) for v in s["enum"])
    for key in ("anyOf", "oneOf"):
        if key in s:
            return " | ".join(ts_type(x) for x in s[key])
    kinds = s.get("type", "any")
    kinds = kinds if isinstance(kinds, list) else [kinds]
    if len(kinds) > 1:
        return " | ".join(ts_type({**s, "type": k}) for k in kinds)
    return {"string": "string", "integer": "number", "number": "number", "boolean": "boolean", "null": "null",
            "array": f"Array<{ts_type(s.get('items'))}>", "object": ts_object(s)}.get(kinds[0], "unknown")


def ts_object(s):
    props, required = s.get("properties"), set(s.get("required", []))
    if not props:
        return f"Record<string, {ts_type(s['additionalProperties']) if isinstance(s.get('additionalProperties'), dict) else 'unknown'}>"
    return "{ " + " ".join(f"{json.dumps(k)}{'' if k in required else '?'}: {ts_type(v)};" for k, v in props.items()) + " }"


def ts_method(c):
    params = [camel(p) + ": string" for p in c.path_params]
    if c.body is not None:
        params.append("body: " + ("BodyInit" if c.is_binary_body else ts_type(c.body)))
    optional = all(not p.get("required") for p in c.query)
    fields = " ".join(f"{json.dumps(p['name'])}{'' if p.get('required') else '?'}: {ts_query(p)};" for p in c.query)
    params.append(f"query{'' if not optional else '?'}: {{ {fields} }}" if fields else "query?: undefined")
    params.append("options?: CallOptions")
    path = "`" + re.sub(r"\{(\w+)\}", lambda m: "${encodeURIComponent(" + camel(m.group(1)) + ")}", c.path) + "`"
    how, answer = ("json", ts_type(c.answer)) if c.is_json else ("stream", "Response") if c.answer_type else ("none", "void")
    kind = f", {json.dumps(c.body_type)}" if c.is_binary_body else ""
    return (f"  /** {c.op['summary'][:1].upper()}{c.op['summary'][1:]}. `{c.method} {c.path}` */\n"
            f"  {camel(c.words)}({', '.join(params)}): Promise<{answer}> {{\n"
            f"    return this.{how}({json.dumps(c.method)}, {path}, query, {'body' if c.body is not None else 'undefined'}, {str(c.is_data).lower()}, options{kind});\n  }}\n")


def ts_query(p):
    return {"integer": "number", "boolean": "boolean"}.get(query_kind(p), "string | string[]")


def typescript():
    out = ["// SPDX-License-Identifier: Apache-2.0", "// Generated by clients/generate.py from doc/openapi.json. Do not edit.",
           "/** Every call of the API as a method, and the types of its bodies. */", 'import { Transport, type CallOptions } from "./transport.js";\n']
    out += [f"export type {n} = {ts_type(s)};" for n, s in SCHEMAS.items()]
    out += ["\nexport class Calls extends Transport {"] + [ts_method(c) for c in calls()] + ["}\n"]
    return "\n".join(out)


def main():
    stale = []
    for path, text in ((HERE / "python/caisson/generated.py", python()), (HERE / "typescript/src/generated.ts", typescript())):
        if sys.argv[1:] == ["--check"]:
            if not path.exists() or path.read_text() != text:
                stale.append(str(path))
        else:
            path.write_text(text)
    if stale:
        sys.exit("stale: " + ", ".join(stale) + "; run clients/generate.py")


main()
