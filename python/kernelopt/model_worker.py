"""The model worker: torch and the user's model, behind docs/protocol.md.

Run as `python -m kernelopt.model_worker` by the program; not for people.
"""
from __future__ import annotations

from . import framing

framing.take_streams()  # before torch or the model can print on standard output

import os  # noqa: E402

# Whether there is a GPU is asked of NVML, which leaves CUDA untouched before a fork.
os.environ.setdefault("PYTORCH_NVML_BASED_CUDA_CHECK", "1")

import json  # noqa: E402
import sys  # noqa: E402
from typing import Any  # noqa: E402

from .framing import JobError, Progress  # noqa: E402

OLDEST_TORCH = (2, 9)


def _import_torch() -> Any:
    try:
        import torch
    except ImportError as error:
        raise JobError("environment", "torch_missing", f"{sys.executable} has no torch "
                       f"({error}); name a Python that has torch 2.9 or newer with --python"
                       ) from error
    version = tuple(int(p) for p in torch.__version__.split("+")[0].split(".")[:2])
    if version < OLDEST_TORCH:
        raise JobError("environment", "torch_too_old", f"torch {torch.__version__} was found, "
                       "wanted 2.9 to 2.14; install a newer torch or name another Python with "
                       "--python")
    return torch


def hello(params: dict[str, Any]) -> dict[str, Any]:
    torch = _import_torch()
    import triton

    device = _device_of_a_fork()
    return {"torch": torch.__version__, "triton": triton.__version__,
            "python": sys.version.split()[0], "cuda": device is not None, "device": device,
            "problem": None if device else "no_gpu"}


def _device_of_a_fork() -> dict[str, Any] | None:
    """The GPU's facts, asked in a forked child: this process may fork the sides of
    gate 4 later, and CUDA does not survive a fork."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            import torch

            from .capture import device_facts

            facts = device_facts() if torch.cuda.is_available() else None
            os.write(writer, json.dumps(facts).encode())
        finally:
            os._exit(0)  # nothing of the parent's may run twice
    os.close(writer)
    with os.fdopen(reader) as answer:
        text = answer.read()
    os.waitpid(child, 0)
    return json.loads(text) if text else None


def _source(params: dict[str, Any]) -> Any:
    _import_torch()
    from .model import ModelSource

    return ModelSource(params["model"]["file"], params["model"].get("entry", ""))


def _need_gpu() -> None:
    import torch

    if not torch.cuda.is_available():
        raise JobError("environment", "no_gpu", "torch sees no CUDA GPU; run on a machine with "
                       "an NVIDIA GPU and a CUDA build of torch")


def capture(params: dict[str, Any], progress: Progress) -> dict[str, Any]:
    source = _source(params)
    _need_gpu()
    from .capture import capture as run
    from .model import Variant

    variants = [Variant(**v) for v in params["variants"]]
    return {"capture": run(source, variants, params["out_dir"], progress)}


def check(params: dict[str, Any], progress: Progress) -> dict[str, Any]:
    source = _source(params)
    _need_gpu()
    from .model import Variant
    from .model_check import check as run

    return run(source, Variant(**params["variant"]), params["pack"], params["seeds"], progress)


def time(params: dict[str, Any], progress: Progress) -> dict[str, Any]:
    # torch is imported here once; CUDA is only touched by the forked sides. Not even
    # its compiler is imported before the fork: that counts devices, after which
    # torch refuses CUDA in a forked child.
    _import_torch()
    from .model_timing import time_model

    return time_model(params["model"], params["variant"], params["pack"], params["pairs"],
                      params["blocks"], progress)


def noise(params: dict[str, Any], progress: Progress) -> dict[str, Any]:
    _import_torch()
    from .model_timing import noise as run

    return {"samples_us": run(params["processes"], progress)}


if __name__ == "__main__":
    sys.exit(framing.serve(
        {"capture": capture, "check": check, "time": time, "noise": noise}, hello=hello))
