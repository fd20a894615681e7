#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Everything that can be judged without running the product.

usage: lint.py [--report FILE] [--fast] [--build DIR]

format, layers, sizes, licence lines, shell syntax; then clang-tidy, gcc -fanalyzer and
cppcheck per source file. The slow ones are cached by content: the key is the SHA-256 of the
tool's version, its arguments, the file and every header of the tree.
Cache: ${XDG_CACHE_HOME:-~/.cache}/caisson/lint. --fast leaves the analysers out.
The compilers' arguments come from DIR/compile_commands.json; DIR is build/release unless told.
"""

import concurrent.futures
import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent.parent
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "caisson" / "lint"
JOBS = min(os.cpu_count() or 2, 8)

# A folder includes itself and those before it; programs never include each other.
LIBRARIES = ["base", "net", "tls", "db", "vmm"]
PROGRAMS = ["api", "controller", "sandboxd", "monitor", "noded", "storaged", "guestd", "cli"]
# proto holds the fixed structs of the wires: it may be used by every program.
MAY = {d: set(LIBRARIES[: i + 1]) for i, d in enumerate(LIBRARIES)}
MAY["proto"] = {"base", "proto"}
for p in PROGRAMS:
    MAY[p] = set(LIBRARIES) | {"proto", p}
# The root process and its reasons: it links no parser of text or of the network.
MAY["noded"] = {"base", "proto", "noded"}
MAY["vmm"] |= {"proto"}
FILE_LINES, FUNCTION_LINES = 800, 60

# Checks that are left out, and why.
TIDY_OFF = {
    "bugprone-assignment-in-if-condition": "fires on the `while` of list macros",
    "bugprone-easily-swappable-parameters": "any two integers; names and tests are the remedy",
    "bugprone-macro-parentheses": "fires on types as arguments",
    "bugprone-multi-level-implicit-pointer-conversion": "fires on free() of an array of strings",
    "bugprone-narrowing-conversions": "gcc's -Wconversion judges the same and knows the values",
    "bugprone-reserved-identifier": "_GNU_SOURCE is one",
    "cert-dcl37-c": "the same by another name",
    "cert-dcl51-cpp": "the same by another name",
    "cert-err33-c": "wants the result of every snprintf",
    "clang-analyzer-optin.performance.Padding": "structs are ordered for readers",
    "clang-analyzer-security.insecureAPI.DeprecatedOrUnsafeBufferHandling": "wants memcpy_s; what is banned stands in base/banned.h",
    "clang-analyzer-valist.Uninitialized": "wrong about va_copy on x86-64 in clang 14",
    "misc-include-cleaner": "does not know umbrella headers",
    "misc-no-recursion": "JSON and folders nest; each recursion has its limit",
    "misc-unused-parameters": "callbacks have the parameters of their type",
    "performance-no-int-to-ptr": "addresses from the kernel arrive as integers",
}
TIDY = ",".join(
    ["-checks=-*", "bugprone-*", "cert-*", "misc-*", "performance-*", "clang-analyzer-*", "readability-else-after-return"]
    + ["-" + check for check in TIDY_OFF]
)

rows = []


def row(name, problems, skipped=None):
    if skipped:
        rows.append({"name": name, "result": "skipped", "text": skipped})
    elif problems:
        rows.append({"name": name, "result": "failed", "text": "\n".join(problems)[:8000]})
    else:
        rows.append({"name": name, "result": "passed", "text": ""})
    print(f"  {rows[-1]['result']:8}{name}", flush=True)


def tracked(*suffixes):
    out = subprocess.run(["git", "ls-files"], cwd=TOP, capture_output=True, text=True, check=True).stdout
    return [TOP / f for f in out.splitlines() if f.endswith(suffixes) and (TOP / f).exists()]


def check_layers(files):
    bad = []
    for f in files:
        rel = f.relative_to(TOP / "src")
        folder = rel.parts[0]
        if folder not in MAY:
            bad.append(f"{rel}: folder '{folder}' is not in the list of layers")
            continue
        for i, line in enumerate(f.read_text().splitlines(), 1):
            m = re.match(r'\s*#\s*include\s+"([^"]+)"', line)
            if not m:
                continue
            to = m.group(1).split("/")[0]
            if "/" not in m.group(1):
                bad.append(f'{rel}:{i}: write "{folder}/{m.group(1)}"')
            elif to not in MAY[folder]:
                bad.append(f"{rel}:{i}: {folder} may not include {to}")
    return bad


def functions(text):
    """(name, first line, last line) by the style's own rule: a body opens and closes in column one."""
    name, start = None, 0
    lines = text.splitlines()
    for i, line in enumerate(lines, 1):
        if line == "{" and i > 1:
            start, k = i, i - 2
            while k > 0 and re.match(r"[\s]", lines[k]):
                k -= 1
            m = re.search(r"(\w+)\s*\(", lines[k])
            name = m.group(1) if m else None
        elif line == "}" and name:
            yield name, start, i
            name = None


