"""Make a tracer pack: a copy of a pack whose kernels add 1 to what they store.

    python tests/gpu/make_tracer.py PACK MODULES_DIR OUT

A pack that changes the model's output shows that "swapped" is more than a
counter. MODULES_DIR holds the generated modules of the capture that the pack
was made from. The tracer is consistent in itself (hashes, binaries), since the
loader would refuse it otherwise; that it is wrong is the point.
"""
from __future__ import annotations

import ast
import hashlib
import json
import os
import shutil
import subprocess
import sys

os.environ["CUDA_VISIBLE_DEVICES"] = ""  # compiling needs none, as in a compile worker
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "python"))

from kernelopt import kernels, loader  # noqa: E402


def add_one(text: str) -> str:
    """The kernel text with every stored value + 1."""
    tree = ast.parse(text)
    lines = text.split("\n")
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line.encode()) + 1)
    data = text.encode()
    stores = [node for node in ast.walk(tree) if isinstance(node, ast.Call)
              and isinstance(node.func, ast.Attribute) and node.func.attr == "store"]
    for node in sorted(stores, key=lambda n: -starts[n.lineno - 1] - n.col_offset):
        value = node.args[1]
        begin = starts[value.lineno - 1] + value.col_offset
        end = starts[value.end_lineno - 1] + value.end_col_offset
        data = data[:begin] + b"((" + data[begin:end] + b") + 1)" + data[end:]
    return data.decode()


def replacement_id(kernel: dict, text: str) -> str:
    """The id of a drop-in replacement with this manifest entry and kernel text."""
    content = {"kernel_key": kernel["kernel_key"], "form": "drop_in", "workspaces": [], "steps": [
        {"kernel_text": text, "config": kernel["config"], "grid": ["", "", ""],
         "cooperative": False}]}
    return hashlib.sha256(json.dumps(content, separators=(",", ":"),
                                     ensure_ascii=False).encode()).hexdigest()


def sha(path: str) -> str:
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


def write_manifest(pack: str, manifest: dict) -> None:
    for name in manifest["files"]:
        manifest["files"][name] = sha(os.path.join(pack, name))
    path = os.path.join(pack, "manifest.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(manifest, file, indent=1)
    with open(os.path.join(pack, "manifest.sha256"), "w", encoding="utf-8") as file:
        file.write(sha(path) + "\n")


def main() -> int:
    source, modules, out = sys.argv[1:4]
    shutil.rmtree(out, ignore_errors=True)
    shutil.copytree(source, out)
    with open(os.path.join(out, "manifest.json"), encoding="utf-8") as file:
        manifest = json.load(file)
    for kernel in manifest["kernels"]:
        path = os.path.join(out, kernel["file"])
        with open(path, encoding="utf-8") as file:
            comment, text = file.read().split("\n\n", 1)
        text = add_one(text)
        kernel["id"] = replacement_id(kernel, text)
        with open(path, "w", encoding="utf-8") as file:
            file.write(f"{comment}\n\n{text}")
    write_manifest(out, manifest)
    made = set()
    for name in sorted(os.listdir(modules)):
        answer = json.loads(subprocess.run(
            [loader.program(), "resolve", out, os.path.join(modules, name), "--json"],
            capture_output=True, text=True, timeout=60, check=True).stdout.splitlines()[-1])
        for entry in answer["kernels"]:
            if not entry.get("source") or entry["key"] in made:
                continue
            autotuner = kernels.load_autotuner(entry["source"], entry["name"])
            compiled = kernels.compile_autotuner(autotuner, entry["config"])
            for kernel in manifest["kernels"]:
                if kernel["kernel_key"] == entry["key"]:
                    kernel["binary_hash"] = compiled.binary_hash
                    kernel["record"] = compiled.record
                    with open(os.path.join(out, kernel["cubin"]), "wb") as file:
                        file.write(compiled.cubin)
                    made.add(entry["key"])
    write_manifest(out, manifest)
    print(f"tracer {out}: {len(made)} of {len(manifest['kernels'])} kernels add 1")
    return 0 if made else 1


if __name__ == "__main__":
    sys.exit(main())
