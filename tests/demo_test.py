"""demo.sh on a machine without a GPU, and the arguments that it refuses.

Takes the release build and .venv that test.sh has made; without them demo.sh
would install and build for minutes.
"""
import os
import pathlib
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[1]


def demo(*arguments, **environment):
    if not ((ROOT / "build/release/kernelopt").exists() and
            (ROOT / ".venv/kernelopt.stamp").exists()):
        pytest.skip("needs the release build and .venv of test.sh")
    kept = {name: value for name, value in os.environ.items()
            if not name.startswith("KERNELOPT_") and name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    return subprocess.run(["bash", str(ROOT / "demo.sh"), *arguments], capture_output=True,
                          text=True, timeout=300, env={**kept, **environment}, check=False)


def test_a_recording_goes_through_gate_1(tmp_path):
    """python3 on PATH has no torch, as on a new machine: the demo brings its own."""
    if os.path.exists("/dev/nvidiactl"):
        pytest.skip("this machine has a GPU")
    python = tmp_path / "python3"
    python.write_text('#!/bin/sh\nexec /usr/bin/python3 -S "$@"\n')
    python.chmod(0o755)
    done = demo(PATH=f"{tmp_path}:{os.environ['PATH']}")
    assert done.returncode == 0, (done.stdout, done.stderr)
    assert done.stderr == ""
    assert "pass gate 1" in done.stdout
    assert "need a GPU" in done.stdout


def test_an_example_that_is_not_there():
    done = demo("nosuch")
    assert done.returncode == 2
    assert "examples/nosuch.py" in done.stderr and "long_softmax" in done.stderr
