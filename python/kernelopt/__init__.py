"""KernelOPT: put proven kernels into a torch.compile'd model.

    import kernelopt
    kernelopt.load("model.kopt")       # before the first call of the model
    compiled = torch.compile(model)    # plain torch.compile from here on
    kernelopt.stats()                  # what was swapped, and each miss with its reason

Importing the package needs no torch; `load` does.
"""
from __future__ import annotations

__version__ = "0.1.0"
