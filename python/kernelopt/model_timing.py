"""Gate 4's measurements: compiler and stitched model, in turns, in fresh processes.

Each side is a process forked from this one, which has imported torch but never
touched CUDA. The two take turns in bursts (A B B A a block, A the compiler);
inputs are re-allocated in each burst. If both don't fit on the GPU, whole
processes alternate instead. Raw samples go back; statistics are the gate's.
"""
from __future__ import annotations

import contextlib
import ctypes
import multiprocessing
import os
import signal
import time
import traceback
from multiprocessing.connection import Connection
from typing import Any, Callable

from .framing import JobError

_BURST_SECONDS = 0.08
_START_SECONDS = 300
_PR_SET_PDEATHSIG = 1  # <sys/prctl.h>
#: Pairs a measurement needs when whole processes alternate.
_ALTERNATING_PAIRS = 6
_REPLY_SECONDS = 120


def time_model(model: dict[str, str], variant: dict[str, Any], pack: str, measurements: int,
               pairs: int, blocks: int, progress: Callable[[str], None]) -> dict[str, Any]:
    """{"timings": [the fields of ModelTiming (src/workers/model.h), one a measurement]}."""
    # Starting takes longer than timing, so that all start together where they fit.
    every = measurements * pairs
    for together in sorted({every, 1}, reverse=True):
        result = _new_result(interleaved=True)
        try:
            for first in range(0, every, together):
                result["pairs"] += _in_turns(model, variant, pack, blocks, result, progress,
                                             range(first, min(first + together, every)), every)
            return _split(result, measurements)
        except _DoesNotFit:
            continue
    result = _new_result(interleaved=False)
    every = measurements * max(pairs, _ALTERNATING_PAIRS)
    for pair in range(every):
        progress(f"timing in fresh processes, pair {pair + 1} of {every}")
        try:
            result["pairs"].append(_one_after_the_other(model, variant, pack, blocks, result))
        except _DoesNotFit:
            raise JobError("environment", "out_of_memory", "one model alone does not fit on "
                           "the GPU for timing; close other programs") from None
    return _split(result, measurements)


def _split(result: dict[str, Any], measurements: int) -> dict[str, Any]:
    """One result a measurement, each with its share of the pairs."""
    share = len(result["pairs"]) // measurements
    return {"timings": [{**result, "pairs": result["pairs"][i * share:(i + 1) * share]}
                        for i in range(measurements)]}


class _DoesNotFit(Exception):
    """The GPU has no room for the sides that run at once."""


def _new_result(interleaved: bool) -> dict[str, Any]:
    return {"pairs": [], "interleaved": interleaved, "swapped": [],
            "first_call_compiled_s": 0.0, "first_call_stitched_s": 0.0,
            "peak_bytes_compiled": 0, "peak_bytes_stitched": 0}


def _in_turns(model: dict[str, str], variant: dict[str, Any], pack: str, blocks: int,
              result: dict[str, Any], progress: Callable[[str], None], numbers: range,
              pairs: int) -> list[list[list[float]]]:
    """A B B A blocks of the pairs `numbers`, one pair after the other, with the
    processes of all of them ready before the first burst."""
    with contextlib.ExitStack() as stack:
        sides = [(stack.enter_context(_Side(model, variant, None)),
                  stack.enter_context(_Side(model, variant, pack))) for _ in numbers]
        progress(f"starting {2 * len(sides)} fresh processes")
        for a, b in sides:
            _note(result, "compiled", a.start())
            _note(result, "stitched", b.start())
        samples = []
        for number, (a, b) in zip(numbers, sides, strict=True):
            progress(f"timing in fresh processes, pair {number + 1} of {pairs}")
            samples.append([[a.ask("burst"), b.ask("burst"), b.ask("burst"), a.ask("burst")]
                            for _ in range(blocks)])
        return samples


def _one_after_the_other(model: dict[str, str], variant: dict[str, Any], pack: str, blocks: int,
                         result: dict[str, Any]) -> list[list[float]]:
    bursts: dict[str, list[float]] = {}
    for side, name in ((None, "a"), (pack, "b")):
        with _Side(model, variant, side) as process:
            _note(result, "stitched" if side else "compiled", process.start())
            bursts[name] = [process.ask("burst") for _ in range(2 * blocks)]
    a, b = bursts["a"], bursts["b"]
    return [[a[2 * i], b[2 * i], b[2 * i + 1], a[2 * i + 1]] for i in range(blocks)]


def _note(result: dict[str, Any], side: str, facts: dict[str, Any]) -> None:
    key = f"first_call_{side}_s"
    result[key] = max(result[key], facts["first_call_s"])
    key = f"peak_bytes_{side}"
    result[key] = max(result[key], facts["peak_bytes"])
    if side == "stitched":
        result["swapped"] = facts["swapped"]


class _Side:
    """One forked process that holds one compiled model and times bursts of it."""

    def __init__(self, model: dict[str, str], variant: dict[str, Any], pack: str | None) -> None:
        context = multiprocessing.get_context("fork")
        self._pipe, child = context.Pipe()
        self._process = context.Process(
            target=_side_main, args=(child, self._pipe, os.getpid(), model, variant, pack),
            daemon=True)
        self._process.start()
        child.close()

    def __enter__(self) -> "_Side":
        return self

    def __exit__(self, *exc: Any) -> None:
        if exc[0] is not None:  # it may be busy starting and would read no word
            self._process.kill()
        # The other side was forked with a copy of this pipe, so closing it is no end of input.
        with contextlib.suppress(OSError):
            self._pipe.send("stop")
        self._pipe.close()
        self._process.join(timeout=10)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()

    def start(self) -> dict[str, Any]:
        """Waits until the model is compiled and warm."""
        return self._receive(_START_SECONDS)

    def ask(self, what: str) -> float:
        self._pipe.send(what)
        return self._receive(_REPLY_SECONDS)

    def _receive(self, seconds: float) -> Any:
        if not self._pipe.poll(seconds):
            self._process.kill()
            raise JobError("environment", "timeout", f"timing gave no answer in {seconds:.0f} s; "
                           "the GPU may be in use by others")
        try:
            status, value = self._pipe.recv()
        except EOFError:
            raise JobError("environment", "died", "a timing process ended by itself; look at the "
                           "standard error above") from None
        if status == "ok":
            return value
        if status == "out_of_memory":
            raise _DoesNotFit
        raise JobError(*value)


