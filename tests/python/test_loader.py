"""The loader without a GPU: what is swapped, what stays, and that failure is open."""
import hashlib
import json
import os
import stat
import subprocess
import sys
import textwrap

import pytest

torch = pytest.importorskip("torch")

from kernelopt import inductor_hooks, kernels, loader  # noqa: E402

MODULE = textwrap.dedent('''
    from torch._inductor.async_compile import AsyncCompile
    async_compile = AsyncCompile()
    kernel_a = async_compile.triton('kernel_a', """SOURCE A""", device_str='cuda')
    kernel_b = async_compile.triton('kernel_b', """SOURCE B""", device_str='cuda')
    def call(args):
        return kernel_a, kernel_b
''')


def sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


class FakeAutotuner:
    def __init__(self, source):
        self.source = source
        self.precompiled = False

    def precompile(self):
        self.precompiled = True


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A program that answers from files, kernels that compile to a hash of their
    text, and an Inductor whose own kernels are their names."""
    from torch._inductor.async_compile import AsyncCompile

    answers = tmp_path / "answers"
    answers.mkdir()
    program = tmp_path / "kernelopt"
    program.write_text(f"#!/bin/sh\ncat {answers}/$1\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("KERNELOPT_BINARY", str(program))
    monkeypatch.delenv("KERNELOPT_DISABLE", raising=False)
    monkeypatch.setattr(loader, "_gpu_mismatch", lambda wanted: wanted.get("problem", ""))
    monkeypatch.setattr(kernels, "load_autotuner", lambda source, name: FakeAutotuner(source))
    monkeypatch.setattr(
        kernels, "compile_autotuner", lambda autotuner, config: kernels.Compiled(
            b"", "", "", {}, sha(autotuner.source), 1, 0))
    monkeypatch.setattr(AsyncCompile, "triton", lambda self, name, source, device_str="cuda": name)
    monkeypatch.setattr(inductor_hooks, "_installed", False)
    from torch._inductor.codecache import PyCodeCache

    before = PyCodeCache.__dict__["load_by_key_path"]
    yield Machine(answers)
    loader.unload()
    PyCodeCache.load_by_key_path = before
    PyCodeCache.cache_clear()


class Machine:
    def __init__(self, answers):
        self.answers = answers
        self.say("check-pack", {"ok": True, "manifest": {"gpu": {}, "preview": False}})
        self.resolve()

    def say(self, command, answer):
        (self.answers / command).write_text(json.dumps(answer))

    def resolve(self, **changes):
        entry = {"name": "kernel_a", "key": "ka", "source_sha256": sha("SOURCE A"),
                 "source": "NEW A", "config": {}, "binary_hash": sha("NEW A"), "reason": ""}
        other = {"name": "kernel_b", "key": "kb", "source_sha256": sha("SOURCE B"),
                 "source": None, "config": None, "reason": "kernel_not_replaced"}
        self.say("resolve", {"module_key": "m", "matched": True, "reason": "",
                             "kernels": [{**entry, **changes}, other]})

    def load_module(self, text=MODULE):
        from torch._inductor.codecache import PyCodeCache

        module = PyCodeCache.load(text + f"\n# {os.urandom(8).hex()}\n")
        return module.call([])


def reasons():
    return [m["reason"] for m in loader.stats()["misses"]]


def test_a_proven_kernel_is_swapped_and_counted(machine):
    loader.load("p")
    a, b = machine.load_module()
    assert isinstance(a, FakeAutotuner) and a.source == "NEW A" and a.precompiled
    assert b == "kernel_b"
    assert [s["kernel"] for s in loader.stats()["swapped"]] == ["kernel_a"]
    assert reasons() == []


def test_a_module_that_is_not_in_the_pack_keeps_everything(machine):
    machine.say("resolve", {"module_key": "other", "matched": False,
                            "reason": "module_not_in_pack", "kernels": []})
    loader.load("p")
    assert machine.load_module() == ("kernel_a", "kernel_b")
    assert reasons() == ["module_not_in_pack"]


@pytest.mark.parametrize("changes, reason", [
    ({"binary_hash": sha("judged elsewhere")}, "binary_differs"),
    ({"source_sha256": sha("another text")}, "source_differs"),
    ({"source": None, "reason": "entry_mismatch"}, "entry_mismatch"),
])
def test_any_difference_gives_the_compilers_kernel(machine, changes, reason):
    machine.resolve(**changes)
    loader.load("p")
    assert machine.load_module() == ("kernel_a", "kernel_b")
    assert reasons() == [reason]


def test_another_gpu_swaps_nothing(machine):
    machine.say("check-pack", {"ok": True, "manifest": {"gpu": {"problem": "no such GPU"}}})
    loader.load("p")
    assert machine.load_module() == ("kernel_a", "kernel_b")
    assert reasons() == ["wrong_gpu"]


@pytest.mark.parametrize("value, swapped", [("1", 0), ("ka", 0), ("x,ka", 0), ("kb", 1)])
def test_disable_by_variable(machine, monkeypatch, value, swapped):
    monkeypatch.setenv("KERNELOPT_DISABLE", value)
    loader.load("p")
    machine.load_module()
    assert len(loader.stats()["swapped"]) == swapped


def test_a_compile_error_gives_the_compilers_kernel(machine, monkeypatch):
    def refuse(autotuner, config):
        raise kernels.CompileError("no")
    monkeypatch.setattr(kernels, "compile_autotuner", refuse)
    loader.load("p")
    assert machine.load_module() == ("kernel_a", "kernel_b")
    assert reasons() == ["swap_failed"]


def test_a_program_that_gives_no_answer_keeps_everything(machine):
    loader.load("p")
    (machine.answers / "resolve").write_text("not json")
    assert machine.load_module() == ("kernel_a", "kernel_b")
    assert reasons() == ["no_answer"]


def test_calls_outside_a_module_pass_through(machine):
    from torch._inductor.async_compile import AsyncCompile

    loader.load("p")
    assert AsyncCompile().triton("kernel_a", "SOURCE A") == "kernel_a"
    assert loader.stats()["swapped"] == []


def test_unload_gives_the_compilers_kernels_back(machine):
    loader.load("p")
    loader.unload()
    assert machine.load_module() == ("kernel_a", "kernel_b")


def test_a_refused_pack_says_why(machine):
    machine.say("check-pack", {"ok": False, "reason": "edited_pack", "message": "p: it was edited"})
    with pytest.raises(loader.PackError, match="it was edited") as caught:
        loader.load("p")
    assert caught.value.reason == "edited_pack"


def test_a_preview_needs_a_flag(machine, monkeypatch):
    monkeypatch.delenv("KERNELOPT_ALLOW_PREVIEW", raising=False)
    machine.say("check-pack", {"ok": True, "manifest": {"gpu": {}, "preview": True}})
    with pytest.raises(loader.PackError) as caught:
        loader.load("p")
    assert caught.value.reason == "preview"
    loader.load("p", allow_preview=True)


def test_importing_the_package_imports_no_torch():
    code = "import sys, kernelopt; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0
