"""Record what a compiled model does: one ordered event list a graph.

A Recorder observes generated modules as they are loaded and wraps three things
in each: its `call` (one graph run), its allocators, and, at class level, the
autotuner's `run` (one launch). Library calls are seen by a TorchDispatchMode
that is active only inside `call`, so torch.compile itself never runs under it.

Storages are told apart by identity, so that aliasing is exact: a storage gets
an id when it is allocated or first seen, and loses its address (never its id)
when its last tensor dies.
"""
from __future__ import annotations

import contextlib
import hashlib
import math
import os
import weakref
from typing import Any, Callable, Iterator

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from . import kernels
from .inductor_hooks import ModuleObserver

#: Contents of integer and bool storages are kept up to this many bytes.
CONTENTS_LIMIT = 16 << 20

_DTYPES = {
    torch.float16: "fp16", torch.bfloat16: "bf16", torch.float32: "fp32", torch.float64: "fp64",
    torch.int8: "i8", torch.uint8: "u8", torch.int16: "i16", torch.int32: "i32",
    torch.int64: "i64", torch.bool: "i1",
}

#: Operators that only look: no event.
_SILENT = ("aten.detach", "aten.view", "aten.as_strided", "aten.alias", "aten.t.", "aten.permute",
           "aten.expand", "aten.unsqueeze", "aten.squeeze", "aten.slice", "aten.select",
           "aten.empty", "aten.empty_strided", "aten.transpose", "aten._unsafe_view",
           "aten._reshape_alias")


def dtype_name(dtype: torch.dtype) -> str:
    """Triton's spelling; other types keep torch's ("torch.complex64")."""
    return _DTYPES.get(dtype, str(dtype))


