"""Packs that are whole, damaged, edited, foreign or hostile."""
import hashlib
import json
import os
import pathlib
import random
import subprocess
import sys

import pytest
from conftest import FIXTURES, HELLO, PROGRAM, ROOT

sys.path.insert(0, str(ROOT / "tests/gpu"))
from make_tracer import replacement_id  # noqa: E402

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


def test_a_kernel_edited_behind_fresh_hashes(kernelopt, pack):
    """Only the id is left to show it; one who also repairs that is told apart by no hash."""
    path = pack()
    file = next(path.glob("kernels/*.py"))
    text = file.read_text()
    assert "tmp0 + tmp1" in text
    file.write_text(text.replace("tmp0 + tmp1", "tmp0 - tmp1"))
    name = str(file.relative_to(path))

    def seal(manifest):
        manifest["files"][name] = hashlib.sha256(file.read_bytes()).hexdigest()

    edit_manifest(path, seal)
    kernelopt("check-pack", path).fails(2, "kernels/", "id")

    def seal_id_too(manifest):
        [kernel] = manifest["kernels"]
        kernel["id"] = replacement_id(kernel, file.read_text().split("\n\n", 1)[1])

    edit_manifest(path, seal_id_too)
    assert kernelopt("check-pack", path).code == 0


def places(value, path=()):
    """The path of every value inside a JSON value."""
    if path:
        yield path
    for key, item in value.items() if isinstance(value, dict) else enumerate(
            value if isinstance(value, list) else ()):
        yield from places(item, (*path, key))


def test_a_manifest_with_other_values(kernelopt, pack):
    """Whatever stands anywhere in it: accepted or refused in one sentence, never a fault."""
    path = pack()
    whole = json.loads((path / "manifest.json").read_text())
    others = [None, True, -1, 0, 2**63, 2**64, 1e300, "", "x", "/etc/passwd", "\x00", "\ud800",
              "x" * 100_000, [], {}, [[]], [None] * 1000, {"x": {"x": {}}}]
    draw = random.Random(11)
    for _ in range(150):
        manifest = json.loads(json.dumps(whole))
        *parents, last = draw.choice(list(places(manifest)))
        place = manifest
        for key in parents:
            place = place[key]
        if draw.random() < 0.15:
            del place[last]
        else:
            place[last] = draw.choice(others)
        edit_manifest(path, lambda m, new=manifest: (m.clear(), m.update(new)))
        for command in (["check-pack", path], ["resolve", path, MODULE, "--json"]):
            done = kernelopt(*command)
            assert done.code in (0, 2), (parents, last, done)
            assert done.err.count("\n") == (0 if done.code == 0 else 1), done
        (path / "manifest.json").write_text(json.dumps(whole))


@pytest.mark.parametrize("text", [
    "[" * 200_000, '{"a":' * 200_000, "", "null", "[]", "1e999", "\x00", "{}" * 2,
    '{"schema": 1e999}', '{"schema": "1"}', '{"schema": -1}', '{"schema": 1}'])
def test_a_manifest_that_is_something_else(kernelopt, pack, text):
    path = pack()
    (path / "manifest.json").write_text(text)
    (path / "manifest.sha256").write_text(hashlib.sha256(text.encode()).hexdigest() + "\n")
    kernelopt("check-pack", path).fails(2, "manifest.json")
    answer = json.loads(kernelopt("check-pack", path, "--json").out)
    assert answer["ok"] is False


def test_a_pack_of_another_kind_of_files(kernelopt, pack, tmp_path):
    path = pack()
    link = tmp_path / "link.kopt"
    link.symlink_to(path)
    assert kernelopt("check-pack", link).code == 0
    manifest = path / "manifest.json"
    manifest.rename(tmp_path / "elsewhere.json")
    manifest.symlink_to(tmp_path / "elsewhere.json")
    kernelopt("check-pack", path).fails(2, "manifest.json")
    manifest.unlink()
    manifest.mkdir()
    kernelopt("check-pack", path).fails(2, "manifest.json")
    manifest.rmdir()
    os.mkfifo(manifest)
    kernelopt("check-pack", path).fails(2, "manifest.json")


@pytest.mark.parametrize("text", ["import", "call"])
def test_kernel_text_that_gate_1_refuses(kernelopt, pack, model, stand_in, text):
    path = pack(text)
    kernelopt("check-pack", path).fails(2)
    answer = json.loads(kernelopt("check-pack", path, "--json").out)
    assert (answer["ok"], answer["reason"]) == (False, "kernel_refused")
    kernelopt("resolve", path, MODULE).fails(2)
    kernelopt("verify", path, model, "--python", stand_in()).fails(2)
    assert not os.path.exists("/tmp/kernelopt_refused")


@pytest.mark.parametrize("hello, code, part", [
    ({**HELLO, "torch": "2.12.0"}, 7, "2.12.0"),
    ({**HELLO, "triton": "3.7.0"}, 7, "3.7.0"),
    ({**HELLO, "device": {**HELLO["device"], "name": "NVIDIA A100"}}, 7, "A100"),
    ({**HELLO, "device": {**HELLO["device"], "sm_count": 114}}, 7, "114"),
    ({**HELLO, "cuda": False, "device": None}, 3, "GPU"),
    (["environment", "torch_missing", "this Python has no torch", ""], 3, "no torch"),
])
def test_verify_on_another_machine(kernelopt, pack, model, stand_in, hello, code, part):
    kernelopt("verify", pack(), model, "--python", stand_in(hello=hello)).fails(code, part)


def test_verify_with_wrong_arguments(kernelopt, pack, model, tmp_path, stand_in):
    kernelopt("verify", pack(), tmp_path / "none.py").fails(2, "none.py")
    kernelopt("verify", tmp_path / "none.kopt", model, "--python", stand_in()).fails(2, "none.kopt")
    kernelopt("verify", pack()).fails(2)


def test_verify_says_its_kind_in_json(kernelopt, pack, model, stand_in):
    hello = {**HELLO, "torch": "2.12.0"}
    done = kernelopt("verify", pack(), model, "--json", "--python", stand_in(hello=hello))
    [error] = [e for e in done.events() if e["event"] == "error"]
    assert (done.code, error["kind"], error["code"]) == (7, "mismatch", "wrong_version")


def test_verify_when_the_kernel_is_gone(kernelopt, pack, model, stand_in, recording):
    done = kernelopt("verify", pack(), model, "--quick", "--python",
                     stand_in(capture=recording(kernels=False)))
    done.fails(8, "key gone")
    assert "key gone" in done.out


def test_verify_when_the_binary_differs(kernelopt, pack, model, stand_in, recording):
    """The pack's hash is made up, so what this machine's triton makes is another binary."""
    done = kernelopt("verify", pack(), model, "--quick", "--python",
                     stand_in(capture=recording()))
    done.fails(8, "binary changed")


def test_verify_passes_the_models_own_failure_on(kernelopt, pack, model, stand_in):
    python = stand_in(capture=["model", "forward_raises", "forward raises", "model.py:2"])
    kernelopt("verify", pack(), model, "--python", python).fails(4, "model.py:2")
