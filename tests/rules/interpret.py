"""Runs kernels and their rewritten texts in Triton's interpreter and compares them.

Standard input: a list of {"name", "pointers": {parameter: type}, "numel", "text",
"variants": {name: [text, XBLOCK]}}. Prints a line a variant; it ends in "equal", or says what differs. Needs TRITON_INTERPRET=1.
"""

import importlib.util
import json
import pathlib
import sys
import tempfile

import torch

HEAD = """import triton
import triton.language as tl
from torch._inductor.runtime import triton_helpers
from torch._inductor.runtime.triton_helpers import libdevice, math as tl_math
"""
TYPES = {"*fp32": torch.float32, "*bf16": torch.bfloat16, "*i64": torch.int64}


def load(text, name, folder):
    """The jitted function of a kernel text."""
    path = pathlib.Path(folder, f"text_{abs(hash(text))}.py")
    path.write_text(HEAD + text)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, name)


def data(pointers, numel, seed):
    """A storage a parameter, large enough for every access of the test's kernels."""
    generator = torch.Generator().manual_seed(seed)
    storages = {}
    for name, dtype in pointers.items():
        size = 4 * numel + 4096
        if dtype == "*i64":
            storages[name] = torch.randint(0, 240, (size,), generator=generator)
            continue
        value = torch.randn(size, generator=generator)
        value[::97] = float("nan")
        value[::89] = -value[::89].abs()
        storages[name] = value.to(TYPES[dtype])
    return storages


def run(function, numel, storages, block):
    arguments = {name: value.clone() for name, value in storages.items()}
    grid = ((numel + block - 1) // block,)
    function[grid](*arguments.values(), numel, XBLOCK=block)
    return arguments


def same(a, b):
    if a.dtype == torch.int64:
        return torch.equal(a, b)
    return bool((a.isnan() == b.isnan()).all()) and torch.equal(a.nan_to_num(7.0), b.nan_to_num(7.0))


def main():
    with tempfile.TemporaryDirectory() as folder:
        for job in json.load(sys.stdin):
            storages = data(job["pointers"], job["numel"], seed=len(job["name"]))
            wanted = run(load(job["text"], job["name"], folder), job["numel"], storages, 256)
            changed = [name for name in storages if not same(wanted[name], storages[name])]
            for variant, (text, block) in job["variants"].items():
                found = run(load(text, job["name"], folder), job["numel"], storages, block)
                wrong = [name for name in storages if not same(found[name], wanted[name])]
                verdict = f"differs in {wrong}" if wrong else "equal"
                if not changed:
                    verdict = "proves nothing: the kernel changes no storage"
                print(job["name"], variant, block, verdict, flush=True)


main()