def check_sizes(files):
    bad = []
    for f in files:
        text = f.read_text()
        n = text.count("\n")
        if n > FILE_LINES:
            bad.append(f"{f.relative_to(TOP)}: {n} lines, more than {FILE_LINES}: look for the second module")
        if f.suffix == ".c":
            for name, a, b in functions(text):
                if b - a - 1 > FUNCTION_LINES:
                    bad.append(f"{f.relative_to(TOP)}:{a}: {name} has {b - a - 1} lines, more than {FUNCTION_LINES}")
    return bad


def check_licence():
    bad = []
    for f in tracked(".c", ".h", ".py", ".sh", ".sql", ".build"):
        if "SPDX-License-Identifier: Apache-2.0" not in "\n".join(f.read_text(errors="replace").splitlines()[:3]):
            bad.append(f"{f.relative_to(TOP)}: no SPDX line at the top")
    return bad


def check_words():
    bad = []
    pattern = re.compile(r"\b(TODO|FIXME|XXX)\b")
    for f in tracked(".c", ".h", ".py", ".sh", ".sql"):
        if f == Path(__file__).resolve():
            continue
        for i, line in enumerate(f.read_text(errors="replace").splitlines(), 1):
            if pattern.search(line):
                bad.append(f"{f.relative_to(TOP)}:{i}: promises work not done: {line.strip()}")
    return bad


def check_shell():
    bad = []
    for f in tracked(".sh") + [TOP / "dev", TOP / ".ci/run", TOP / "templates/build"]:
        if f.exists() and f.read_text(errors="replace").startswith("#!/bin/sh"):
            r = subprocess.run(["sh", "-n", str(f)], capture_output=True, text=True)
            if r.returncode:
                bad.append(r.stderr.strip())
    return bad


def check_format(files):
    r = subprocess.run(["clang-format", "--dry-run", "-Werror", *map(str, files)], capture_output=True, text=True)
    return [l for l in r.stderr.splitlines() if "error:" in l] if r.returncode else []


def version(tool):
    return subprocess.run([tool, "--version"], capture_output=True, text=True).stdout


def cached(key_parts, run):
    key = hashlib.sha256("\0".join(key_parts).encode()).hexdigest()
    f = CACHE / key[:2] / key
    if f.exists():
        return json.loads(f.read_text())
    out = run()
    f.parent.mkdir(parents=True, exist_ok=True)
    tmp = f.with_suffix(f".{os.getpid()}")
    tmp.write_text(json.dumps(out))
    tmp.rename(f)
    return out


def commands(build):
    try:
        db = json.loads((build / "compile_commands.json").read_text())
    except OSError:
        return {}
    out = {}
    for e in db:
        f = (Path(e["directory"]) / e["file"]).resolve()
        args = shlex.split(e["command"])
        keep = [a for a in args if re.match(r"-(D|U|std)", a)]
        # Absolute, so that findings name the same file whatever the build directory.
        keep += ["-I" + os.path.normpath(os.path.join(e["directory"], a[2:])) for a in args if a.startswith("-I")]
        if "-include" in args:
            keep += ["-include", args[args.index("-include") + 1]]
        out.setdefault(f, (e["directory"], keep))
    return out


