"""KernelOPT: put proven kernels into a torch.compile'd model.

    import kernelopt
    kernelopt.load("model.kopt")       # before the first call of the model
    compiled = torch.compile(model)    # plain torch.compile from here on
    kernelopt.stats()                  # what was swapped, and each miss with its reason

Importing the package needs no torch; `load` does. KERNELOPT_PACK=model.kopt in
the environment does the same without an import, also in spawned processes;
KERNELOPT_DISABLE=1 (or kernel keys, comma-separated) keeps the compiler's kernels.
"""
from __future__ import annotations

from .loader import PackError, load, stats, unload

__version__ = "0.1.0"
__all__ = ["PackError", "load", "stats", "unload"]
