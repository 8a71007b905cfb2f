"""Triton compiles the texts that watch who touches which element.

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
NAMES = ["pointwise", "reduction", "gather", "control", "select_one"] + [
    f"versions/{version}/{name}"
    for version in ("3.5.1", "3.6.0", "3.7.1", "3.8.0") for name in ("library", "scan")]
MORE = sorted(pathlib.Path(os.environ.get("KERNELOPT_TTIR_DIR", "/nonexistent")).glob("*.ttir"))


@pytest.mark.parametrize("path", [TESTDATA / f"{name}.ttir" for name in NAMES] + MORE, ids=str)
def test_triton_compiles_the_texts(tool, path, tmp_path):
    made = subprocess.run([tool, "owners", str(path), str(tmp_path)], capture_output=True,
                          text=True)
    if path in MORE and made.returncode != 0:
        assert "can't be watched" in made.stderr
        pytest.skip(made.stderr)
    assert made.returncode == 0, made.stderr
    for text in ("mark", "check"):
        kernel = triton.compile(str(tmp_path / f"{text}.ttir"), target=GPUTarget("cuda", 90, 32),
                                options={"num_warps": 4, "num_stages": 1})
        assert kernel.asm["cubin"][:4] == b"\x7fELF"
