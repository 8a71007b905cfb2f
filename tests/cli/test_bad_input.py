"""Bad models and bad machines: the exit code and one sentence of each."""
import os
import signal
import subprocess
import sys
import time

import pytest
from conftest import HELLO, PROGRAM


def optimize(kernelopt, python, *more):
    return kernelopt("optimize", "model.py", "--python", python, *more)


@pytest.mark.parametrize("error, code", [
    (["model", "syntax_error", "it is not valid Python (invalid syntax)", "model.py:3"], 4),
    (["model", "no_model", "it defines no Model", "model.py"], 4),
    (["model", "inputs_raise", "get_inputs raises ValueError: no", "model.py:7"], 4),
    (["model", "forward_raises", "forward raises RuntimeError: sizes", "model.py:9"], 4),
    (["model", "cpu_model", "no part of the model runs on the GPU", "model.py"], 4),
    (["environment", "no_gpu", "torch sees no CUDA GPU", ""], 3),
])
def test_what_the_worker_says_of_the_model(kernelopt, stand_in, model, error, code):
    done = optimize(kernelopt, stand_in(capture=error)).fails(code, error[2])
    if error[3]:
        assert f"{error[3]}: " in done.err


@pytest.mark.parametrize("hello, part", [
    (["environment", "torch_missing", "this Python has no torch", ""], "no torch"),
    (["environment", "torch_too_old", "torch 2.4.0 was found, wanted 2.9", ""], "2.4.0"),
    ({**HELLO, "torch": "2.15.0"}, "2.15.0"),
    ({**HELLO, "triton": "3.4.0"}, "3.4.0"),
])
def test_torch_that_does_not_fit(kernelopt, stand_in, model, hello, part):
    optimize(kernelopt, stand_in(hello=hello)).fails(3, part)


@pytest.fixture
def stubbed(tmp_path):
    """Makes a Python that finds these modules before its own torch and triton."""
    def make(**modules):
        stubs = tmp_path / "stubs"
        stubs.mkdir()
        for name, text in modules.items():
            (stubs / f"{name}.py").write_text(text)
        path = tmp_path / "stubbed_python"
        path.write_text(f'#!/bin/sh\nPYTHONPATH="{stubs}:$PYTHONPATH" exec {sys.executable} "$@"\n')
        path.chmod(0o755)
        return path
    return make


@pytest.mark.parametrize("modules, part", [
    ({"torch": "raise ImportError('no torch here')"}, "no torch here"),
    ({"torch": "raise OSError('libcudart.so.12: not found')"}, "libcudart"),
    ({"torch": "import sys; sys.exit(0)"}, "can't import torch"),
    ({"torch": ""}, "without a version"),
    ({"torch": "__version__ = 'main'"}, "torch main"),
    ({"torch": "__version__ = '2.4.0'"}, "torch 2.4.0"),
    ({"torch": "__version__ = '2.11.0'", "triton": "raise ImportError('no triton here')"},
     "no triton here"),
    ({"torch": "__version__ = '2.11.0'", "triton": "__version__ = '3.4.0'"}, "3.4.0"),
])
def test_a_torch_that_is_broken(kernelopt, stubbed, model, modules, part):
    optimize(kernelopt, stubbed(**modules)).fails(3, part)


@pytest.mark.parametrize("script, code", [
    ("echo garbage", 3),
    ("printf '\\377\\377\\377\\377'; sleep 60", 3),
    ("exit 0", 3),
    ("kill -SEGV $$", 3),
    ("exec /nonexistent/program", 3),
])
def test_a_python_that_is_none(kernelopt, model, tmp_path, script, code):
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\n{script}\n")
    python.chmod(0o755)
    optimize(kernelopt, python).fails(code, str(python))


def test_a_python_that_can_not_be_run(kernelopt, model, tmp_path):
    (tmp_path / "plain").write_text("text")
    (tmp_path / "binary").write_bytes(b"\x7fELFgarbage")
    (tmp_path / "binary").chmod(0o755)
    for path in (tmp_path, tmp_path / "plain", tmp_path / "binary", ""):
        if path != "":
            optimize(kernelopt, path).fails(3, str(path))


def test_no_gpu(kernelopt, stand_in, model):
    python = stand_in(hello={**HELLO, "cuda": False, "device": None},
                      capture=["environment", "no_gpu", "torch sees no CUDA GPU", ""])
    optimize(kernelopt, python).fails(3, "GPU")


def test_the_models_faults_come_before_a_missing_gpu(kernelopt, stand_in, model):
    python = stand_in(hello={**HELLO, "cuda": False, "device": None},
                      capture=["model", "no_model", "it defines no Model", "model.py"])
    optimize(kernelopt, python).fails(4, "no Model")


def test_a_judge_without_a_gpu(kernelopt, stand_in, model, recording):
    """torch sees a GPU and the driver doesn't: the environment is at fault, not the model."""
    if os.path.exists("/dev/nvidiactl"):
        pytest.skip("this machine has a GPU")
    optimize(kernelopt, stand_in(capture=recording())).fails(3)


def test_no_such_python(kernelopt, model):
    optimize(kernelopt, "/nonexistent/python").fails(3, "/nonexistent/python", "--python")


def test_a_python_without_the_package(kernelopt, model, tmp_path):
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\nexit 1\n")
    python.chmod(0o755)
    optimize(kernelopt, python).fails(3)


def test_graph_breaks_everywhere(kernelopt, stand_in, model, recording):
    done = optimize(kernelopt, stand_in(capture=recording(graphs=False)), "--json")
    assert done.code == 0, done.err
    assert (done.result()["result"], done.result()["reason"]) == ("kept", "no_graph")
    assert "7 graph breaks" in done.result()["message"]


