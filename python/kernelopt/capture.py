"""Compile the user's model, run it, and write down what it did: capture.json.

Nothing of the user's changes: parameters, buffers, training flags, gradients
and random state are put back, files are only read. Caches are those of the
process (the model worker points them into the run folder).
"""
from __future__ import annotations

import contextlib
import hashlib
import json
import os
import statistics
import sys
import time
from typing import Any, Callable

import torch

from . import inductor_hooks
from .framing import JobError, one_sentence
from .model import (Built, ModelSource, StateGuard, Variant, compile_model, prepare_gradients, run,
                    tensors, where)
from .recorder import Recorder

SCHEMA = 1

#: Modes in which the compiled model is a captured CUDA graph after its first calls.
_GRAPH_MODES = ("reduce-overhead", "max-autotune")


def device_facts(index: int = 0) -> dict[str, Any]:
    """The GPU, as torch reports it."""
    p = torch.cuda.get_device_properties(index)
    return {"name": p.name, "uuid": str(getattr(p, "uuid", "")), "mig": os.environ.get(
        "NVIDIA_MIG_PROFILE", ""), "compute_capability": p.major * 10 + p.minor,
        "sm_count": p.multi_processor_count, "l2_bytes": getattr(p, "L2_cache_size", 0),
        "memory_bytes": p.total_memory}


def capture(source: ModelSource, variants: list[Variant], folder: str,
            progress: Callable[[str], None]) -> str:
    """Writes FOLDER/capture.json, modules/ and blobs/; returns the file's path.

    Raises JobError of kind model when the model itself fails.
    """
    for sub in ("", "modules", "blobs"):
        os.makedirs(os.path.join(folder, sub), exist_ok=True)
    recorded = []
    modules: dict[str, str] = {}
    for number, variant in enumerate(variants):
        label = f" ({number + 1} of {len(variants)}: {variant.mode})" if len(variants) > 1 else ""
        recorded.append(_capture_variant(source, variant, folder, modules,
                                         lambda text, label=label: progress(text + label)))
    for name, text in modules.items():
        with open(os.path.join(folder, "modules", name + ".py"), "w", encoding="utf-8") as file:
            file.write(text)
    with open(source.file, "rb") as file:
        model_hash = hashlib.sha256(file.read()).hexdigest()
    import triton

    record = {
        "schema": SCHEMA, "torch": torch.__version__, "triton": triton.__version__,
        "python": sys.version.split()[0], "device": device_facts(),
        "model": {"file": os.path.basename(source.file), "sha256": model_hash,
                  "entry": source.entry},
        "modules": sorted(modules), "variants": recorded,
    }
    path = os.path.join(folder, "capture.json")
    with open(path + ".tmp", "w", encoding="utf-8") as file:
        json.dump(record, file, indent=None, separators=(",", ":"), allow_nan=False)
    os.replace(path + ".tmp", path)
    return path


def _capture_variant(source: ModelSource, variant: Variant, folder: str,
                     modules: dict[str, str], progress: Callable[[str], None]) -> dict[str, Any]:
    progress("building the model")
    built = source.build(input_set=variant.input_set)
    guard = StateGuard(built.module)
    progress("running it without the compiler")
    try:
        call_safely(source, built.module, built, variant, "running the model")
        eager_us = measure_call(lambda: run(source, built.module, built, variant))
    finally:
        guard.restore()
    recorder = Recorder(os.path.join(folder, "blobs"))
    if isinstance(built.module, torch.nn.Module):
        recorder.name_storages("parameter", list(built.module.parameters()))
        recorder.name_storages("buffer", list(built.module.buffers()))
    recorder.name_storages("input", tensors((built.args, built.kwargs)))
    progress("compiling it")
    torch._dynamo.reset()
    inductor_hooks.forget_loaded_modules()
    torch._dynamo.utils.counters.clear()
    try:
        with inductor_hooks.observing(recorder), recorder.patched(), plain_launcher():
            compiled = compile_model(built.module, variant)
            graph_mode = variant.mode.startswith(_GRAPH_MODES) and "no-cudagraphs" not in (
                variant.mode)
            if not graph_mode:
                call_safely(source, compiled, built, variant, "running the compiled model")
                guard.restore()
                progress("recording a call")
            # Under CUDA graphs only the first call still launches kernel by kernel.
            recorder.recording = True
            call_safely(source, compiled, built, variant, "running the compiled model")
            recorder.recording = False
            torch.cuda.synchronize()
            recorder.finish_launches()
        breaks = sum(torch._dynamo.utils.counters["graph_break"].values())
        guard.restore()
        progress("timing it")
        compiled_us = measure_call(lambda: run(source, compiled, built, variant))
        device_us = profile_launches(lambda: run(source, compiled, built, variant),
                                     recorder.graphs)
    finally:
        guard.restore()
    modules.update(recorder.modules)
    return {"mode": variant.mode, "train": variant.train, "input_set": variant.input_set,
            "graph_breaks": breaks, "compiled_us": compiled_us, "eager_us": eager_us,
            "device_us": device_us, "storages": recorder.storages, "graphs": recorder.graphs}


