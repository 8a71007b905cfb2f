"""Writes the rules' texts as a folder of candidates that all gates must accept.

    python corpus.py RULES_TOOL OUT
    gate_corpus_gpu_test [--static] OUT

OUT has the layout of tests/gates: capture/ records one launch of each kernel over
storages of exactly the elements that it may touch, good/ holds a file a text.
"""
from __future__ import annotations

import hashlib
import json
import pathlib
import subprocess
import sys

from pointwise_kernels import CASES, Case, kernel

# Rules that make more than one text of a kernel differ in tile sizes only where the
# kernels are this small; every third text of each keeps the folder a matter of minutes.
STRIDE = 3

MODULE = """# AOT ID: ['0_inference']
import torch
from torch import device, empty_strided
from torch._inductor.async_compile import AsyncCompile
import triton
import triton.language as tl
from torch._C import _cuda_getCurrentRawStream as get_raw_stream

empty_strided_cuda = torch._C._dynamo.guards._empty_strided_cuda
async_compile = AsyncCompile()

{definitions}
async_compile.wait(globals())
del async_compile

def call(args):
    {buffers} = args
    args.clear()
    with torch.cuda._DeviceGuard(0):
        stream0 = get_raw_stream(0)
{launches}
    return ()
"""


def module(cases: dict[str, Case]) -> str:
    """A generated module with these kernels, each launched once."""
    definitions, launches, buffers = [], [], 0
    for name, case in cases.items():
        source = kernel(name, case.pointers, case.numel, case.body)
        definitions.append(f"{name} = async_compile.triton('{name}', '''\n{source}''', "
                           "device_str='cuda')\n")
        names = [f"buf{buffers + i}" for i in range(len(case.pointers))]
        buffers += len(names)
        launches.append(f"        {name}.run({', '.join(names)}, {case.numel}, stream=stream0)")
    return MODULE.format(definitions="\n".join(definitions), launches="\n".join(launches),
                         buffers=", ".join(f"buf{i}" for i in range(buffers)) + ",")


def findings(tool: str, folder: pathlib.Path, cases: dict[str, Case]):
    """What the rules say of kernels: {name: (text, {rule: finding})}."""
    path = folder / "module.py"
    path.write_text(module(cases))
    done = subprocess.run([tool, str(path)], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    kernels = map(json.loads, done.stdout.splitlines())
    return {k["kernel"]: (k["text"], {f["rule"]: f for f in k["findings"]}) for k in kernels}


def capture(cases: dict[str, Case], module_hash: str) -> dict:
    """The record of one call of the module."""
    storages, events = [], []
    for name, case in cases.items():
        arguments = []
        for pointer, dtype in case.pointers.items():
            elements = case.sizes[pointer]
            number = len(storages)
            written = pointer.startswith("out_ptr")
            storages.append({"id": number, "bytes": elements * (2 if dtype == "*bf16" else 4),
                             "kind": "intermediate" if written else "input"})
            if written:
                events.append({"kind": "alloc", "storage": number})
            arguments.append({"tensor": {"storage": number, "dtype": dtype[1:], "size": [elements],
                                         "stride": [1], "offset": 0}})
        events.append({"kind": "launch", "name": name,
                       "arguments": arguments + [{"int": case.numel}],
                       "grid": [(case.numel + 255) // 256, 1, 1],
                       "config": {"XBLOCK": 256, "num_warps": 4, "num_stages": 1},
                       "binary_hash": "", "device_us": 3.0})
    events.append({"kind": "return", "arguments": []})
    return {
        "schema": 1, "torch": "2.11.0", "triton": "3.6.0", "python": "3.11.2",
        "device": {"name": "NVIDIA H200", "uuid": "", "compute_capability": 90, "sm_count": 132,
                   "l2_bytes": 62914560, "memory_bytes": 150754820096},
        "model": {"file": "", "sha256": "0" * 64, "entry": ""},
        "modules": [module_hash],
        "variants": [{"mode": "default", "train": False, "input_set": 0, "graph_breaks": 0,
                      "compiled_us": 60.0, "eager_us": 90.0, "device_us": 33.0,
                      "storages": storages,
                      "graphs": [{"module": module_hash, "phase": "inference",
                                  "events": events}]}],
    }


def write_corpus(tool: str, out: pathlib.Path) -> int:
    """The folder; how many candidates it has."""
    # What a loaded index may be is nothing that a recording of zeros could say.
    cases = {name: case for name, case in CASES.items() if "*i64" not in case.pointers.values()}
    for folder in ("capture/modules", "good", "bad"):
        (out / folder).mkdir(parents=True, exist_ok=True)
    text = module(cases)
    name = hashlib.sha256(text.encode()).hexdigest()
    (out / "capture/modules" / f"{name}.py").write_text(text)
    (out / "capture/capture.json").write_text(json.dumps(capture(cases, name)))
    count = 0
    for kernel_name, (_, rules) in findings(tool, out, cases).items():
        for rule, finding in rules.items():
            for i, made in enumerate(finding["texts"][::STRIDE]):
                config = made["configs"][0]
                (out / "good" / f"{rule}_{i}_{kernel_name}.py").write_text(
                    f"# Kernel: {kernel_name}\n# Expect: ok\n# Why: {made['change']}\n"
                    f"# Configuration: XBLOCK={config['constexprs']['XBLOCK']} "
                    f"warps={config['num_warps']}\n\n{made['text']}\n")
                count += 1
    return count


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    print(write_corpus(sys.argv[1], pathlib.Path(sys.argv[2])), "candidates")
