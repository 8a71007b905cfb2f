"""model_timing.py without a GPU: turns, ends, and sides that fail, hang or don't fit."""
import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest

from kernelopt import model_timing
from kernelopt.framing import JobError

FACTS = {"first_call_s": 1.5, "peak_bytes": 100, "swapped": ["k"]}


def side(bursts):
    """A `_serve` whose burst times come from `bursts(stitched)`."""
    def serve(pipe, model, variant, pack):
        pipe.send(("ok", {**FACTS, "swapped": FACTS["swapped"] if pack else []}))
        while pipe.recv() == "burst":
            pipe.send(("ok", bursts(pack is not None)))
    return serve


def measure(pairs=2, blocks=3):
    one, = model_timing.time_model({"file": "m.py"}, {}, "pack", 1, pairs, blocks,
                                   lambda text: None)["timings"]
    return one


def test_sides_take_turns_and_end(monkeypatch):
    monkeypatch.setattr(model_timing, "_serve", side(lambda stitched: 5.0 if stitched else 10.0))
    start = time.monotonic()
    result = measure()
    assert result["pairs"] == [[[10.0, 5.0, 5.0, 10.0]] * 3] * 2
    assert result["interleaved"]
    assert result["swapped"] == ["k"] and result["peak_bytes_stitched"] == 100
    assert time.monotonic() - start < 8  # no side waits to be killed
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)


def test_measurements_get_pairs_of_their_own(monkeypatch):
    started = []

    def serve(pipe, model, variant, pack):
        pipe.send(("ok", FACTS))
        while pipe.recv() == "burst":
            pipe.send(("ok", float(os.getpid())))

    monkeypatch.setattr(model_timing, "_serve", serve)
    timings = model_timing.time_model({"file": "m.py"}, {}, "pack", 2, 3, 1, started.append)["timings"]
    assert [len(t["pairs"]) for t in timings] == [3, 3]
    assert len({us for t in timings for p in t["pairs"] for b in p for us in b}) == 12
    assert started[0] == "starting 12 fresh processes"


def room_for(monkeypatch, sides):
    """A GPU with room for so many sides at once; gives the pairs that each try began with."""
    real = model_timing._in_turns
    calls = []

    def in_turns(model, variant, pack, blocks, result, progress, numbers, pairs):
        calls.append(len(numbers))
        if 2 * len(numbers) > sides:
            raise model_timing._DoesNotFit
        return real(model, variant, pack, blocks, result, progress, numbers, pairs)

    monkeypatch.setattr(model_timing, "_serve", side(lambda stitched: 5.0 if stitched else 10.0))
    monkeypatch.setattr(model_timing, "_in_turns", in_turns)
    return calls


def test_pairs_that_do_not_fit_together_come_one_after_the_other(monkeypatch):
    calls = room_for(monkeypatch, 2)
    result = measure(pairs=2, blocks=2)
    assert result["interleaved"] and calls == [2, 1, 1]
    assert result["pairs"] == [[[10.0, 5.0, 5.0, 10.0]] * 2] * 2


def test_sides_that_do_not_fit_alternate_as_whole_processes(monkeypatch):
    calls = room_for(monkeypatch, 1)
    result = measure(pairs=2, blocks=2)
    assert not result["interleaved"] and len(result["pairs"]) == 6
    assert calls == [2, 1]
    assert result["pairs"][0] == [[10.0, 5.0, 5.0, 10.0]] * 2


@pytest.mark.parametrize("fault, code", [
    (lambda: os._exit(3), "died"),
    (lambda: (_ for _ in ()).throw(JobError("model", "forward_raises", "no")), "forward_raises"),
    (lambda: [][1], "timing_failed"),
    (lambda: time.sleep(60), "timeout"),
])
def test_a_side_that_fails_is_said_and_reaped(monkeypatch, fault, code):
    def serve(pipe, model, variant, pack):
        fault()

    monkeypatch.setattr(model_timing, "_serve", serve)
    monkeypatch.setattr(model_timing, "_START_SECONDS", 3)
    with pytest.raises(JobError) as caught:
        measure()
    assert caught.value.code == code
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)


def test_out_of_memory_of_one_model_alone_is_said(monkeypatch):
    def serve(pipe, model, variant, pack):
        raise JobError("environment", "out_of_memory", "too large")

    monkeypatch.setattr(model_timing, "_serve", serve)
    with pytest.raises(JobError) as caught:
        measure()
    assert caught.value.code == "out_of_memory"


def is_running(process):
    """Not a zombie: nobody may be there to wait for it."""
    try:
        state = pathlib.Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state not in "ZX"


@pytest.mark.parametrize("what", ["sides", "noise"])
def test_nothing_outlives_the_worker(what):
    """Busy processes, which read no pipe, end with the one that forked them."""
    worker = subprocess.Popen([sys.executable, "-c", f"""
import os, time
from kernelopt import model_timing

def busy(*arguments, **options):
    os.write(1, f"{{os.getpid()}}\\n".encode())
    time.sleep(300)

model_timing._serve = busy
if {what == "sides"}:
    model_timing.time_model({{"file": "m.py"}}, {{}}, "pack", 1, 1, 1, lambda text: None)
else:
    class Slow:  # the first thing that noise asks of torch
        randn = busy
    import sys
    sys.modules["torch"] = Slow
    model_timing.noise(1, lambda text: None)
"""], stdout=subprocess.PIPE, text=True)
    started = [int(worker.stdout.readline()) for _ in range(2 if what == "sides" else 1)]
    assert all(is_running(process) for process in started)
    worker.send_signal(signal.SIGKILL)
    worker.wait()
    worker.stdout.close()
    deadline = time.monotonic() + 10
    while any(is_running(process) for process in started) and time.monotonic() < deadline:
        time.sleep(0.02)
    outlived = [process for process in started if is_running(process)]
    for process in outlived:
        os.kill(process, signal.SIGKILL)
    assert not outlived
