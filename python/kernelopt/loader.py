"""Swap proven kernels in while torch.compile loads a generated module.

For each generated module the program's `resolve` command says which kernels
the pack replaces and with which source; nothing about keys or splicing is
repeated here. A kernel is swapped only when its module is one that the pack
was proven in, its source is the one that was resolved, and the binary that
the replacement compiles to here has the hash that was judged. Anything else
gives the compiler's kernel, and `stats()` says why.
"""
from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import subprocess
import sys
import threading
import warnings
from typing import Any, Callable

from . import inductor_hooks, kernels

_RESOLVE_SECONDS = 60


class PackError(RuntimeError):
    """The pack is not used; the message is one sentence. `reason` is a code."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


def program() -> str:
    """Path of the kernelopt program: beside the package, or in a source tree."""
    named = os.environ.get("KERNELOPT_BINARY")
    here = os.path.dirname(os.path.abspath(__file__))
    for path in (named, os.path.join(here, "bin", "kernelopt"),
                 os.path.join(here, "..", "..", "kernelopt")):
        if path and os.access(path, os.X_OK) and os.path.isfile(path):
            return path
    raise PackError("no_program", "the kernelopt program is not beside the Python package; "
                    "install the wheel or set KERNELOPT_BINARY")


def ask_program(*args: str) -> dict[str, Any]:
    """One JSON answer of the program. Raises PackError."""
    try:
        done = subprocess.run([program(), *args], capture_output=True, text=True,
                              stdin=subprocess.DEVNULL, timeout=_RESOLVE_SECONDS)
        return json.loads(done.stdout.strip().splitlines()[-1])
    except (OSError, subprocess.TimeoutExpired, IndexError, ValueError) as error:
        raise PackError("no_answer", f"kernelopt {args[0]} gave no answer "
                        f"({type(error).__name__}); the compiler's kernels are used") from error


@dataclasses.dataclass
class Swap:
    """One kernel that runs in place of the compiler's."""

    pack: str
    module: str
    kernel: str
    key: str


@dataclasses.dataclass
class Miss:
    """One kernel of the pack's reach that stayed the compiler's, and why."""

    pack: str
    module: str
    kernel: str
    key: str
    reason: str
    message: str = ""


class PackObserver(inductor_hooks.ModuleObserver):
    """Serves one pack to every generated module."""

    def __init__(self, path: str, manifest: dict[str, Any]) -> None:
        self.path = path
        self.manifest = manifest
        self.swaps: list[Swap] = []
        self.misses: list[Miss] = []
        self.enabled = True
        self._gpu_problem: str | None = None
        #: Verify mode: called with (kernel, key, original, replacement), gives what is used.
        self.wrap: Callable[[str, str, Any, Any], Any] | None = None
        self._resolved: dict[str, dict[str, Any]] = {}
        self._local = threading.local()

    @property
    def gpu_problem(self) -> str:
        """Why this GPU is not the pack's. Asked first while a module loads, when
        CUDA is up anyway: `load` itself must not start CUDA before a fork."""
        if self._gpu_problem is None:
            self._gpu_problem = _gpu_mismatch(self.manifest["gpu"])
        return self._gpu_problem

    def loading(self, path: str, text: str) -> None:
        self._local.kernels = {}
        self._local.module = ""
        if not self.enabled:
            return
        digest = hashlib.sha256(text.encode()).hexdigest()
        if digest not in self._resolved:
            try:
                self._resolved[digest] = ask_program("resolve", self.path, path, "--json")
            except PackError as error:
                self._resolved[digest] = {"module_key": "", "matched": False, "kernels": [],
                                          "reason": error.reason, "message": str(error)}
        found = self._resolved[digest]
        self._local.module = found["module_key"]
        if not found["matched"]:
            self._miss("", "", found["reason"], found.get("message", ""))
            return
        self._local.kernels = {k["name"]: k for k in found["kernels"]}

    def loaded(self, module: Any, path: str, text: str) -> None:
        self._local.kernels = {}

    def triton(self, kernel_name: str, source: str,
               original: Callable[[], Any]) -> Any | None:
        entry = getattr(self._local, "kernels", {}).get(kernel_name)
        if entry is None or not self.enabled:
            return None
        if entry.get("source") is None:
            if entry.get("reason") != "kernel_not_replaced":
                self._miss(kernel_name, entry["key"], entry.get("reason", "no_source"))
            return None
        reason = self._refusal(entry, source)
        if reason:
            self._miss(kernel_name, entry["key"], reason, self.gpu_problem)
            return None
        try:
            autotuner = kernels.load_autotuner(entry["source"], kernel_name)
            compiled = kernels.compile_autotuner(autotuner, entry["config"])
            if compiled.binary_hash != entry["binary_hash"]:
                self._miss(kernel_name, entry["key"], "binary_differs",
                           f"it compiles to {compiled.binary_hash[:12]} here, "
                           f"{entry['binary_hash'][:12]} was judged")
                return None
            autotuner.precompile()
            used = autotuner
            if self.wrap is not None:
                used = self.wrap(kernel_name, entry["key"], original(), autotuner)
        except Exception as error:  # whatever fails, the compiler's kernel stays
            self._miss(kernel_name, entry["key"], "swap_failed",
                       f"{type(error).__name__}: {error}"[:300])
            return None
        self.swaps.append(Swap(self.path, self._local.module, kernel_name, entry["key"]))
        return used

    def _refusal(self, entry: dict[str, Any], source: str) -> str:
        if self.gpu_problem:
            return "wrong_gpu"
        disabled = os.environ.get("KERNELOPT_DISABLE", "")
        if disabled == "1" or entry["key"] in disabled.split(","):
            return "disabled"
        if hashlib.sha256(source.encode()).hexdigest() != entry["source_sha256"]:
            return "source_differs"
        return ""

    def _miss(self, kernel: str, key: str, reason: str, message: str = "") -> None:
        self.misses.append(Miss(self.path, self._local.module, kernel, key, reason, message))


