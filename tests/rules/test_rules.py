"""The rewrite rules' texts compute what the compiler's text computes.

Small kernels in the form in which Inductor writes them; both texts run in Triton's
interpreter, over the same data, in every launch configuration that the rule names.
Equal bit for bit (maximum and minimum up to the sign of zero): the rules keep every
element's operations and their order.
"""

import json
import os
import pathlib
import re
import subprocess
import sys

import pytest

from built import built
from corpus import findings, write_corpus
from pointwise_kernels import CASES, Case

ROOT = pathlib.Path(__file__).resolve().parents[2]
RUNNER = pathlib.Path(__file__).with_name("interpret.py")

# What has to be made of each, so that no rule falls silent unseen.
FITS = {
    "max_pool_4x4": {"shifted_window", "row_tiles"},
    "average_pool_3x3": {"shifted_window", "row_tiles"},
    "min_pool_no_pad": {"shifted_window", "row_tiles"},
    "max_pool_dilated": {"shifted_window", "row_tiles"},
    "max_pool_stride_2": {"shifted_window", "row_tiles"},
    "scale_and_shift": {"row_tiles"},
    "bias_in_place": {"row_tiles"},
    "gather": {"row_tiles"},
}

FP32 = {"in_ptr0": "*fp32", "out_ptr0": "*fp32"}

REFUSED = {
    "short_rows": (FP32, 640, """x0 = (xindex % 20)
x1 = xindex // 20
x2 = xindex
tmp0 = tl.load(in_ptr0 + (x0 + 20*x1), xmask)
tl.store(out_ptr0 + (x2), tmp0, xmask)""", "rows of 20 columns"),
    "flat": (FP32, 640, """x0 = xindex
tmp0 = tl.load(in_ptr0 + (x0), xmask)
tl.store(out_ptr0 + (x0), tmp0, xmask)""", "not divided into rows"),
    "loads_what_it_stored": (FP32, 640, """x0 = (xindex % 128)
x2 = xindex
tmp0 = tl.load(in_ptr0 + (x2), xmask)
tl.store(out_ptr0 + (x2), tmp0, xmask)
tmp1 = tl.load(out_ptr0 + (x2), xmask)
tl.store(out_ptr0 + (x2), tmp1, xmask)""", "loaded after it was stored"),
    "barrier": (FP32, 640, """x0 = (xindex % 128)
x2 = xindex
tmp0 = tl.load(in_ptr0 + (x2), xmask)
tl.debug_barrier()
tl.store(out_ptr0 + (x2), tmp0, xmask)""", "neither an assignment nor a tl.store"),
    "random": ({"in_ptr0": "*i64", "out_ptr0": "*fp32"}, 640, """x0 = (xindex % 128)
x2 = xindex
tmp0 = tl.load(in_ptr0 + (0))
tmp1 = tl.rand(tmp0, x2)
tl.store(out_ptr0 + (x2), tmp1, xmask)""", "tl.rand"),
}


@pytest.fixture(scope="session")
def tool():
    return built("rules/rules_tool")


def test_rules_compute_the_same(tool, tmp_path):
    found = findings(tool, tmp_path, CASES)
    assert {name: {rule for rule, f in rules.items() if f["texts"]}
            for name, (_, rules) in found.items()} == FITS
    jobs = []
    for name, (text, rules) in found.items():
        case = CASES[name]
        variants = {t["name"]: [t["text"], t["configs"][0]["constexprs"]["XBLOCK"]]
                    for f in rules.values() for t in f["texts"]}
        # A tile is taken by a loop, so any grid is right.
        variants["other grid"] = [variants[max(variants)][0], 64]
        jobs.append({"name": name, "pointers": case.pointers, "numel": case.numel, "text": text,
                     "variants": variants})
    assert sum(len(job["variants"]) for job in jobs) >= 40
    done = subprocess.run([sys.executable, str(RUNNER)], input=json.dumps(jobs), text=True,
                          capture_output=True, timeout=220,
                          env=dict(os.environ, TRITON_INTERPRET="1"))
    assert done.returncode == 0, done.stderr[-3000:]
    wrong = [line for line in done.stdout.splitlines() if not line.endswith(" equal")]
    assert wrong == []
    assert len(done.stdout.splitlines()) >= 40


def test_one_vector_serves_all_shifts(tool, tmp_path):
    _, rules = findings(tool, tmp_path, CASES)["max_pool_4x4"]
    texts = {t["name"]: t["text"] for t in rules["shifted_window"]["texts"]}
    text = texts["shifted_window:rows=4,columns=128,vector=4"]
    # 4 rows of outputs read 7 rows of inputs, as 3 vectors each, for 16 outputs a thread.
    assert text.count("tl.load(") == 21
    # 3 maxima across a row for each of 7 rows and 4 columns, 3 down for each output.
    assert text.count("tl.maximum(") == 7 * 4 * 3 + 16 * 3
    assert re.search(r"// 127\b|% 127\b", text) is None


@pytest.mark.parametrize("name", REFUSED)
def test_refused_with_a_reason(tool, tmp_path, name):
    pointers, numel, body, reason = REFUSED[name]
    _, rules = findings(tool, tmp_path, {name: Case(pointers, {}, numel, body)})[name]
    for finding in rules.values():
        assert finding["texts"] == []
        assert reason in finding["refusal"]


def test_gate_1_accepts_the_texts(tool, tmp_path):
    assert write_corpus(tool, tmp_path) >= 15
    program = pathlib.Path(tool).parents[1] / "gates/gate_corpus_gpu_test"
    done = subprocess.run([program, "--static", tmp_path], capture_output=True, text=True,
                          timeout=220, env=dict(os.environ, KERNELOPT_PYTHON=sys.executable))
    wrong = [line for line in done.stdout.splitlines() if line.startswith("DIFFERS")]
    assert done.returncode == 0, "\n".join(wrong) or done.stdout + done.stderr
    assert " of 0 good" not in done.stdout and " good rejected" in done.stdout
