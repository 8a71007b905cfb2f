"""model_timing.py without a GPU: turns, ends, and sides that fail, hang or don't fit."""
import os
import time

import pytest

from kernelopt import model_timing
from kernelopt.framing import JobError

FACTS = {"first_call_s": 1.5, "peak_bytes": 100, "swapped": ["k"]}


def side(bursts):
    """A `_serve` whose burst times come from `bursts(stitched)`."""
    def serve(pipe, model, variant, pack, eager):
        pipe.send(("ok", {**FACTS, "swapped": FACTS["swapped"] if pack else []}))
        while pipe.recv() == "burst":
            pipe.send(("ok", bursts(pack is not None)))
    return serve


def measure(pairs=2, blocks=3):
    return model_timing.time_model({"file": "m.py"}, {}, "pack", pairs, blocks, lambda text: None)


def test_sides_take_turns_and_end(monkeypatch):
    monkeypatch.setattr(model_timing, "_serve", side(lambda stitched: 5.0 if stitched else 10.0))
    start = time.monotonic()
    result = measure()
    assert result["pairs"] == [[[10.0, 5.0, 5.0, 10.0]] * 3] * 2
    assert result["eager_us"] == 10.0 and result["interleaved"]
    assert result["swapped"] == ["k"] and result["peak_bytes_stitched"] == 100
    assert time.monotonic() - start < 8  # no side waits to be killed
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)


def test_sides_that_do_not_fit_alternate_as_whole_processes(monkeypatch):
    real = model_timing._pair
    calls = []

    def pair(model, variant, pack, blocks, result):
        calls.append(result["interleaved"])
        if result["interleaved"]:
            raise model_timing._DoesNotFit
        return real(model, variant, pack, blocks, result)

    monkeypatch.setattr(model_timing, "_serve", side(lambda stitched: 5.0 if stitched else 10.0))
    monkeypatch.setattr(model_timing, "_pair", pair)
    result = measure(pairs=2, blocks=2)
    assert not result["interleaved"] and len(result["pairs"]) == 6
    assert calls == [True] + [False] * 6
    assert result["pairs"][0] == [[10.0, 5.0, 5.0, 10.0]] * 2


@pytest.mark.parametrize("fault, code", [
    (lambda: os._exit(3), "died"),
    (lambda: (_ for _ in ()).throw(JobError("model", "forward_raises", "no")), "forward_raises"),
    (lambda: [][1], "timing_failed"),
    (lambda: time.sleep(60), "timeout"),
])
def test_a_side_that_fails_is_said_and_reaped(monkeypatch, fault, code):
    def serve(pipe, model, variant, pack, eager):
        fault()

    monkeypatch.setattr(model_timing, "_serve", serve)
    monkeypatch.setattr(model_timing, "_START_SECONDS", 3)
    with pytest.raises(JobError) as caught:
        measure()
    assert caught.value.code == code
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)


def test_out_of_memory_of_one_model_alone_is_said(monkeypatch):
    def serve(pipe, model, variant, pack, eager):
        raise JobError("environment", "out_of_memory", "too large")

    monkeypatch.setattr(model_timing, "_serve", serve)
    with pytest.raises(JobError) as caught:
        measure()
    assert caught.value.code == "out_of_memory"
