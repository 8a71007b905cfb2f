"""Compile one Inductor-style kernel source or one TTIR text, and describe what came out.

The one place that talks to Triton and to Inductor's autotuner about compiling:
the compile worker (no GPU visible) and the loader in the user's process both
go through it, so that the binary that was judged and the binary that is
shipped are made by the same calls and described by the same hash.

Source: torch/_inductor/runtime/triton_heuristics.py (CachingAutotuner),
triton/compiler/compiler.py (CompiledKernel). docs/protocol.md has the launch
record and the binary hash.
"""
from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import os
import re
import struct
from typing import Any, Iterator

#: EIATTR codes of the .nv.info section that ptxas writes.
_EIATTR_FRAME_SIZE = 0x11
_EIATTR_REGCOUNT = 0x2F

#: Bytes of the scalar types of a Triton signature.
_SCALAR_BYTES = {
    "i1": 1, "i8": 1, "u8": 1, "i16": 2, "u16": 2, "i32": 4, "u32": 4, "i64": 8, "u64": 8,
    "fp16": 2, "bf16": 2, "fp32": 4, "f32": 4, "fp64": 8, "f64": 8,
}


class CompileError(Exception):
    """The kernel can't be compiled; the message is one sentence."""


@dataclasses.dataclass
class Compiled:
    """A compiled kernel. `record` and `binary_hash` as in docs/protocol.md;
    `spill_bytes` is local memory a thread."""

    cubin: bytes
    ttir: str
    ptx: str
    record: dict[str, Any]
    binary_hash: str
    registers: int
    spill_bytes: int


def load_autotuner(source: str, kernel_name: str) -> Any:
    """The CachingAutotuner that `source` defines as `kernel_name`, not compiled yet."""
    import torch
    from torch._inductor.codecache import PyCodeCache
    from torch._inductor.runtime import triton_helpers

    if not torch.cuda.is_available():
        triton_helpers.set_driver_to_gpu = lambda: None  # compiling needs no driver
    return getattr(PyCodeCache.load(source), kernel_name)


def compile_autotuner(autotuner: Any, config: dict[str, Any],
                      expected_hash: str = "") -> Compiled:
    """Compile `autotuner` in the one configuration given (docs/protocol.md), for
    the device its source names, and keep the result in it.

    Inductor compiles in its worker processes with torch's own ptxas where the
    torch wheel brings one, and in the parent (a rescaled reduction) with
    Triton's. Replacements are always made as the workers make them. With an
    `expected_hash`, the binary hash of a kernel that the compiler made, both
    are tried and the one that reproduces it is kept.

    Raises CompileError when Triton or ptxas refuse the kernel.
    """
    tools = [_torch_ptxas()]
    if expected_hash and tools[0]:
        tools.append("")
    first: Compiled | None = None
    for tool in tools:
        compiled = _compile(autotuner, config, tool)
        first = first or compiled
        if compiled.binary_hash == expected_hash:
            return compiled
    assert first is not None
    return first


def _compile(autotuner: Any, config: dict[str, Any], ptxas: str) -> Compiled:
    import triton

    maxnreg = config.get("maxnreg")
    if maxnreg:
        # Inductor drops a Config's maxnreg on the way to triton.compile.
        make_options = autotuner._create_compile_options

        def with_maxnreg(*args: Any) -> dict[str, Any]:
            return {**make_options(*args), "maxnreg": maxnreg}

        autotuner._create_compile_options = with_maxnreg
    autotuner.compile_results = []
    autotuner.configs = [
        triton.Config(dict(config["constexprs"]), num_warps=config["num_warps"],
                      num_stages=config["num_stages"], num_ctas=config.get("num_ctas") or 1)
    ]
    try:
        with _ptxas(ptxas):
            autotuner._precompile_worker()
    except Exception as error:  # Triton raises anything from AssertionError to its own types
        text = str(error).strip().splitlines() or [""]
        raise CompileError(f"{type(error).__name__}: {text[-1]}"[:500]) from error
    finally:
        if maxnreg:
            del autotuner._create_compile_options
    (result,) = autotuner.compile_results
    return describe(result)


def compile_ttir(path: str, config: dict[str, Any], capability: int) -> Compiled:
    """Compile the TTIR text in the file `path` (its name ends in .ttir) for a GPU of
    `capability` (90); of `config` num_warps, num_stages, num_ctas and maxnreg count.
    Triton's passes over TTIR are not run again. In the launch record `argument` is
    the index among the parameters of the text's function.

    Raises CompileError as compile_autotuner does.
    """
    import triton
    from triton.backends.compiler import GPUTarget

    options = {"num_warps": config["num_warps"], "num_stages": config["num_stages"],
               "num_ctas": config.get("num_ctas") or 1}
    if config.get("maxnreg"):
        options["maxnreg"] = config["maxnreg"]
    try:
        with _ptxas(_torch_ptxas()):
            kernel = triton.compile(path, target=GPUTarget("cuda", capability, 32),
                                    options=options)
    except Exception as error:  # as in _compile
        text = str(error).strip().splitlines() or [""]
        raise CompileError(f"{type(error).__name__}: {text[-1]}"[:500]) from error
    return _describe(kernel)


