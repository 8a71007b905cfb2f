"""What a command line can get wrong: exit code 2, one sentence."""
import json

import pytest
from conftest import FIXTURES


def test_version(kernelopt):
    done = kernelopt("--version")
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("kernelopt ")


def test_help_offers_what_there_is(kernelopt):
    done = kernelopt("--help")
    assert done.code == 0
    for command in ("estimate", "optimize", "resume", "show", "report", "replay", "try",
                    "verify", "doctor", "inspect"):
        assert f"\n  {command} " in done.out
    for command in ("judge", "bench", "mcp"):
        assert f"\n  {command} " not in done.out


@pytest.mark.parametrize("command", [
    "", "estimate", "optimize", "resume", "show", "report", "replay", "try", "verify", "doctor",
    "inspect", "resolve", "check-pack"])
def test_help_fits_a_terminal(kernelopt, command):
    done = kernelopt(*command.split(), "--help")
    assert (done.code, done.err) == (0, "")
    assert "Exit codes" in done.out
    assert max(map(len, done.out.splitlines())) <= 80


@pytest.mark.parametrize("arguments, part", [
    ([], "a command is missing"),
    (["frobnicate"], "'frobnicate'"),
    (["inspect"], "MODULE.py"),
    (["inspect", "--frobnicate", "x.py"], "--frobnicate"),
    (["inspect", "missing.py"], "missing.py: "),
    (["optimize"], "--recording"),
    (["optimize", "missing.py"], "missing.py: there is no such file"),
    (["optimize", "."], "folder"),
    (["optimize", "missing.py", "--modes", "fastest"], "'fastest'"),
    (["optimize", "missing.py", "--budget", "soon"], "'soon'"),
    (["optimize", "missing.py", "--min-gain", "7"], "--min-gain"),
    (["optimize", "missing.py", "--policy", "loose"], "'loose'"),
    (["optimize", "missing.py", "--entry", "function"], "module:function"),
    (["optimize", "--recording", "missing"], "capture.json"),
    (["estimate", "missing.py"], "missing.py: "),
    (["resume", "missing"], "missing"),
    (["show", "missing"], "missing"),
    (["report", "missing"], "missing"),
    (["replay", "missing", "abc"], "missing"),
    (["try", "missing", "kernel"], "CANDIDATE.py"),
    (["try", "missing", "kernel", "candidate.py"], "missing"),
    (["verify", "missing.kopt", "missing.py"], "missing"),
    (["check-pack", "missing.kopt"], "missing.kopt"),
    (["resolve", "missing.kopt", "missing.py"], "missing.kopt"),
])
def test_usage_errors(kernelopt, arguments, part):
    kernelopt(*arguments).fails(2, part)


def test_errors_as_json(kernelopt):
    done = kernelopt("inspect", "missing.py", "--json").fails(2)
    [event] = done.events()
    assert event["event"] == "error"
    assert (event["kind"], event["code"], event["where"]) == ("usage", "no_such_file", "missing.py")


def test_inspect(kernelopt):
    done = kernelopt("inspect", FIXTURES / "pointwise_and_mm.py")
    assert (done.code, done.err) == (0, "")
    assert "1 kernel, 1 launch, 2 library calls" in done.out
    assert "triton_poi_fused_relu_0" in done.out


def test_inspect_json(kernelopt):
    done = kernelopt("inspect", FIXTURES / "left_alone.py", "--json")
    module = json.loads(done.out)
    assert {"kernels", "launches", "externs", "left_alone"} <= set(module)
    assert "user_written" in {refusal["code"] for refusal in module["left_alone"]}


def test_inspect_syntax_error(kernelopt, tmp_path):
    (tmp_path / "broken.py").write_text("def f(:\n    pass\n")
    kernelopt("inspect", "broken.py").fails(2, "broken.py:1")


def test_inspect_survives_any_bytes(kernelopt, tmp_path):
    (tmp_path / "bytes.py").write_bytes(bytes(range(256)) * 40)
    assert kernelopt("inspect", "bytes.py").code == 2


def test_a_full_standard_output_is_an_error(kernelopt):
    import subprocess
    from conftest import PROGRAM
    with open("/dev/full", "w") as full:
        done = subprocess.run([PROGRAM, "inspect", str(FIXTURES / "reductions.py")], stdout=full,
                              stderr=subprocess.PIPE, text=True, timeout=60)
    assert done.returncode == 3
    assert "standard output" in done.stderr
