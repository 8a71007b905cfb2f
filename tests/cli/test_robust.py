"""Killed parents, GPUs that are in use, and workers that say something else than an answer."""
import os
import signal
import subprocess
import time
import uuid

import pytest
from conftest import DEVICE, HELLO, PROGRAM


def start(python, folder, environment, tmp_path):
    return subprocess.Popen(
        [PROGRAM, "optimize", "model.py", "--out", folder, "--python", python], cwd=tmp_path,
        env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def wait_for(path, text):
    deadline = time.monotonic() + 30
    while not path.exists() or text not in path.read_text():
        assert time.monotonic() < deadline, f"no '{text}' in {path}"
        time.sleep(0.02)


def started_with(mark):
    """Processes whose environment has the text."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/environ", "rb") as file:
                if mark.encode() in file.read():
                    found.append(name)
        except OSError:
            pass  # it ended, or is another user's
    return found


def one_gpu():
    """A GPU that no other test waits for."""
    return {**HELLO, "device": {**DEVICE, "uuid": str(uuid.uuid4())}}


@pytest.mark.parametrize("after", [0.0, 0.1, 0.3, 0.6, 1.0])
def test_nothing_outlives_a_killed_parent(kernelopt, stand_in, model, recording, environment,
                                          tmp_path, after):
    """Model worker and compile workers end with the program, however it ends."""
    capture = recording(kernels=False)
    mark = f"KOPT_TEST_MARK={uuid.uuid4()}"
    name, value = mark.split("=")
    process = start(stand_in(capture=capture, capture_s=60), "run", {**environment, name: value},
                    tmp_path)
    time.sleep(after)
    process.kill()
    process.wait()
    process.stdout.close()
    deadline = time.monotonic() + 10
    while started_with(mark) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not started_with(mark)
    done = kernelopt("optimize", "model.py", "--out", "run", "--python", stand_in(capture=capture))
    assert done.code == 0, done.err
    assert not list(tmp_path.rglob("*.tmp"))


def test_two_runs_on_one_gpu(stand_in, model, recording, environment, tmp_path):
    """The second waits, says so, and goes on when the first is gone, however it went; its lock's
    file stays and is no hindrance."""
    hello, capture = one_gpu(), recording(kernels=False)
    first = start(stand_in(hello=hello, capture=capture, capture_s=60), "first", environment, tmp_path)
    try:
        wait_for(tmp_path / "first/log.jsonl", "compiling the model")
        second = start(stand_in(hello=hello, capture=capture), "second", environment, tmp_path)
        wait_for(tmp_path / "second/log.jsonl", "waiting for another run on this GPU")
        assert "compiling the model" not in (tmp_path / "second/log.jsonl").read_text()
        assert second.poll() is None
    finally:
        first.kill()
        first.communicate()
    out, _ = second.communicate(timeout=60)
    assert second.returncode == 0, out
    lock = f"/tmp/kernelopt-gpu-GPU-{hello['device']['uuid']}.lock"
    assert os.path.exists(lock)
    os.unlink(lock)


def test_waiting_for_a_gpu_can_be_stopped(stand_in, model, recording, environment, tmp_path):
    hello, capture = one_gpu(), recording(kernels=False)
    first = start(stand_in(hello=hello, capture=capture, capture_s=60), "first", environment, tmp_path)
    try:
        wait_for(tmp_path / "first/log.jsonl", "compiling the model")
        second = start(stand_in(hello=hello, capture=capture), "second", environment, tmp_path)
        wait_for(tmp_path / "second/log.jsonl", "waiting for another run on this GPU")
        second.send_signal(signal.SIGTERM)
        out, _ = second.communicate(timeout=20)
        assert second.returncode == 5, out
    finally:
        first.kill()
        first.communicate()
    os.unlink(f"/tmp/kernelopt-gpu-GPU-{hello['device']['uuid']}.lock")


@pytest.mark.parametrize("answer, part", [
    (b"Segmentation fault\n" * 20, "a frame of"),  # text, read as a length of gigabytes
    (b"\x05\x00\x00\x00hello", "not valid JSON"),
    (b"\x02\x00\x00\x00[]", "not a JSON object"),
    (b"\x40\x00\x00\x00{\"id\":2,\"ok\"", "exit code 0"),  # half of one, and the end
    (b"", "exit code 0"),
    (b"\x11\x00\x00\x00{\"id\":77,\"ok\":{}}", "id"),  # the answer to something else
])
def test_a_worker_that_answers_garbage(kernelopt, stand_in, model, recording, answer, part):
    """Once it is known and trusted, in the middle of a step, where only the model's code can
    have done it."""
    capture = recording(kernels=False)
    python = stand_in(capture=capture)
    text = python.read_text()
    said = text.replace("    value = answer(scenario[\"capture\"])\n",
                        f"    framing.take_streams()[1].write({answer!r})\n"
                        "    framing.take_streams()[1].flush()\n    os._exit(0)\n")
    assert said != text
    python.write_text(said)
    done = kernelopt("optimize", "model.py", "--out", "run", "--python", python)
    done.fails(4, "model.py", "the model worker", part)
    python.write_text(text)
    done = kernelopt("resume", "run", "--python", python)
    assert done.code == 0, done.err