def _torch_ptxas() -> str:
    """What Inductor's compile workers use: TRITON_PTXAS_PATH, or the ptxas of the
    torch wheel; empty for Triton's own (torch/_inductor/runtime/compile_tasks.py)."""
    import torch

    named = os.environ.get("TRITON_PTXAS_PATH")
    if named is not None:
        return named
    path = os.path.join(os.path.dirname(torch.__file__), "bin", "ptxas")
    return path if os.access(path, os.X_OK) else ""


@contextlib.contextmanager
def _ptxas(path: str) -> Iterator[None]:
    """Triton uses the ptxas at `path` (empty: its own) while this is active. What
    Triton remembers of the tool's version names its cache, so it is forgotten."""
    from triton.backends.nvidia import compiler as nvidia

    def forget() -> None:
        for holder in (nvidia, nvidia.CUDABackend):
            for member in vars(holder).values():
                if callable(getattr(member, "cache_clear", None)):
                    member.cache_clear()

    before = os.environ.get("TRITON_PTXAS_PATH")
    if (before or "") == path:
        yield
        return
    if path:
        os.environ["TRITON_PTXAS_PATH"] = path
    else:
        os.environ.pop("TRITON_PTXAS_PATH", None)
    forget()
    try:
        yield
    finally:
        if before is None:
            os.environ.pop("TRITON_PTXAS_PATH", None)
        else:
            os.environ["TRITON_PTXAS_PATH"] = before
        forget()


def describe(result: Any) -> Compiled:
    """What a compile result of Inductor holds, before its launcher is made.

    `result.kernel` is Triton's CompiledKernel, or Inductor's statically
    launched kernel, which keeps the cubin as a file until it is loaded.
    """
    kernel = result.kernel
    asm = getattr(kernel, "asm", None)
    if asm is None:
        return _describe_static(kernel)
    return _describe(kernel)


def _describe(kernel: Any) -> Compiled:
    """The same for Triton's CompiledKernel."""
    asm = kernel.asm
    cubin = bytes(asm["cubin"])
    record = _launch_record(kernel.src, kernel.metadata, asm.get("ptx", ""))
    registers, spill_bytes = resource_usage(cubin, record["entry"])
    return Compiled(cubin, asm.get("ttir", ""), asm.get("ptx", ""), record,
                    binary_hash(cubin, record), registers, spill_bytes)


def _describe_static(kernel: Any) -> Compiled:
    """The same for torch's static launcher, from the files of Triton's cache."""
    import pathlib

    if getattr(kernel, "cubin_raw", None):
        cubin = bytes(kernel.cubin_raw)
    else:
        cubin = pathlib.Path(kernel.cubin_path).read_bytes()
    types = {"O": ("pointer", 8), "i": ("int", 4), "I": ("int", 4), "b": ("int", 1),
             "B": ("int", 1), "h": ("int", 2), "H": ("int", 2), "l": ("int", 8),
             "K": ("int", 8), "f": ("float", 4), "d": ("float", 8)}
    arguments = [i for i in range(len(kernel.arg_names)) if i not in set(kernel.full_constexprs)]
    parameters = []
    for index, code in zip(arguments, kernel.arg_tys, strict=True):
        kind, size = types[code]
        parameters.append(_parameter(kind, size, index))
    for present in (kernel.has_global_scratch, kernel.has_profile_scratch):
        if present:
            parameters.append(_parameter("scratch", 8, -1))
    record = {
        "entry": kernel.name, "parameters": parameters, "threads": kernel.num_warps * 32,
        "num_ctas": 1, "cluster": [1, 1, 1], "shared_bytes": kernel.shared, "cooperative": False,
    }
    registers, spill_bytes = resource_usage(cubin, record["entry"])
    return Compiled(cubin, "", "", record, binary_hash(cubin, record), registers, spill_bytes)


def _parameter(kind: str, size: int, argument: int, scratch_bytes: int = 0,
               scratch_alignment: int = 1) -> dict[str, Any]:
    return {"kind": kind, "size": size, "argument": argument, "scratch_bytes": scratch_bytes,
            "scratch_alignment": scratch_alignment}


