"""Packs that are whole, damaged, edited, foreign or hostile."""
import hashlib
import json
import os
import pathlib
import subprocess

import pytest
from conftest import FIXTURES, HELLO, PROGRAM

MODULE = FIXTURES / "pointwise_and_mm.py"


@pytest.fixture
def pack(tmp_path):
    """Makes a pack for MODULE's kernel."""
    def make(text="good"):
        out = tmp_path / f"{text}.kopt"
        maker = pathlib.Path(PROGRAM).parent / "tests/cli/make_pack"
        subprocess.run([maker, MODULE, out, text], check=True)
        return out
    return make


def edit_manifest(pack, change):
    """Changes the manifest and its hash, as someone who knows the format could."""
    manifest = json.loads((pack / "manifest.json").read_text())
    change(manifest)
    text = json.dumps(manifest)
    (pack / "manifest.json").write_text(text)
    (pack / "manifest.sha256").write_text(hashlib.sha256(text.encode()).hexdigest() + "\n")


def test_a_whole_pack(kernelopt, pack):
    done = kernelopt("check-pack", pack())
    assert (done.code, done.err) == (0, "")
    assert "1 kernel, preview" in done.out
    answer = json.loads(kernelopt("check-pack", pack(), "--json").out)
    assert answer["ok"] is True
    assert answer["manifest"]["kernels"]


def test_resolve(kernelopt, pack):
    answer = json.loads(kernelopt("resolve", pack(), MODULE, "--json").out)
    assert answer["matched"] is True
    [kernel] = answer["kernels"]
    assert "triton_poi_fused_relu_0__kopt" in kernel["source"]
    assert kernel["config"]["constexprs"] == {"XBLOCK": 256}


def test_resolve_in_another_model(kernelopt, pack):
    answer = json.loads(kernelopt("resolve", pack(), FIXTURES / "reductions.py", "--json").out)
    assert (answer["matched"], answer["reason"]) == (False, "module_not_in_pack")


@pytest.mark.parametrize("damage, part", [
    (lambda p: (p / "manifest.json").unlink(), "manifest"),
    (lambda p: (p / "manifest.json").write_text("{"), "manifest"),
    (lambda p: next(p.glob("kernels/*.py")).write_text("x = 1\n"), "kernels/"),
    (lambda p: next(p.glob("cubins/*")).unlink(), "cubins/"),
    (lambda p: next(p.glob("cubins/*")).write_bytes(b"other"), "cubins/"),
    (lambda p: edit_manifest(p, lambda m: m.pop("gpu")), "gpu"),
    (lambda p: edit_manifest(p, lambda m: m.update(schema=99)), "schema"),
    (lambda p: edit_manifest(p, lambda m: m["kernels"][0].update(file="../../x.py")), ""),
    (lambda p: (p / "manifest.json").write_text(
        (p / "manifest.json").read_text().replace('"num_warps": 4', '"num_warps": 8')), "manifest"),
])
def test_a_damaged_pack(kernelopt, pack, damage, part):
    path = pack()
    damage(path)
    kernelopt("check-pack", path).fails(2, part)
    answer = json.loads(kernelopt("check-pack", path, "--json").out)
    assert answer["ok"] is False and answer["reason"] and answer["message"]
    kernelopt("resolve", path, MODULE).fails(2)


@pytest.mark.parametrize("text", ["import", "call"])
def test_kernel_text_that_gate_1_refuses(kernelopt, pack, model, stand_in, text):
    path = pack(text)
    kernelopt("check-pack", path).fails(2)
    answer = json.loads(kernelopt("check-pack", path, "--json").out)
    assert (answer["ok"], answer["reason"]) == (False, "kernel_refused")
    kernelopt("resolve", path, MODULE).fails(2)
    kernelopt("verify", path, model, "--python", stand_in()).fails(2)
    assert not os.path.exists("/tmp/kernelopt_refused")


@pytest.mark.parametrize("hello, part", [
    ({**HELLO, "torch": "2.12.0"}, "2.12.0"),
    ({**HELLO, "triton": "3.7.0"}, "3.7.0"),
    ({**HELLO, "device": {**HELLO["device"], "name": "NVIDIA A100"}}, "A100"),
    ({**HELLO, "device": {**HELLO["device"], "sm_count": 114}}, "114"),
    ({**HELLO, "cuda": False, "device": None}, "GPU"),
])
def test_verify_on_another_machine(kernelopt, pack, model, stand_in, hello, part):
    kernelopt("verify", pack(), model, "--python", stand_in(hello=hello)).fails(3, part)


def test_verify_when_the_kernel_is_gone(kernelopt, pack, model, stand_in, recording):
    done = kernelopt("verify", pack(), model, "--quick", "--python",
                     stand_in(capture=recording(kernels=False)))
    done.fails(3, "key gone")
    assert "key gone" in done.out


def test_verify_when_the_binary_differs(kernelopt, pack, model, stand_in, recording):
    """The pack's hash is made up, so what this machine's triton makes is another binary."""
    done = kernelopt("verify", pack(), model, "--quick", "--python",
                     stand_in(capture=recording()))
    done.fails(3, "binary changed")


def test_verify_passes_the_models_own_failure_on(kernelopt, pack, model, stand_in):
    python = stand_in(capture=["model", "forward_raises", "forward raises", "model.py:2"])
    kernelopt("verify", pack(), model, "--python", python).fails(4, "model.py:2")
