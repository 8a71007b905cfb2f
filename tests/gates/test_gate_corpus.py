"""Every candidate of bad/ and good/ through gate 1 and the compile workers; no GPU.

What is gate 1's to refuse must get its code; everything else, and each good one, must
compile and pass. Then gate 2 on the shadow device; on a GPU it is gate_corpus_gpu_test.
"""
import os
import pathlib
import re
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
PROGRAM = pathlib.Path(
    os.environ.get("KERNELOPT_BINARY", HERE.parents[1] / "build/dev/kernelopt")
).resolve().parent / "tests/gates/gate_corpus_gpu_test"


def headers(path):
    return dict(re.findall(r"^# (\w+): (.*)$", path.read_text(), re.MULTILINE))


def test_the_corpus_is_large_enough():
    bad = [headers(path) for path in (HERE / "bad").glob("*.py")]
    good = list((HERE / "good").glob("*.py"))
    assert len(bad) >= 80 and len(good) >= 40
    assert sum(path.name.startswith("hand_") for path in good) >= 15
    # Every reason has two base kernels, but for those of a single mistake in a text.
    kernels = {}
    for header in bad:
        assert header["Why"], header
        for code in header["Expect"].split(" | "):
            kernels.setdefault(code, set()).add(header["Kernel"])
    single = {"missing_entry", "entry_parameters", "parameter_default", "syntax_error",
              "added_library_function", "dropped_assert", "unsupported_form",
              "too_many_threads"}
    assert {code for code, names in kernels.items() if len(names) < 2} <= single


def test_gate_1_and_the_compiler():
    pytest.importorskip("triton")
    done = subprocess.run([PROGRAM, "--static", "--necessity", HERE], capture_output=True,
                          text=True, timeout=900,
                          env={**os.environ, "KERNELOPT_PYTHON": sys.executable})
    wrong = [line for line in done.stdout.splitlines() if line.startswith("DIFFERS")]
    assert done.returncode == 0, "\n".join(wrong) or done.stdout + done.stderr
    assert " 0 bad accepted, 0 of " in done.stdout
    # With a check left out, a bad candidate comes through, or another check finds it.
    unneeded = {line.split()[0] for line in done.stdout.splitlines()
                if line.endswith("nothing in the corpus needs it")}
    # Text that is no Python compiles to nothing, and a cluster is refused before it is compiled.
    assert unneeded == {"syntax_error", "unsupported_launch"}
    alone = {line.split()[0] for line in done.stdout.splitlines() if "accepted without it" in line}
    assert {"reads_output", "out_of_bounds", "unknown_attribute", "narrower_rounding"} <= alone


def test_gate_2_on_the_shadow_device():
    pytest.importorskip("triton")
    done = subprocess.run([PROGRAM, "--shadow", HERE], capture_output=True, text=True, timeout=900,
                          env={**os.environ, "KERNELOPT_PYTHON": sys.executable})
    assert done.returncode == 0, done.stdout + done.stderr
    # No data of the screening tells these from the compiler's kernel.
    later = {line.split()[1] for line in done.stdout.splitlines() if line.startswith("later")}
    assert later == {"bad/cancels_norm", "bad/overflow_softmax", "bad/small_to_zero_softmax",
                     "bad/wrong_pad_max", "bad/wrong_start_max"}
    assert "0 of 60 bad unseen" in done.stdout and " 0 of 44 good rejected" in done.stdout
