"""Runs kernels in triton's own interpreter. A child process of test_interpreter.py:

    TRITON_INTERPRET=1 python interpret.py JOBS.json

JOBS.json is a list of {"source": a file of one kernel without its heuristics, "name",
"constants", "grid", "arguments": [{"array": file.npy, "dtype"} | {"number"}], "out": a
folder}. Each array goes to OUT/N.npy as it is afterwards; OUT/error holds what went
wrong instead.
"""
import importlib.util
import json
import pathlib
import sys
import traceback

import numpy as np
import scipy.special
import torch
import triton.language as tl
from torch._inductor.runtime import triton_helpers
from triton.runtime.interpreter import TensorHandle

#: The device library has no body in the interpreter.
LIBRARY = {name: getattr(np, name) for name in (
    "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "tanh", "sqrt",
    "sinh", "cosh", "arctan", "floor", "ceil", "trunc", "isnan", "isinf", "copysign", "fmod")}
LIBRARY |= {"rsqrt": lambda x: 1 / np.sqrt(x), "pow": np.power, "abs": np.abs, "fabs": np.abs,
            "atan": np.arctan, "atan2": np.arctan2, "rint": np.rint, "nearbyint": np.rint,
            "erf": scipy.special.erf, "erfc": scipy.special.erfc, "lgamma": scipy.special.gammaln}


class Library:
    """Functions of the device library, computed in double and rounded once."""

    def __getattr__(self, name):
        def call(*given):
            values = [np.asarray(x.handle.data if hasattr(x, "handle") else x, np.float64)
                      for x in given]
            with np.errstate(all="ignore"):
                result = LIBRARY[name](*values)
            kind = tl.int1 if result.dtype == np.bool_ else given[0].dtype
            data = result if result.dtype == np.bool_ else result.astype(given[0].handle.data.dtype)
            shape = list(given[0].type.shape) if given[0].type.is_block() else None
            return tl.tensor(TensorHandle(data, kind),
                             tl.block_type(kind, shape) if shape is not None else kind)
        return call


def run(job):
    spec = importlib.util.spec_from_file_location("kernel", job["source"])
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.libdevice = triton_helpers.libdevice = Library()
    tensors, arguments = {}, []
    for number, given in enumerate(job["arguments"]):
        if "number" in given:
            arguments.append(given["number"])
            continue
        tensor = torch.from_numpy(np.load(given["array"]))
        tensors[number] = tensor.view(getattr(torch, given["dtype"]))
        arguments.append(tensors[number])
    names = [p for p in getattr(module, job["name"]).arg_names if p not in job["constants"]]
    getattr(module, job["name"])[tuple(job["grid"])](**dict(zip(names, arguments)),
                                                     **job["constants"])
    for number, tensor in tensors.items():
        np.save(f"{job['out']}/{number}.npy", tensor.contiguous().view(torch.uint8).numpy())


for job in json.loads(pathlib.Path(sys.argv[1]).read_text()):
    try:
        run(job)
    except Exception:  # one kernel's fault is no reason to stop
        pathlib.Path(job["out"], "error").write_text(traceback.format_exc()[-600:])