def _end_with(parent: int) -> None:
    """Ends this process with the one that forked it, also where it computes and reads no
    pipe: it would hold the GPU and its memory while the next run measures."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def _side_main(pipe: Connection, parents_end: Connection, parent: int, model: dict[str, str],
               variant: dict[str, Any], pack: str | None) -> None:
    _end_with(parent)
    parents_end.close()
    try:
        _serve(pipe, model, variant, pack)
    except EOFError:
        pass
    except JobError as error:
        out_of_memory = error.code == "out_of_memory"
        pipe.send(("out_of_memory", None) if out_of_memory else
                  ("error", (error.kind, error.code, error.message, error.where)))
    except BaseException as error:
        traceback.print_exc()
        if type(error).__name__ == "OutOfMemoryError":
            pipe.send(("out_of_memory", None))
        else:
            pipe.send(("error", ("internal", "timing_failed",
                                 f"timing failed with {type(error).__name__}: {error}"[:300], "")))
    finally:
        pipe.close()
        os._exit(0)  # no destructor of a half-dead CUDA context may hang the parent


def _serve(pipe: Connection, model: dict[str, str], variant_fields: dict[str, Any],
           pack: str | None) -> None:
    import torch

    from .capture import call_safely
    from .loader import load, stats
    from .model import Built, ModelSource, Variant, compile_model, prepare_gradients, run
    from .model_check import clone_inputs

    variant = Variant(**variant_fields)
    if pack:
        load(pack, allow_preview=True)
    source = ModelSource(model["file"], model.get("entry", ""))
    built = source.build(input_set=variant.input_set)
    fn = compile_model(built.module, variant)
    torch.cuda.synchronize()
    start = time.perf_counter()
    call_safely(source, fn, built, variant, "running the model")
    first_call = time.perf_counter() - start
    for _ in range(4):
        call_safely(source, fn, built, variant, "running the model")
    torch.cuda.reset_peak_memory_stats()
    call_safely(source, fn, built, variant, "running the model")
    peak = torch.cuda.max_memory_allocated()
    pipe.send(("ok", {"first_call_s": first_call, "peak_bytes": peak,
                      "swapped": sorted({s["key"] for s in stats()["swapped"]})}))
    calls = 0
    while pipe.recv() == "burst":
        # New storages for every burst: no side may live off one lucky address.
        copy = Built(built.module, *clone_inputs(built))
        prepare_gradients(copy, variant)
        for _ in range(2):
            run(source, fn, copy, variant)
        if not calls:  # at its first turn, when no other process is starting
            calls = _calls_for(lambda: _calls_time(source, fn, copy, variant, 3) / 3)
        pipe.send(("ok", _calls_time(source, fn, copy, variant, calls) / calls * 1e6))
        del copy


def _calls_for(once: Callable[[], float]) -> int:
    return max(2, min(2000, int(_BURST_SECONDS / max(once(), 1e-6))))


def _calls_time(source: Any, fn: Any, built: Any, variant: Any, calls: int) -> float:
    """Seconds of `calls` calls back to back, from idle device to idle device."""
    import torch

    from .model import prepare_gradients, run

    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(calls):
        prepare_gradients(built, variant)
        run(source, fn, built, variant)
    torch.cuda.synchronize()
    return time.perf_counter() - start


def noise(processes: int, progress: Callable[[str], None]) -> list[float]:
    """Microseconds a call of one fixed elementwise-and-reduce workload, the median
    of a fresh process each: how much equal processes differ on this GPU."""
    samples = []
    context = multiprocessing.get_context("fork")
    for number in range(processes):
        progress(f"noise between processes, {number + 1} of {processes}")
        receiver, sender = context.Pipe(duplex=False)
        process = context.Process(target=_noise_main, args=(sender, os.getpid()),
                                  daemon=True)
        process.start()
        sender.close()
        if receiver.poll(_REPLY_SECONDS):
            try:
                samples.append(receiver.recv())
            except EOFError:
                pass
        process.join(timeout=10)
        if process.is_alive():
            process.kill()
            process.join()
    if len(samples) < processes:
        raise JobError("environment", "noise_failed", "a process that measures noise ended by "
                       "itself; look at the standard error above")
    return samples


def _noise_main(sender: Connection, parent: int) -> None:
    _end_with(parent)
    try:
        import statistics

        import torch

        x = torch.randn(64 << 20, device="cuda")
        y = torch.empty_like(x)

        def call() -> None:
            torch.add(x, 1.0, out=y)
            y.sum()

        for _ in range(20):
            call()
        times = []
        for _ in range(20):
            torch.cuda.synchronize()
            start = time.perf_counter()
            for _ in range(50):
                call()
            torch.cuda.synchronize()
            times.append((time.perf_counter() - start) / 50 * 1e6)
        sender.send(statistics.median(times))
    except BaseException:
        traceback.print_exc()
    finally:
        sender.close()
        os._exit(0)
