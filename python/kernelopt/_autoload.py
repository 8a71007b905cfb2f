"""Loads the pack that KERNELOPT_PACK names, in every process that starts.

Imported by kernelopt.pth of the wheel when the variable is set. torch is not
imported here: a hook waits for torch._inductor, so that programs that never
compile pay nothing. A pack that can't be used is said once on standard error;
the program runs on with the compiler's kernels.
"""
from __future__ import annotations

import importlib.abc
import importlib.machinery
import os
import sys
from typing import Any

_TRIGGER = "torch._inductor.codecache"


class _Finder(importlib.abc.MetaPathFinder):
    """Loads the pack right after Inductor's code cache was imported."""

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
        if fullname != _TRIGGER:
            return None
        sys.meta_path.remove(self)
        spec = importlib.machinery.PathFinder.find_spec(fullname, path)
        if spec is None or spec.loader is None:
            return spec
        execute = spec.loader.exec_module

        def execute_then_load(module: Any) -> None:
            execute(module)
            _load()

        spec.loader.exec_module = execute_then_load  # type: ignore[method-assign]
        return spec


def _load() -> None:
    from .loader import PackError, load

    try:
        load(os.environ["KERNELOPT_PACK"])
    except PackError as error:
        print(f"kernelopt: {error}", file=sys.stderr)


if os.environ.get("KERNELOPT_PACK"):
    sys.meta_path.insert(0, _Finder())