def test_no_triton_kernel(kernelopt, stand_in, model, recording, tmp_path):
    done = optimize(kernelopt, stand_in(capture=recording(kernels=False)))
    assert done.code == 0, done.err
    assert "kept: torch.compile generated no Triton kernel" in done.out
    run = tmp_path / "model.kopt-run"
    assert (run / "report.html").is_file()
    assert not list(run.glob("*.kopt"))
    shown = kernelopt("show", run)
    assert shown.code == 0 and "kept" in shown.out


def test_a_model_with_several_modes(kernelopt, stand_in, model, recording):
    python = stand_in(capture=recording(kernels=False, modes=("default", "reduce-overhead")))
    done = optimize(kernelopt, python, "--modes", "default,reduce-overhead")
    assert done.code == 0, done.err


def test_the_same_command_again_captures_nothing(kernelopt, stand_in, model, recording):
    assert optimize(kernelopt, stand_in(capture=recording(kernels=False))).code == 0
    again = optimize(kernelopt, stand_in(capture=("internal", "captured", "again", "")))
    assert again.code == 0, again.err
    assert "from before" in again.out


def test_resume_needs_only_the_folder(kernelopt, stand_in, model, recording):
    capture = recording(kernels=False)
    python = stand_in(capture=["model", "forward_raises", "forward raises", "model.py:1"])
    optimize(kernelopt, python, "--out", "run").fails(4)
    done = kernelopt("resume", "run", "--python", stand_in(capture=capture))
    assert done.code == 0, done.err
    assert "kept" in done.out


def test_another_model_gets_another_folder(kernelopt, stand_in, model, recording, tmp_path):
    python = stand_in(capture=recording(kernels=False))
    assert optimize(kernelopt, python).code == 0
    model.write_text(model.read_text() + "# changed\n")
    assert optimize(kernelopt, python).code == 0
    assert (tmp_path / "model-2.kopt-run").is_dir()
    optimize(kernelopt, python, "--out", "model.kopt-run").fails(2, "another model", "--out")


def test_a_folder_that_can_not_be_written(kernelopt, stand_in, model):
    optimize(kernelopt, stand_in(), "--out", "/proc/run").fails(3, "/proc/run")
    optimize(kernelopt, stand_in(), "--out", "/dev/null/run").fails(3, "/dev/null/run")


def test_two_processes_in_one_run(kernelopt, stand_in, model, environment, tmp_path):
    python = stand_in(capture=["model", "forward_raises", "late", ""], capture_s=30)
    first = subprocess.Popen([PROGRAM, "optimize", "model.py", "--python", python], cwd=tmp_path,
                             env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        wait_for(tmp_path / "model.kopt-run" / "log.jsonl", "compiling the model")
        optimize(kernelopt, python, "--out", "model.kopt-run").fails(2, str(first.pid))
    finally:
        first.kill()
        first.communicate()


@pytest.mark.parametrize("signal_number", [signal.SIGINT, signal.SIGTERM])
def test_stopped_and_resumed(kernelopt, stand_in, model, recording, environment, tmp_path,
                             signal_number):
    python = stand_in(capture=recording(kernels=False), capture_s=60)
    process = subprocess.Popen([PROGRAM, "optimize", "model.py", "--python", python], cwd=tmp_path,
                               env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               text=True)
    wait_for(tmp_path / "model.kopt-run" / "log.jsonl", "compiling the model")
    process.send_signal(signal_number)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 5, (out, err)
    assert "kernelopt resume model.kopt-run" in err
    done = kernelopt("resume", "model.kopt-run", "--python",
                     stand_in(capture=tmp_path / "recording"))
    assert done.code == 0, done.err


def test_killed_and_resumed(kernelopt, stand_in, model, recording, environment, tmp_path):
    python = stand_in(capture=recording(kernels=False), capture_s=60)
    process = subprocess.Popen([PROGRAM, "optimize", "model.py", "--python", python], cwd=tmp_path,
                               env=environment, stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL)
    wait_for(tmp_path / "model.kopt-run" / "log.jsonl", "compiling the model")
    process.kill()
    process.wait()
    done = kernelopt("resume", "model.kopt-run", "--python",
                     stand_in(capture=tmp_path / "recording"))
    assert done.code == 0, done.err


def test_a_broken_store(kernelopt, stand_in, model, recording, tmp_path):
    python = stand_in(capture=recording(kernels=False))
    assert optimize(kernelopt, python).code == 0
    for name in ("store.db", "store.db-wal"):
        path = tmp_path / "model.kopt-run" / name
        if path.exists():
            path.write_bytes(b"not a database" * 500)
    done = kernelopt("show", "model.kopt-run")
    assert done.code in (2, 3) and done.err.count("\n") == 1, done.err


def test_doctor_without_a_gpu(kernelopt, stand_in):
    done = kernelopt("doctor", "--python", stand_in(hello={**HELLO, "cuda": False, "device": None}))
    assert done.code == 3
    assert "torch     2.11.0" in done.out
    assert "GPU" in done.err


def test_doctor_names_each_missing_thing(kernelopt, stand_in):
    hello = {**HELLO, "torch": "2.15.0", "triton": "3.0.0", "cuda": False, "device": None}
    done = kernelopt("doctor", "--python", stand_in(hello=hello))
    assert done.code == 3
    assert done.out.count("<-- missing") == 3


def wait_for(path, text, seconds=60):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if path.exists() and text in path.read_text():
            return
        time.sleep(0.05)
    raise AssertionError(f"{path} never said {text!r}")
