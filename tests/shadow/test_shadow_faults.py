"""Faults in real kernels are found at their lines, and none is found in right ones."""
import json
import pathlib
import subprocess

import kernels
import pytest
import triton
from built import built
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

SOURCE = pathlib.Path(kernels.__file__).read_text().splitlines()


def line_of(text):
    return 1 + next(i for i, line in enumerate(SOURCE) if text in line)


def run(tmp_path, kernel, storages, numbers, grid, instances=0, **constants):
    names = kernel.arg_names
    signature = {n: "constexpr" if n in constants else "i32" for n in names}
    arguments, spare = [], iter(enumerate(storages))
    for name in names:
        if name.endswith("_ptr"):
            index, storage = next(spare)
            signature[name] = {"fp32": "*fp32", "i8": "*i8", "i32": "*i32"}[storage["dtype"]]
            arguments.append({"storage": index})
        elif name not in constants:
            arguments.append({"int": numbers[name]})
    compiled = triton.compile(
        ASTSource(kernel, signature, {(names.index(n),): v for n, v in constants.items()}),
        target=GPUTarget("cuda", 90, 32))
    (tmp_path / "k.ttir").write_text(compiled.asm["ttir"])
    launch = {"grid": [grid, 1, 1], "storages": storages, "arguments": arguments,
              "instances": instances, "seed": 3}
    if instances == 0:
        launch["out"] = str(tmp_path)
    (tmp_path / "k.json").write_text(json.dumps(launch))
    done = subprocess.run([built("shadow/shadow_eval"), tmp_path / "k.ttir", tmp_path / "k.json"],
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def floats(count, role="data"):
    return {"bytes": 4 * count, "dtype": "fp32", "role": role}


@pytest.mark.parametrize("grid, written", [(5, 5000), (4, 4096)])
def test_a_tail_that_is_not_written(tmp_path, grid, written):
    report = run(tmp_path, kernels.double_it, [floats(5000), floats(5000, "poison")], {"n": 5000},
                 grid, BLOCK=1024)
    assert report["findings"] == []
    # What a check compares: the rounded-down grid leaves 904 elements.
    assert report["written"] == written
    assert sum((tmp_path / "1.mask").read_bytes()) == written


@pytest.mark.parametrize("barrier", [True, False])
def test_scratch_without_a_barrier(tmp_path, barrier):
    rows, width = 20_000, 2048
    report = run(tmp_path, kernels.mirror_rows,
                 [floats(rows * width)] + 2 * [floats(rows * width, "poison")], {}, rows,
                 instances=8, N=width, BARRIER=barrier)
    if barrier:
        assert report["findings"] == []
    else:
        [finding] = report["findings"]
        assert (finding["kind"], finding["source_line"]) == (
            "lane_conflict", line_of("# line 22"))


@pytest.mark.parametrize("wide", [True, False])
def test_offsets_beyond_32_bits(tmp_path, wide):
    rows, width = 2049, 1 << 20
    byte = {"bytes": rows * width, "dtype": "i8", "int_low": -128, "int_high": 127}
    report = run(tmp_path, kernels.invert_rows, [byte, byte | {"role": "poison"}],
                 {"width": width}, rows, instances=3, BLOCK=4096, WIDE=wide)
    if wide:
        assert report["findings"] == []
    else:
        assert {(f["kind"], f["source_line"], f["store"]) for f in report["findings"]} == {
            ("out_of_bounds", line_of("# line 33"), store) for store in (True, False)}
        assert report["findings"][0]["amount"] == -(1 << 31)


@pytest.mark.parametrize("atomic", [True, False])
def test_instances_that_add_to_one_place(tmp_path, atomic):
    report = run(tmp_path, kernels.accumulate, [floats(512), floats(64)], {}, 8, BLOCK=64,
                 ATOMIC=atomic)
    assert {(f["kind"], f["source_line"]) for f in report["findings"]} == (
        set() if atomic else {(kind, line_of("# line 43")) for kind in
                              ("read_write", "write_write")})


@pytest.mark.parametrize("first", [0, 1])
def test_instances_that_wait(tmp_path, first):
    word = {"bytes": 4, "dtype": "i32", "role": "zeros"}
    out = {"bytes": 64, "dtype": "i32", "role": "poison"}
    report = run(tmp_path, kernels.hand_over, [word, out], {}, 16, FIRST=first)
    assert [f["kind"] for f in report["findings"]] == (["deadlock"] if first else [])
    assert report["instances"] == (0 if first else 16)
