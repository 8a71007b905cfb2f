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
import re  # noqa: E402
import sys  # noqa: E402
from typing import Any  # noqa: E402

from .framing import JobError, Progress, one_sentence  # noqa: E402

OLDEST_TORCH = (2, 9)


def _import_torch() -> Any:
    try:
        import torch
    except ImportError as error:
        raise JobError("environment", "torch_missing", f"{sys.executable} has no torch "
                       f"({error}); name a Python that has torch 2.9 or newer with --python"
                       ) from error
    except BaseException as error:
        raise JobError("environment", "torch_missing", f"{sys.executable} can't import torch "
                       f"({one_sentence(error)}); mend it, or name another Python with --python"
                       ) from error
    found = str(getattr(torch, "__version__", "without a version"))
    digits = re.match(r"(\d+)\.(\d+)", found)
    if digits is None or (int(digits[1]), int(digits[2])) < OLDEST_TORCH:
        raise JobError("environment", "torch_too_old", f"torch {found} was found, "
                       "wanted 2.9 to 2.14; install a newer torch or name another Python with "
                       "--python")
    return torch


def hello(params: dict[str, Any]) -> dict[str, Any]:
    torch = _import_torch()
    try:
        import triton
    except BaseException as error:
        raise JobError("environment", "triton_missing", f"{sys.executable} can't import triton "
                       f"({one_sentence(error)}), which torch.compile needs on a GPU; install "
                       "triton there or name another Python with --python") from error
    return {"torch": torch.__version__, "triton": triton.__version__,
            "python": sys.version.split()[0]}


def prepare(params: dict[str, Any], progress: Progress) -> dict[str, Any]:
    """Imports what compiling a model takes: seconds, which a later request saves."""
    _import_torch()
    import torch._inductor.compile_fx  # noqa: F401

    from . import capture, loader, model_check  # noqa: F401

    return {}


def device(params: dict[str, Any], progress: Progress) -> dict[str, Any]:
    _import_torch()
    facts = _device_of_a_fork()
    return {"cuda": facts is not None, "device": facts, "problem": None if facts else "no_gpu"}


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


#: Settings under which there is nothing to record, or something that is not read.
_SWITCHES = {
    "TORCH_COMPILE_DISABLE": "torch.compile compiles nothing",
    "TORCHDYNAMO_DISABLE": "torch.compile compiles nothing",
    "TRITON_INTERPRET": "kernels run in Triton's interpreter, where times mean nothing",
    "TORCHINDUCTOR_CPP_WRAPPER": "the compiler writes C++, where Python modules are read",
}


def _check_settings() -> None:
    """Raises JobError for a setting of the user's that would spoil the run."""
    for name, meaning in _SWITCHES.items():
        if os.environ.get(name, "") not in ("", "0", "false", "False"):
            raise JobError("environment", "switched_off", f"with ${name} set {meaning}; unset it "
                           "and run again")
    for name in ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR"):
        folder = os.environ.get(name)
        if not folder:
            continue
        try:
            os.makedirs(folder, exist_ok=True)
            writable = os.access(folder, os.W_OK | os.X_OK)
        except OSError:
            writable = False
        if not writable:
            raise JobError("environment", "not_writable", f"${name} names a folder that can't be "
                           "written; name another or unset it", folder)


def _source(params: dict[str, Any]) -> Any:
    _check_settings()
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
    # What the sides need is imported here once; CUDA is only touched by them, after
    # the fork. Importing must not count devices through CUDA (see the top).
    _check_settings()
    prepare(params, progress)
    from .model_timing import time_model

    return time_model(params["model"], params["variant"], params["pack"], params["measurements"],
                      params["pairs"], params["blocks"], progress)


def noise(params: dict[str, Any], progress: Progress) -> dict[str, Any]:
    _import_torch()
    from .model_timing import noise as run

    return {"samples_us": run(params["processes"], progress)}


if __name__ == "__main__":
    sys.exit(framing.serve(
        {"prepare": prepare, "device": device, "capture": capture, "check": check, "time": time, "noise": noise},
        hello=hello))