class Recorder(ModuleObserver):
    """Collects modules always, and events while `recording` is true."""

    def __init__(self, blob_folder: str) -> None:
        self.blob_folder = blob_folder
        self.modules: dict[str, str] = {}  # SHA-256 -> text
        self.graphs: list[dict[str, Any]] = []
        self.storages: list[dict[str, Any]] = []
        self.recording = False
        self.launched: list[tuple[dict[str, Any], Any, tuple[Any, ...]]] = []
        self._ids: dict[int, int] = {}  # address of the StorageImpl -> storage id
        self._live: dict[int, int] = {}  # storage id -> tensors seen alive
        self._known: dict[int, str] = {}  # address of the data -> parameter | buffer | input
        self._events: list[dict[str, Any]] | None = None

    # ---- what the caller says

    def name_storages(self, kind: str, tensors: list[torch.Tensor]) -> None:
        """Says what the storages of these tensors are: parameter, buffer, input."""
        for tensor in tensors:
            if tensor.device.type == "cuda":
                self._known[tensor.untyped_storage().data_ptr()] = kind

    @contextlib.contextmanager
    def patched(self) -> Iterator[None]:
        """While active, launches of Inductor's autotuner are seen."""
        from torch._inductor.runtime.triton_heuristics import CachingAutotuner

        run = CachingAutotuner.run
        recorder = self

        def recorded_run(autotuner: Any, *args: Any, **kwargs: Any) -> Any:
            if recorder._events is None:
                return run(autotuner, *args, **kwargs)
            event = recorder._launch_event(autotuner, args)
            with torch._C._DisableTorchDispatch():
                result = run(autotuner, *args, **kwargs)
            recorder._events.append(event)
            # A grid is made of scalars alone; a kept tensor would change what is freed.
            scalars = tuple(None if isinstance(a, torch.Tensor) else a for a in args)
            recorder.launched.append((event, autotuner, scalars))
            return result

        CachingAutotuner.run = recorded_run
        try:
            yield
        finally:
            CachingAutotuner.run = run

    # ---- what Inductor's hooks say

    def loaded(self, module: Any, path: str, text: str) -> None:
        name = hashlib.sha256(text.encode()).hexdigest()
        self.modules[name] = text
        if getattr(module, "_kernelopt_recorder", None) is self:
            return
        module._kernelopt_recorder = self
        phase = "inference"
        first = text.split("\n", 1)[0]
        for candidate in ("forward", "backward"):
            if first.startswith("# AOT ID") and candidate in first:
                phase = candidate
        call = module.call
        for allocator in ("empty_strided_cuda", "reinterpret_tensor"):
            if hasattr(module, allocator):
                setattr(module, allocator, self._allocator(allocator, getattr(module, allocator)))

        def recorded_call(args: Any) -> Any:
            if not self.recording or self._events is not None:
                return call(args)
            self._events = []
            self.graphs.append({"module": name, "phase": phase, "events": self._events})
            try:
                with _ExternMode(self):
                    outputs = call(args)
                self._events.append({"kind": "return",
                                     "arguments": [self._argument(o) for o in outputs]})
                return outputs
            finally:
                self._events = None

        module.call = recorded_call

    # ---- events

    def _allocator(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def allocate(*args: Any, **kwargs: Any) -> Any:
            tensor = function(*args, **kwargs)
            if self._events is not None:
                if name == "empty_strided_cuda":
                    self._ids.pop(tensor.untyped_storage()._cdata, None)
                    self._events.append({"kind": "alloc", "storage": self._storage(tensor)})
                else:
                    self._storage(tensor)
            return tensor

        return allocate

    def _storage(self, tensor: torch.Tensor) -> int:
        storage = tensor.untyped_storage()
        address = storage._cdata
        known = self._ids.get(address)
        if known is None:
            known = len(self.storages)
            self._ids[address] = known
            kind = self._known.get(storage.data_ptr(), "intermediate")
            self.storages.append({"id": known, "bytes": storage.nbytes(), "kind": kind})
        self._live[known] = self._live.get(known, 0) + 1
        weakref.finalize(tensor, self._died, known, address).atexit = False
        return known

    def _died(self, storage: int, address: int) -> None:
        self._live[storage] -= 1
        if self._live[storage] == 0 and self.storages[storage]["kind"] == "intermediate":
            if self._ids.get(address) == storage:
                del self._ids[address]
            if self._events is not None:
                self._events.append({"kind": "free", "storage": storage})

    def _argument(self, value: Any, observe: bool = False) -> dict[str, Any]:
        if isinstance(value, torch.Tensor):
            if value.device.type != "cuda":
                return {"other": f"tensor on {value.device.type}"}
            described = {"storage": self._storage(value), "dtype": dtype_name(value.dtype),
                         "size": list(value.size()), "stride": list(value.stride()),
                         "offset": value.storage_offset()}
            if observe:
                described.update(self._observe(value))
            return {"tensor": described}
        if isinstance(value, bool):
            return {"bool": value}
        if isinstance(value, int):
            return {"int": value}
        if isinstance(value, float):
            return {"float": value} if math.isfinite(value) else {"other": str(value)}
        if value is None:
            return {"none": True}
        return {"other": str(value)[:200]}

    def _observe(self, tensor: torch.Tensor) -> dict[str, Any]:
        """Range of a tensor's values; contents of small integer storages."""
        if tensor.numel() == 0 or tensor.dtype not in _DTYPES:
            return {}
        with torch._C._DisableTorchDispatch(), torch.no_grad():
            if tensor.dtype.is_floating_point:
                return _float_range(tensor)
            low, high = tensor.to(torch.int8 if tensor.dtype == torch.bool else tensor.dtype
                                  ).aminmax()
            found: dict[str, Any] = {"low": int(low), "high": int(high), "nonfinite": False}
            storage = tensor.untyped_storage()
            if storage.nbytes() <= CONTENTS_LIMIT:
                whole = torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(storage)
                data = whole.cpu().numpy().tobytes()
                name = hashlib.sha256(data).hexdigest()
                path = os.path.join(self.blob_folder, name)
                if not os.path.exists(path):
                    with open(path, "wb") as file:
                        file.write(data)
                found["contents"] = name
            return found

    def _launch_event(self, autotuner: Any, args: tuple[Any, ...]) -> dict[str, Any]:
        return {"kind": "launch",
                "name": autotuner.inductor_meta.get("kernel_name", autotuner.fn.__name__),
                "arguments": [self._argument(a, observe=True) for a in args]}

    def extern_event(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any],
                     result: Any) -> None:
        """A library call, a copy or a fill that ran inside a graph."""
        if self._events is None:
            return
        flat = [*args, *kwargs.values()]
        if name.startswith("aten.copy_"):
            event = {"kind": "copy", "arguments": [self._argument(a) for a in flat[:2]]}
        elif name.startswith("aten.zero_") and isinstance(args[0], torch.Tensor):
            event = {"kind": "zero", "storage": self._storage(args[0])}
        else:
            from torch.utils import _pytree as pytree

            leaves = pytree.tree_leaves((flat, result))
            event = {"kind": "extern", "name": name,
                     "arguments": [self._argument(a) for a in leaves], "device_us": 0.0}
        self._events.append(event)

    def finish_launches(self) -> None:
        """Fills grid, configuration and binary hash of each launch, once the
        compiler's autotuning is over."""
        described: dict[int, tuple[dict[str, int], str]] = {}
        for event, autotuner, scalars in self.launched:
            (launcher,) = autotuner.launchers
            config = launcher.config
            _, grid = autotuner._interpret_args_grid(scalars, config)
            event["grid"] = [int(g) for g in grid]
            if id(autotuner) not in described:
                described[id(autotuner)] = (
                    {**{k: int(v) for k, v in config.kwargs.items()},
                     "num_warps": config.num_warps, "num_stages": config.num_stages},
                    loaded_binary_hash(autotuner))
            event["config"], event["binary_hash"] = described[id(autotuner)]
            event["device_us"] = 0.0
        self.launched = []


def loaded_binary_hash(autotuner: Any) -> str:
    """Binary hash of the one launcher left in an autotuner; "" if its binary is
    out of reach."""
    (launcher,) = autotuner.launchers
    for result in autotuner.compile_results:
        if _same_config(result.config, launcher.config):
            try:
                return kernels.describe(result).binary_hash
            except (kernels.CompileError, OSError, TypeError, AttributeError):
                return ""
    return ""


def _same_config(a: Any, b: Any) -> bool:
    return (a.kwargs, a.num_warps, a.num_stages) == (b.kwargs, b.num_warps, b.num_stages)


def _float_range(tensor: torch.Tensor) -> dict[str, Any]:
    low, high = tensor.aminmax()
    bounds = torch.stack([low.double(), high.double()])
    nonfinite = not bool(torch.isfinite(bounds).all())
    if nonfinite:
        finite = tensor[torch.isfinite(tensor)]
        if finite.numel() == 0:
            return {"nonfinite": True}
        low, high = finite.aminmax()
        bounds = torch.stack([low.double(), high.double()])
    low_value, high_value = bounds.tolist()
    return {"low": low_value, "high": high_value, "nonfinite": nonfinite}


class _ExternMode(TorchDispatchMode):
    """Tells the recorder of every operator that runs inside a graph's call."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()
        self._recorder = recorder

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (),
                           kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        name = str(func)
        if not name.startswith(_SILENT):
            self._recorder.extern_event(name, args, kwargs or {}, result)
        return result
