"""The compile worker on real Triton, without a GPU."""
import json
import os
import re
import subprocess
import sys

import conftest
import fixtures
import pytest
from kernelopt import framing


@pytest.fixture
def compile_text(compile_worker, tmp_path):
    """compile_text(source, name, config) -> the worker's answer."""
    def run(source, name, config, capability=90):
        path = tmp_path / "source.py"
        path.write_text(source)
        return compile_worker.call("compile", source_path=str(path), kernel_name=name,
                                   config=config, compute_capability=capability,
                                   out_dir=str(tmp_path))
    return run


def kernel_name(source):
    return re.search(r"^def (\w+)", source, re.MULTILINE).group(1)


def test_hello(compile_worker):
    hello = compile_worker.call("hello")["ok"]
    assert hello["protocol"] == framing.PROTOCOL
    assert re.fullmatch(r"\d+\.\d+\.\d+", hello["torch"])
    assert re.fullmatch(r"\d+\.\d+\.\d+", hello["triton"])
    assert re.match(r"\d+\.\d+", hello["toolchain"]["ptxas"])
    assert hello["problem"] is None


@pytest.mark.parametrize("source, config, kinds", [
    (fixtures.pointwise(), fixtures.config(XBLOCK=512), ["pointer"] * 3 + ["int"]),
    (fixtures.persistent(), fixtures.config(XBLOCK=8), ["pointer"] * 2 + ["int"] * 2),
    (fixtures.reduction(), fixtures.config(num_warps=8, XBLOCK=1, R0_BLOCK=2048),
     ["pointer"] * 2 + ["int"] * 2),
])
def test_compiles(compile_text, tmp_path, source, config, kinds):
    name = kernel_name(source)
    answer = compile_text(source, name, config)["ok"]
    assert (tmp_path / "kernel.cubin").read_bytes()[:4] == b"\x7fELF"
    assert answer["cubin"] == str(tmp_path / "kernel.cubin")
    assert "tt.func" in (tmp_path / "kernel.ttir").read_text()
    assert ".entry" in (tmp_path / "kernel.ptx").read_text()
    record = answer["record"]
    assert record["entry"] == name
    assert [p["kind"] for p in record["parameters"] if p["kind"] != "scratch"] == kinds
    assert [p["argument"] for p in record["parameters"] if p["kind"] != "scratch"] == list(
        range(len(kinds)))
    assert [p["kind"] for p in record["parameters"][len(kinds):]] == ["scratch"] * 2
    assert record["threads"] == config["num_warps"] * 32
    assert answer["registers"] > 0
    assert answer["spill_bytes"] == 0
    assert answer["compile_ms"] > 0
    assert re.fullmatch(r"[0-9a-f]{64}", answer["binary_hash"])


def test_hash_is_of_the_binary(compile_text):
    def binary(name, **config):
        return compile_text(fixtures.pointwise(name), name,
                            fixtures.config(**config))["ok"]["binary_hash"]

    first = binary("triton_poi_a_0", XBLOCK=256)
    assert binary("triton_poi_a_0", XBLOCK=256) == first
    assert binary("triton_poi_another_name_7", XBLOCK=256) == first
    assert binary("triton_poi_a_0", XBLOCK=1024) != first
    assert binary("triton_poi_a_0", XBLOCK=256, num_warps=8) != first