_packs: list[PackObserver] = []


def load(path: str, *, allow_preview: bool = False) -> PackObserver:
    """Put the pack at `path` to use for every torch.compile from now on.

    The pack is checked first: every file against its hash, every kernel by the
    static gate. A pack stamped `preview` (made with gates that are not in full
    strength) is refused unless `allow_preview`, or KERNELOPT_ALLOW_PREVIEW=1.

    Raises PackError with a reason code when the pack can't be used at all. A
    pack of another GPU loads and swaps nothing; `stats()` says so.
    """
    path = os.path.abspath(path)
    checked = ask_program("check-pack", path, "--json")
    if not checked.get("ok"):
        raise PackError(checked.get("reason", "bad_pack"),
                        checked.get("message", "the pack can't be used"))
    manifest = checked["manifest"]
    if manifest.get("preview") and not (
            allow_preview or os.environ.get("KERNELOPT_ALLOW_PREVIEW") == "1"):
        raise PackError("preview", f"{path}: the pack is a preview, made before all gates had "
                        "their full strength; pass allow_preview=True to use it all the same")
    for pack in _packs:
        if pack.path == path and pack.manifest == manifest:
            return pack
    observer = PackObserver(path, manifest)
    if _already_compiled():
        warnings.warn("kernelopt.load was called after a model was compiled: what is compiled "
                      "already keeps the compiler's kernels", stacklevel=3)
    inductor_hooks.add_observer(observer)
    _packs.append(observer)
    return observer


def unload() -> None:
    """Take all packs out; models compiled from now on have the compiler's kernels."""
    for pack in list(_packs):
        inductor_hooks.remove_observer(pack)
        _packs.remove(pack)


def stats() -> dict[str, Any]:
    """What was swapped and what was not, as data: {"packs", "swapped", "misses"}."""
    return {
        "packs": [p.path for p in _packs],
        "swapped": [dataclasses.asdict(s) for p in _packs for s in p.swaps],
        "misses": [dataclasses.asdict(m) for p in _packs for m in p.misses],
    }


def _already_compiled() -> bool:
    codecache = sys.modules.get("torch._inductor.codecache")
    return codecache is not None and bool(codecache.PyCodeCache.modules)


def _gpu_mismatch(wanted: dict[str, Any]) -> str:
    """Why this GPU is not the pack's; empty when it is."""
    import torch

    if not torch.cuda.is_available():
        return "there is no GPU here"
    here = torch.cuda.get_device_properties(torch.cuda.current_device())
    found = {"name": here.name, "compute_capability": here.major * 10 + here.minor,
             "sm_count": here.multi_processor_count}
    for field, value in found.items():
        if wanted.get(field) != value:
            return f"the pack is for {field} {wanted.get(field)}, this GPU has {value}"
    return ""
