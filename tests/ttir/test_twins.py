"""Float64 twins do what the kernel does, in float64, and triton compiles them.

KERNELOPT_TTIR_DIR may name a folder of more texts (*.ttir), as
src/ttir/testdata/compile_modules.py writes it.
"""
import os
import pathlib
import subprocess

import evaluate
import pytest
import triton
from built import ROOT
from triton.backends.compiler import GPUTarget

TESTDATA = ROOT / "src/ttir/testdata"
#: What the evaluator knows, of kernels that can be promoted.
EVALUATED = ["pointwise", "reduction", "gather", "control", "select_one"] + [
    f"versions/{version}/{name}"
    for version in ("3.5.1", "3.6.0", "3.7.1", "3.8.0") for name in ("library", "scan")]
MORE = sorted(pathlib.Path(os.environ.get("KERNELOPT_TTIR_DIR", "/nonexistent")).glob("*.ttir"))


def promote(tool, path, twin):
    return subprocess.run([tool, "promote", str(path), str(twin)], capture_output=True, text=True)


@pytest.mark.parametrize("path", [TESTDATA / f"{name}.ttir" for name in EVALUATED] + MORE, ids=str)
def test_twin_computes_the_same_in_float64(tool, path, tmp_path):
    if path in MORE and promote(tool, path, tmp_path / "x").returncode != 0:
        pytest.skip("is refused")
    stored, differing, worst = evaluate.compare_twin(tool, path, tmp_path)
    assert stored > 0
    assert differing == 0
    # The kernel itself rounds: 16-bit results are good to three digits.
    assert worst < 1e-2


def test_a_wrong_twin_is_seen(tool, tmp_path):
    """The comparison has teeth: a twin with one constant changed differs."""
    text = (TESTDATA / "control.ttir").read_text()
    (tmp_path / "kernel.ttir").write_text(text)
    promote(tool, tmp_path / "kernel.ttir", tmp_path / "twin.ttir")
    kernel = evaluate.read(tool, tmp_path / "kernel.ttir")
    twin_text = (tmp_path / "twin.ttir").read_text()
    results = []
    for change in ("0x3FF0000000000000", "0x3FF0000000100000"):  # x + 1, a little more
        (tmp_path / "other.ttir").write_text(twin_text.replace("0x3FF0000000000000", change))
        out = evaluate.Memory(3, "f64")
        evaluate.run(evaluate.read(tool, tmp_path / "other.ttir"),
                     [evaluate.Memory(1, "f32"), evaluate.Memory(2, "f32"), out, 50], [(0, 0, 0)])
        results.append(list(out.stored.values()))
    assert len(kernel["parameters"]) == 4
    assert results[0] != results[1]


@pytest.mark.parametrize("name", ["pointwise", "reduction", "gather", "control", "select_one",
                                  "versions/3.8.0/library", "versions/3.8.0/scan",
                                  "versions/3.8.0/atomics"])
def test_twins_compile(tool, name, tmp_path, monkeypatch):
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "cache"))
    assert promote(tool, TESTDATA / f"{name}.ttir", tmp_path / "twin.ttir").returncode == 0
    kernel = triton.compile(str(tmp_path / "twin.ttir"), target=GPUTarget("cuda", 90, 32),
                            options={"num_warps": 4, "num_stages": 1})
    assert kernel.asm["cubin"][:4] == b"\x7fELF"
    assert ".f64" in kernel.asm["ptx"]


def test_refusals_name_the_operation(tool, tmp_path):
    refused = promote(tool, TESTDATA / "versions/3.8.0/descriptors.ttir", tmp_path / "twin.ttir")
    assert refused.returncode == 1
    assert "tt.make_tensor_descriptor in line" in refused.stderr
    assert len(refused.stderr.strip().splitlines()) == 1