@pytest.mark.parametrize("launcher", ["0", "1"])
def test_hash_in_a_users_process(compile_text, tmp_path, launcher):
    """The same hash comes out of a process that keeps torch's own launcher settings."""
    source, config = fixtures.reduction(), fixtures.config(XBLOCK=1, R0_BLOCK=2048)
    judged = compile_text(source, kernel_name(source), config)["ok"]
    program = """
import json, sys
from kernelopt import kernels
source, name, config = json.load(sys.stdin)
print(kernels.compile_autotuner(kernels.load_autotuner(source, name), config).binary_hash)
"""
    shipped = subprocess.run(
        [sys.executable, "-c", program], input=json.dumps([source, kernel_name(source), config]),
        capture_output=True, text=True, check=True, timeout=120,
        env={**os.environ, "PYTHONPATH": str(conftest.PYTHON_FOLDER), "CUDA_VISIBLE_DEVICES": "",
             "TORCHINDUCTOR_USE_STATIC_CUDA_LAUNCHER": launcher,
             "TRITON_CACHE_DIR": str(tmp_path / "triton"),
             "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "inductor")}).stdout.strip()
    assert shipped == judged["binary_hash"]


def test_register_cap_is_passed_on(compile_text):
    def registers(maxnreg):
        config = fixtures.config(XBLOCK=1, R0_BLOCK=4096, maxnreg=maxnreg)
        source = fixtures.reduction()
        return compile_text(source, kernel_name(source), config)["ok"]["registers"]

    assert registers(None) > 24 >= registers(24)


@pytest.mark.parametrize("old, new, said", [
    ("tmp3 + tmp1", "tmp3 + tmp9", "tmp9"),                      # an unknown name
    ("XBLOCK)[:]", "XBLOCK)[:, :, None]", ""),                   # a shape error
    ("tmp0 * tmp2", "tmp0 * ", "line"),                          # a syntax error
    ("tl.load(in_ptr1 + (x0), None)", "tl.no_such_thing(x0)", "no_such_thing"),
    ("XBLOCK : tl.constexpr", "XBLOCK : tl.constexpr, Y : tl.constexpr", ""),
    ("@triton_heuristics.pointwise(", "@triton_heuristics.pointwise_of(", "pointwise_of"),
])
def test_faults_of_the_kernel(compile_text, old, new, said):
    source = fixtures.pointwise()
    assert old in source
    answer = compile_text(source.replace(old, new), kernel_name(source),
                          fixtures.config(XBLOCK=256))
    error = answer["error"]
    assert error["code"] == "compile_error", error
    assert error["kind"] == "usage"
    assert said in error["message"]
    assert "\n" not in error["message"]
    assert len(error["message"]) < 600
    # The worker goes on.
    assert "ok" in compile_text(source, kernel_name(source), fixtures.config(XBLOCK=256))



def test_another_target_is_refused(compile_text):
    source = fixtures.pointwise()
    answer = compile_text(source, kernel_name(source), fixtures.config(XBLOCK=256), capability=80)
    assert answer["error"]["code"] == "wrong_target"
    assert "90" in answer["error"]["message"] and "80" in answer["error"]["message"]


def test_what_is_no_kernel_of_the_compiler(compile_text):
    answer = compile_text("def f(x):\n    return x\n", "f", fixtures.config(XBLOCK=256))
    assert answer["error"]["code"] == "compile_error"
    answer = compile_text(fixtures.pointwise(), "another", fixtures.config(XBLOCK=256))
    assert answer["error"]["code"] == "compile_error"


def test_text_that_prints_or_exits_does_not_break_the_frames(compile_text):
    source = fixtures.pointwise()
    noisy = source.replace("import triton\n", "import triton\nprint('x' * 100000)\n", 1)
    assert "ok" in compile_text(noisy, kernel_name(source), fixtures.config(XBLOCK=256))
    leaving = source.replace("import triton\n", "import triton\nraise SystemExit(0)\n", 1)
    assert "error" in compile_text(leaving, kernel_name(source), fixtures.config(XBLOCK=256))


@pytest.fixture
def compile_ttir(compile_worker, tmp_path):
    """compile_ttir(text, num_warps=4) -> the worker's answer."""
    def run(text, num_warps=4, name="twin.ttir"):
        path = tmp_path / name
        path.write_text(text)
        return compile_worker.call("compile_ttir", ttir_path=str(path), num_warps=num_warps,
                                   num_stages=1, compute_capability=90, out_dir=str(tmp_path))
    return run


def ttir_of(compile_text, tmp_path, source, config):
    compile_text(source, kernel_name(source), config)
    return (tmp_path / "kernel.ttir").read_text()


@pytest.mark.parametrize("source, config", [
    (fixtures.pointwise(), fixtures.config(XBLOCK=512)),
    (fixtures.reduction(), fixtures.config(XBLOCK=1, R0_BLOCK=2048)),
])
def test_compiles_ttir(compile_text, compile_ttir, tmp_path, source, config):
    """A kernel's own TTIR gives the kernel's own binary."""
    whole = compile_text(source, kernel_name(source), config)["ok"]
    text = (tmp_path / "kernel.ttir").read_text()
    answer = compile_ttir(text)["ok"]
    assert (tmp_path / "kernel.cubin").read_bytes()[:4] == b"\x7fELF"
    assert "tt.func" in (tmp_path / "kernel.ttir").read_text()
    assert ".entry" in (tmp_path / "kernel.ptx").read_text()
    assert answer["record"] == whole["record"]
    assert answer["binary_hash"] == whole["binary_hash"]
    assert answer["registers"] == whole["registers"]
    assert compile_ttir(text, num_warps=8)["ok"]["record"]["threads"] == 256


def test_float64_text(compile_text, compile_ttir, tmp_path):
    text = ttir_of(compile_text, tmp_path, fixtures.pointwise(), fixtures.config(XBLOCK=512))
    assert "ok" in compile_ttir(re.sub(r"\bf32\b|(?<=x)f32\b", "f64", text))
    assert ".f64" in (tmp_path / "kernel.ptx").read_text()


@pytest.mark.parametrize("old, new", [
    ("arith.addf", "arith.nothing"),         # an operation that is none
    ("tt.return", "tt.return %nobody"),      # a value that is not defined
    ("module {", "module"),                  # no text at all
])
def test_faults_of_ttir(compile_text, compile_ttir, tmp_path, old, new):
    text = ttir_of(compile_text, tmp_path, fixtures.pointwise(), fixtures.config(XBLOCK=512))
    assert old in text
    error = compile_ttir(text.replace(old, new, 1))["error"]
    assert error["code"] == "compile_error"
    assert "\n" not in error["message"]
    assert compile_ttir(text, name="twin.txt")["error"]["code"] == "wrong_file_name"
    assert "ok" in compile_ttir(text)