def analyse(files, tool, build):
    cmds = commands(build)
    # Headers of the tree: any change of one re-checks everything, which is simple and right.
    headers = hashlib.sha256(b"".join(sorted(f.read_bytes() for f in tracked(".h")))).hexdigest()
    ver = version(tool[0])

    def one(f):
        if f not in cmds:
            return []
        cwd, args = cmds[f]
        argv = tool[1](f, args)

        def run():
            r = subprocess.run(argv, cwd=cwd, capture_output=True, text=True, errors="replace")
            text = r.stdout + r.stderr
            found = [l for l in text.splitlines() if re.search(r": (fatal )?(warning|error|style|performance|portability):", l)]
            # A tool that fails without a finding has judged nothing.
            return found or ([f"{f.relative_to(TOP)}: {tool[0]} failed: {text[-300:]}"] if r.returncode else [])

        return cached([ver, headers, f.read_text(), " ".join(argv)], run)

    with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
        return sorted({l.replace(str(TOP) + "/", "") for out in pool.map(one, files) for l in out})


TOOLS = {
    "clang-tidy": ("clang-tidy", lambda f, a: ["clang-tidy", "--quiet", TIDY, str(f), "--", *a, "-Wno-everything"]),
    # With optimisation the analyser sees through inlined helpers; without, it is faster and
    # reports the same kinds.
    "gcc -fanalyzer": ("gcc", lambda f, a: ["gcc", "-fanalyzer", "-fdiagnostics-plain-output", "-c", "-o", "/dev/null", *a, str(f)]),
    "cppcheck": (
        "cppcheck",
        lambda f, a: ["cppcheck", "--quiet", "--enable=warning,portability", "--inline-suppr", "--suppress=*:/usr/*",
                      "--suppress=unknownMacro", "--suppress=syntaxError", "--suppress=preprocessorErrorDirective", "--suppress=internalAstError",
                      # `freed`: a flag of the caller's that an object sets when one of its callbacks frees
                      # it, taken back before the caller returns.
                      "--suppress=autoVariables",
                      "--template={file}:{line}: {severity}: {message} [{id}]", "-I" + str(TOP / "src"), str(f)],
    ),
}


def main():
    report = sys.argv[sys.argv.index("--report") + 1] if "--report" in sys.argv else None
    build = Path(sys.argv[sys.argv.index("--build") + 1]) if "--build" in sys.argv else TOP / "build/release"
    c_all = [f for f in tracked(".c", ".h") if f.is_relative_to(TOP / "src")]
    c_src = [f for f in c_all if f.suffix == ".c"]
    row("layers", check_layers(c_all))
    row("sizes", check_sizes(c_all))
    row("licence lines", check_licence())
    row("no promises in comments", check_words())
    row("shell syntax", check_shell())
    if shutil.which("clang-format"):
        row("clang-format", check_format(c_all))
    else:
        row("clang-format", None, "clang-format is not installed")
    if "--fast" not in sys.argv:
        product = [f for f in c_src if not re.match(r"(test|fuzz)-", f.name)]
        for name, tool in TOOLS.items():
            if shutil.which(tool[0]):
                # -fanalyzer on the layers that parse: it takes tens of seconds a file elsewhere
                # and, in gcc 12, is not ready for callbacks.
                files = [f for f in product if f.relative_to(TOP / "src").parts[0] in ("base", "net")] if "fanalyzer" in name else product
                row(name, analyse(files, tool, build))
            else:
                row(name, None, f"{tool[0]} is not installed")
    if report:
        Path(report).parent.mkdir(parents=True, exist_ok=True)
        Path(report).write_text(json.dumps(rows))
    for r in rows:
        if r["result"] == "failed" and not report:
            print(f"{r['name']}:\n{r['text']}")
    sys.exit(1 if any(r["result"] == "failed" for r in rows) else 0)


main()
