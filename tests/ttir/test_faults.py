"""Triton compiles the faults that are planted in a kernel, to something else than the kernel.

KERNELOPT_TTIR_DIR may name a folder of more texts (*.ttir), as
src/ttir/testdata/compile_modules.py writes it.
"""
import os
import pathlib
import subprocess

import pytest
import triton
from built import ROOT
from triton.backends.compiler import GPUTarget

TESTDATA = ROOT / "src/ttir/testdata"
MORE = sorted(pathlib.Path(os.environ.get("KERNELOPT_TTIR_DIR", "/nonexistent")).glob("*.ttir"))


def compile_ttir(path):
    kernel = triton.compile(str(path), target=GPUTarget("cuda", 90, 32),
                            options={"num_warps": 4, "num_stages": 1})
    assert kernel.asm["cubin"][:4] == b"\x7fELF"
    return kernel.asm["ptx"]


@pytest.mark.parametrize("path, names", [
    (TESTDATA / "pointwise.ttir", {"term_dropped"}),
    (TESTDATA / "reduction.ttir", {"term_dropped", "tf32_input"}),
    (TESTDATA / "select_one.ttir", {"term_dropped", "tf32_input"}),
    (TESTDATA / "control.ttir", {"term_dropped", "tf32_input"}),
] + [(path, None) for path in MORE], ids=str)
def test_faults_compile(tool, path, names, tmp_path, monkeypatch):
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "cache"))
    done = subprocess.run([tool, "faults", str(path), str(tmp_path)], capture_output=True,
                          text=True, check=True)
    files = done.stdout.split()
    assert names is None or names <= {file.split("_", 1)[1][:-5] for file in files}
    own = compile_ttir(path)
    for file in files:
        ptx = compile_ttir(tmp_path / file)
        assert ptx != own, file