def call_safely(source: ModelSource, fn: Any, built: Built, variant: Variant,
                doing: str) -> Any:
    """One call; the model's own failure becomes a JobError of one sentence."""
    try:
        prepare_gradients(built, variant)
        output = run(source, fn, built, variant)
        torch.cuda.synchronize()
        return output
    except JobError:
        raise
    except torch.cuda.OutOfMemoryError as error:
        raise JobError("environment", "out_of_memory", f"{doing} needs more GPU memory than is "
                       "free; close other programs or use smaller inputs",
                       source.file) from error
    except BaseException as error:
        raise JobError("model", "forward_raises", f"{doing} raises {one_sentence(error)}; mend the "
                       "model and run again", where(error, source.file)) from error


@contextlib.contextmanager
def plain_launcher() -> Any:
    """Compile results keep their cubin while this is active, so that the
    compiler's binaries can be hashed."""
    import torch._inductor.config as config

    names = [n for n in ("use_static_triton_launcher", "use_static_cuda_launcher")
             if hasattr(config, n)]
    with config.patch({names[0]: False} if names else {}):
        yield


def measure_call(call: Callable[[], Any], seconds: float = 0.3) -> float:
    """Median microseconds of a call, back to back, host time included."""
    for _ in range(3):
        call()
    torch.cuda.synchronize()
    start = time.perf_counter()
    call()
    torch.cuda.synchronize()
    once = max(time.perf_counter() - start, 1e-6)
    calls = max(1, min(200, int(seconds / 5 / once)))
    samples = []
    for _ in range(5):
        start = time.perf_counter()
        for _ in range(calls):
            call()
        torch.cuda.synchronize()
        samples.append((time.perf_counter() - start) / calls * 1e6)
    return statistics.median(samples)


def profile_launches(call: Callable[[], Any], graphs: list[dict[str, Any]],
                     calls: int = 5) -> float:
    """Fills `device_us` of launches and extern calls from the profiler; returns
    the sum of all device work of one call, microseconds."""
    from torch.profiler import ProfilerActivity, profile

    call()
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CUDA], acc_events=True) as profiler:
        for _ in range(calls):
            call()
        torch.cuda.synchronize()
    found = sorted(
        ((e.time_range.start, e.name, e.time_range.elapsed_us()) for e in profiler.events()
         if e.device_type == torch.autograd.DeviceType.CUDA), key=lambda e: e[0])
    launches = [e for g in graphs for e in g["events"] if e["kind"] == "launch"]
    names = {e["name"] for e in launches}
    ours = [e for e in found if e[1] in names]
    if launches and len(ours) == calls * len(launches) and all(
            ours[i][1] == launches[i % len(launches)]["name"] for i in range(len(ours))):
        for i, event in enumerate(launches):
            event["device_us"] = statistics.mean(ours[i + k * len(launches)][2]
                                                 for k in range(calls))
        _spread_over_externs(found, graphs, names, calls)
    elif launches:
        # Replayed graphs may reorder: each kernel's mean by its name.
        for event in launches:
            times = [e[2] for e in ours if e[1] == event["name"]]
            event["device_us"] = statistics.mean(times) if times else 0.0
    return sum(e[2] for e in found) / calls


def _spread_over_externs(found: list[tuple[float, str, float]], graphs: list[dict[str, Any]],
                         names: set[str], calls: int) -> None:
    """Device time between two launches belongs to the extern calls between them."""
    order = [e for g in graphs for e in g["events"] if e["kind"] in ("launch", "extern")]
    gaps: list[list[dict[str, Any]]] = [[]]
    for event in order:
        if event["kind"] == "launch":
            gaps.append([])
        else:
            gaps[-1].append(event)
    sums = [0.0] * len(gaps)
    position = 0
    for _, name, elapsed in found:
        if name in names:
            position += 1
        else:
            # The end of one call and the start of the next share a gap: the
            # last gap takes it unless it has no extern call.
            gap = position % (len(gaps) - 1) if len(gaps) > 1 else 0
            if gap == 0 and position > 0 and gaps[-1] and not gaps[0]:
                gap = len(gaps) - 1
            sums[gap] += elapsed
    for gap, total in zip(gaps, sums):
        for event in gap:
            event["device_us"] = total / calls / len(gap)
