"""Compile kernel texts in a process of their own: `python -m kernelopt.compile_worker`.

Answers `hello`, `compile` and `compile_ttir` (docs/protocol.md). The text is untrusted until
its binary was judged, so no GPU is visible here, and the parent sets the limits
of memory and time; a job that breaks them costs this process and nothing else.
"""
from __future__ import annotations

import os

# Before anything that could look for a GPU is imported.
os.environ["CUDA_VISIBLE_DEVICES"] = ""
# The judged binary is made from the text and nothing else.
for _variable in ("TRITON_INTERPRET", "TRITON_KERNEL_OVERRIDE", "TRITON_OVERRIDE_DIR"):
    os.environ.pop(_variable, None)
# torch's static launcher keeps the cubin alone; TTIR and PTX are wanted too.
os.environ["TORCHINDUCTOR_USE_STATIC_CUDA_LAUNCHER"] = "0"

from kernelopt import framing  # noqa: E402

_IS_PROGRAM = __name__ == "__main__"
if _IS_PROGRAM:
    framing.take_streams()

import pathlib  # noqa: E402
import sys  # noqa: E402
import time  # noqa: E402
from typing import Any  # noqa: E402


def _toolchain() -> dict[str, Any]:
    """What else decides the binary: the assembler (TRITON_PTXAS_PATH) and switches."""
    from triton import knobs
    from triton._C.libtriton import get_cache_invalidating_env_vars

    try:
        ptxas = knobs.nvidia.ptxas
    except RuntimeError as error:
        raise framing.JobError(
            "environment", "ptxas_missing",
            f"triton finds no ptxas ({framing.one_sentence(error)}); unset TRITON_PTXAS_PATH or "
            "install triton again") from error
    return {"ptxas": ptxas.version, "ptxas_path": ptxas.path,
            "ptxas_options": os.environ.get("PTXAS_OPTIONS", ""),
            "switches": get_cache_invalidating_env_vars()}


def hello(params: dict[str, Any]) -> dict[str, Any]:
    """Versions; what is missing is null and named in `problem`."""
    found: dict[str, Any] = {"torch": None, "triton": None, "python": sys.version.split()[0],
                             "problem": None}
    for name in ("torch", "triton"):
        try:
            found[name] = str(__import__(name).__version__).split("+")[0]
        except ImportError as error:
            found["problem"] = f"{name}_missing"
            print(f"import {name} failed: {error}", file=sys.stderr)
    if found["triton"]:
        found["toolchain"] = _toolchain()
    if found["problem"] is None:
        # Imported now, so that no kernel's time limit pays for it.
        from torch._inductor.codecache import PyCodeCache  # noqa: F401
        from torch._inductor.runtime import triton_heuristics  # noqa: F401
    return found


def _load(source: str, kernel_name: str, capability: int) -> Any:
    from kernelopt import kernels
    from torch._inductor.codecache import PyCodeCache

    # A loaded module keeps what it was compiled to, so that the same text would
    # answer a second configuration with the binary of the first.
    PyCodeCache.cache_clear()
    try:
        autotuner = kernels.load_autotuner(source, kernel_name)
    except Exception as error:
        where = ""
        if isinstance(error, SyntaxError) and error.lineno:
            where = f"line {error.lineno}: "
        raise framing.JobError("usage", "compile_error",
                               f"the kernel's text can't be loaded: {where}"
                               f"{framing.one_sentence(error)}", kernel_name) from error
    device = getattr(autotuner, "device_props", None)
    if device is None:
        raise framing.JobError("usage", "compile_error",
                               f"{kernel_name} is no kernel of torch's compiler; wanted a function "
                               "under a triton_heuristics decorator", kernel_name)
    if int(device.cc) != capability:
        raise framing.JobError("usage", "wrong_target",
                               f"the kernel's text is for compute capability {device.cc}, but "
                               f"{capability} was asked for; capture the model on that GPU",
                               kernel_name)
    return autotuner


def compile_kernel(params: dict[str, Any], progress: framing.Progress) -> dict[str, Any]:
    """`compile` of docs/protocol.md."""
    from kernelopt import kernels

    started = time.monotonic()
    name = params["kernel_name"]
    source = pathlib.Path(params["source_path"]).read_text(encoding="utf-8")
    try:
        autotuner = _load(source, name, int(params["compute_capability"]))
        compiled = kernels.compile_autotuner(autotuner, params["config"],
                                             params.get("expected_hash", ""))
    except kernels.CompileError as error:
        raise framing.JobError("usage", "compile_error", " ".join(str(error).split()),
                               name) from error
    return _answer(compiled, params, started)


def compile_ttir(params: dict[str, Any], progress: framing.Progress) -> dict[str, Any]:
    """`compile_ttir` of docs/protocol.md."""
    from kernelopt import kernels

    started = time.monotonic()
    path = pathlib.Path(params["ttir_path"])
    if path.suffix != ".ttir":
        raise framing.JobError("usage", "wrong_file_name",
                               f"found {path.name} where a file named *.ttir was wanted")
    try:
        compiled = kernels.compile_ttir(str(path), params, int(params["compute_capability"]))
    except kernels.CompileError as error:
        raise framing.JobError("usage", "compile_error", " ".join(str(error).split()),
                               path.name) from error
    return _answer(compiled, params, started)


def _answer(compiled: Any, params: dict[str, Any], started: float) -> dict[str, Any]:
    out = pathlib.Path(params["out_dir"])
    files = {"cubin": out / "kernel.cubin", "ttir": out / "kernel.ttir", "ptx": out / "kernel.ptx"}
    files["cubin"].write_bytes(compiled.cubin)
    files["ttir"].write_text(compiled.ttir, encoding="utf-8")
    files["ptx"].write_text(compiled.ptx, encoding="utf-8")
    return {
        **{kind: str(path) for kind, path in files.items()},
        "record": compiled.record, "binary_hash": compiled.binary_hash,
        "registers": compiled.registers, "spill_bytes": compiled.spill_bytes,
        "compile_ms": round((time.monotonic() - started) * 1000),
    }


if _IS_PROGRAM:
    sys.exit(framing.serve({"compile": compile_kernel, "compile_ttir": compile_ttir}, hello))
