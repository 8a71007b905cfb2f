"""`kernelopt try` on a recorded capture, with real compile workers: all that needs no GPU."""
import json
import re
import sys

import pytest

RELU = """# Written by hand.
# Configuration: {configuration}

@triton.jit
def triton_poi_fused_relu_0(in_out_ptr0, in_ptr0, xnumel, XBLOCK : tl.constexpr):
    x = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)
    keep = x < 4096
    sum = tl.load(in_out_ptr0 + x, keep) + tl.load(in_ptr0 + x % 64, keep)
    tl.store(in_out_ptr0 + x, {value}, keep)
"""


@pytest.fixture
def run(kernelopt, recording, tmp_path):
    """The folder of a run on a recording, with the Python that compiles."""
    pytest.importorskip("triton")
    done = kernelopt("optimize", "--recording", recording(), "--python", sys.executable)
    assert done.code == 0, done.err
    return tmp_path / "recording.kopt-run"


@pytest.fixture
def candidate(tmp_path):
    def make(value="triton_helpers.maximum(sum, 0.0)", configuration="XBLOCK=256 warps=2"):
        path = tmp_path / "candidate.py"
        path.write_text(RELU.format(value=value, configuration=configuration))
        return path
    return make


def test_try(kernelopt, run, candidate, tmp_path):
    python = ("--python", sys.executable)
    done = kernelopt("try", run, "triton_poi", candidate(), *python, "--json")
    assert (done.code, done.err) == (0, ""), done.out
    result = done.result()
    assert result["accepted"] and result["gates"] == 2 and result["reason"] == "ok"
    assert [v["stage"] for v in result["verdicts"]] == ["text", "binary", "shadow"]
    assert result["verdicts"][1]["configuration"] == "XBLOCK=256 warps=2 stages=1"
    # Recorded as any other verdict, so that it can be looked up and done again.
    shown = json.loads(kernelopt("show", run, "triton_poi", "--json").out)
    assert result["verdicts"][1]["verdict"] in [v["verdict"] for v in shown["verdicts"]]
    again = kernelopt("replay", run, result["verdicts"][1]["verdict"], *python)
    assert again.code == 0 and again.out.count("accepted") == 2, again.err

    rounded = candidate("(sum * 1.0).to(tl.float16).to(tl.float32)")
    done = kernelopt("try", run, "triton_poi", rounded, *python)
    assert done.code == 6 and done.err == "", done.out
    assert "gate 1 text     accepted" in done.out
    assert "rejected by gate 1: narrower_rounding: " in done.out

    # Right but where the sum is above 2.
    wrong = candidate("triton_helpers.maximum(tl.where(sum > 2.0, 2.0, sum), 0.0)")
    done = kernelopt("try", run, "triton_poi", wrong, *python)
    assert done.code == 6 and done.err == "", done.out
    assert "gate 1 binary   accepted" in done.out
    assert re.search("rejected by gate 2: wrong_(value|nonfinite): ", done.out), done.out

    kernelopt("try", run, "nothing", candidate(), *python).fails(2, "'nothing'")
    kernelopt("try", run, "triton_poi", tmp_path / "none.py", *python).fails(2, "none.py")
    kernelopt("try", tmp_path / "no-run", "x", candidate(), *python).fails(2, "no-run")