def _signature(src: Any) -> list[tuple[int, str, str]]:
    """(index in the full argument list, name, type) of what the kernel is launched
    with; `src` is Triton's source of a function or of a text."""
    if not hasattr(src, "fn"):
        return [(index, f"number {index}", spelled)
                for index, spelled in enumerate(src.signature.values())]
    names = list(src.fn.arg_names)
    constants = set()
    for key in src.constants:
        constants.add(key[0] if isinstance(key, tuple) else
                      names.index(key) if isinstance(key, str) else key)
    signature = []
    for index, name in enumerate(names):
        spelled = src.signature.get(name, src.signature.get(index, "constexpr"))
        if spelled != "constexpr" and index not in constants:
            signature.append((index, name, spelled))
    return signature


def _launch_record(src: Any, metadata: Any, ptx: str) -> dict[str, Any]:
    parameters = []
    for index, name, spelled in _signature(src):
        if spelled.startswith("*"):
            parameters.append(_parameter("pointer", 8, index))
        elif spelled in _SCALAR_BYTES:
            kind = "float" if spelled.startswith(("f", "bf")) else "int"
            parameters.append(_parameter(kind, _SCALAR_BYTES[spelled], index))
        else:
            raise CompileError(f"argument {name} has type {spelled}, which can't be launched; "
                               "wanted a pointer or a scalar")
    for scratch in ("global_scratch", "profile_scratch"):
        if hasattr(metadata, scratch + "_size"):
            parameters.append(_parameter(
                "scratch", 8, -1, int(getattr(metadata, scratch + "_size") or 0),
                int(getattr(metadata, scratch + "_align", 1) or 1)))
    if ptx:
        found = ptx_parameter_count(ptx)
        if found != len(parameters):
            raise CompileError(f"the PTX takes {found} parameters where {len(parameters)} were "
                               "expected from the signature; this Triton version is not understood")
    num_ctas = int(metadata.num_ctas)
    cluster = list(getattr(metadata, "cluster_dims", None) or (num_ctas, 1, 1))
    return {
        "entry": metadata.name, "parameters": parameters, "threads": int(metadata.num_warps) * 32,
        "num_ctas": num_ctas, "cluster": cluster, "shared_bytes": int(metadata.shared),
        "cooperative": bool(getattr(metadata, "launch_cooperative_grid", False)),
    }


def ptx_parameter_count(ptx: str) -> int:
    """Parameters of the one `.entry` of a PTX text."""
    entry = ptx[ptx.index(".entry"):]
    return len(re.findall(r"^\s*\.param\s", entry[:entry.index("{")], re.MULTILINE))


def sections(elf: bytes) -> list[tuple[str, int, bytes]]:
    """(name, sh_info, bytes) of each section of a 64-bit little-endian ELF, in
    the order of its section table. Raises CompileError on anything else."""
    if elf[:6] != b"\x7fELF\x02\x01":
        raise CompileError("the compiled kernel is not a 64-bit ELF file")
    try:
        (offset,) = struct.unpack_from("<Q", elf, 0x28)
        entry_size, count, names_index = struct.unpack_from("<HHH", elf, 0x3A)
        headers = [struct.unpack_from("<IIQQQQIIQQ", elf, offset + i * entry_size)
                   for i in range(count)]
        names = elf[headers[names_index][4]:headers[names_index][4] + headers[names_index][5]]
        found = []
        for name, kind, _, _, start, size, _, info, _, _ in headers:
            text = names[name:names.index(b"\0", name)].decode("ascii", "replace")
            found.append((text, info, b"" if kind == 8 else elf[start:start + size]))
        return found
    except (struct.error, IndexError, ValueError) as error:
        raise CompileError("the compiled kernel's ELF file is damaged") from error


def binary_hash(cubin: bytes, record: dict[str, Any]) -> str:
    """SHA-256 over code, constants and launch record; names are left out, so
    that the same kernel under another name has the same hash."""
    digest = hashlib.sha256()
    for name, _, data in sections(cubin):
        if name.startswith((".text", ".nv.constant")):
            digest.update(struct.pack("<Q", len(data)))
            digest.update(data)
    shape = {key: value for key, value in record.items() if key != "entry"}
    digest.update(json.dumps(shape, sort_keys=True, separators=(",", ":")).encode())
    return digest.hexdigest()


def resource_usage(cubin: bytes, entry: str) -> tuple[int, int]:
    """(registers a thread, local memory bytes a thread) of a cubin with one kernel."""
    registers = frame = 0
    for name, info, data in sections(cubin):
        if name == ".text." + entry:
            registers = max(registers, info >> 24)
        if name != ".nv.info":
            continue
        at = 0
        while at + 4 <= len(data):
            kind, attribute, size = struct.unpack_from("<BBH", data, at)
            at += 4
            if kind != 4:  # not EIFMT_SVAL: the value sits in the size field
                continue
            if size == 8:
                _, value = struct.unpack_from("<II", data, at)
                if attribute == _EIATTR_REGCOUNT:
                    registers = max(registers, value)
                elif attribute == _EIATTR_FRAME_SIZE:
                    frame = max(frame, value)
            at += size
    return registers, frame
