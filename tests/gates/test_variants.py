"""Other forms of the corpus, and mutants of it, through gate 1 and the compile workers; no GPU."""
import collections
import filecmp
import json
import os
import pathlib
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import variants  # noqa: E402

PROGRAM = pathlib.Path(
    os.environ.get("KERNELOPT_BINARY", HERE.parents[1] / "build/dev/kernelopt")
).resolve().parent / "tests/gates/gate_corpus_gpu_test"


def judge(*arguments):
    return subprocess.run([PROGRAM, "--static", *arguments], capture_output=True, text=True,
                          timeout=900, env={**os.environ, "KERNELOPT_PYTHON": sys.executable})


def write(*arguments):
    subprocess.run([sys.executable, HERE / arguments[0], *arguments[1:]], check=True,
                   capture_output=True)


def test_a_rewritten_text_is_another_one_and_the_same_for_the_same_seed():
    text = (HERE / "good/hand_norm.py").read_text()
    rewritten = variants.rewrite(text, "1")
    assert rewritten == variants.rewrite(text, "1") != variants.rewrite(text, "2")
    assert variants.headers(rewritten) == variants.headers(text)
    assert "in_ptr0" in rewritten and "XBLOCK" in rewritten  # the compiler's names stay
    assert not any(line in rewritten.split("\n") for line in text.split("\n")
                   if " = " in line and "tl." in line)
    broken = "# Kernel: k\n# Expect: syntax_error\ndef k(:\n"
    assert variants.rewrite(broken, "1") == broken


def test_another_type_widens_what_it_loads():
    source = "@triton.jit\ndef k(in_ptr0, in_ptr1, out_ptr0):\n" \
             "    a = tl.load(in_ptr0 + x, None) + tl.load(in_ptr1 + x, None)\n" \
             "    p = in_ptr0 + 4\n    b = tl.load(p).to(tl.float32) + tl.load(p)\n"
    types = {"in_ptr0": "*fp32", "in_ptr1": "*i64", "out_ptr0": "*fp32"}
    found = variants.widen_loads(source, types, "*fp32")
    assert "tl.load(in_ptr0 + x, None).to(tl.float32) + tl.load(in_ptr1 + x, None)\n" in found
    assert found.endswith("b = tl.load(p).to(tl.float32) + tl.load(p).to(tl.float32)\n")


@pytest.mark.parametrize("form, only", [(("rewritten", "1"), "_relu"), (("type", "fp16"), "tile_"),
                                        (("type", "bf16"), "_max")])
def test_other_forms_get_the_same_codes(tmp_path, form, only):
    pytest.importorskip("triton")
    write("variants.py", *form, tmp_path / "corpus")
    done = judge("--only", only, tmp_path / "corpus")
    wrong = [line for line in done.stdout.splitlines() if line.startswith("DIFFERS")]
    assert done.returncode == 0, "\n".join(wrong) or done.stdout + done.stderr
    assert " 0 bad accepted, 0 of " in done.stdout


def test_mutants(tmp_path):
    pytest.importorskip("triton")
    for name in ("a", "b"):
        write("mutants.py", "7", tmp_path / name, "--each", "2", "--bases", HERE)
    assert filecmp.cmp(tmp_path / "a/mutants.jsonl", tmp_path / "b/mutants.jsonl", shallow=False)
    mutants = [json.loads(line) for line in (tmp_path / "a/mutants.jsonl").open()]
    operators = collections.Counter(mutant["operator"] for mutant in mutants)
    assert len(operators) == 10 and set(operators.values()) == {2}
    results = tmp_path / "results.jsonl"
    arguments = ("--mutants", tmp_path / "a", "--results", results)
    assert judge(*arguments, "--limit", "4").returncode == 0
    first = [json.loads(line)["id"] for line in results.open()]
    assert len(first) == 4
    # The rest, and nothing twice.
    done = judge(*arguments, "--shard", "0/2")
    assert done.returncode == 0, done.stdout + done.stderr
    lines = [json.loads(line) for line in results.open()]
    ids = [line["id"] for line in lines]
    assert ids[:4] == first and len(set(ids)) == len(ids) >= 10
    assert {line["outcome"] for line in lines} <= {"gate2", "rejected", "same", "not_compiled"}
    assert "counted" in done.stdout
