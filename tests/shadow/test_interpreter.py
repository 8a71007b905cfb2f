"""The shadow device computes what triton's own interpreter computes.

Kernels of the recordings, and of $KERNELOPT_CORPUS (a folder of generated modules; every
$KERNELOPT_CORPUS_EVERYth kernel) run their first instances on both, on the same numbers.
"""
import ast
import glob
import json
import os
import pathlib
import re
import subprocess
import sys

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "src/ttir/testdata"))
import compile_modules  # noqa: E402
from built import built  # noqa: E402

BLOCKS = {"XBLOCK": 16, "YBLOCK": 8, "ZBLOCK": 2, "R0_BLOCK": 32, "R1_BLOCK": 8}
TYPES = {"fp32": ("float32", np.float32), "fp64": ("float64", np.float64),
         "fp16": ("float16", np.float16), "bf16": ("bfloat16", np.uint16),
         "i64": ("int64", np.int64), "i32": ("int32", np.int32), "i16": ("int16", np.int16),
         "i8": ("int8", np.int8), "u8": ("uint8", np.uint8), "i1": ("bool", np.uint8)}
#: Bytes that a kernel's arrays may take, and lanes that it may compute: the
#: interpreter takes a tenth of a millisecond an operation.
MOST_BYTES, MOST_WORK = 64 << 20, 2_000_000


def sources():
    folders = sorted({os.path.dirname(p) for p in
                      glob.glob(str(ROOT / "examples/recordings/*/modules/*"))})
    folders += [str(ROOT / "tests/gates/capture/modules")]
    found = [kernel for folder in folders for kernel in compile_modules.sources(folder)]
    corpus = os.environ.get("KERNELOPT_CORPUS")
    if corpus:
        every = int(os.environ.get("KERNELOPT_CORPUS_EVERY", "7"))
        found += list(compile_modules.sources(corpus))[::every]
    return found


def to_bf16(x):
    bits = x.astype(np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def as_numbers(array, kind):
    """An array as doubles."""
    if kind == "bf16":
        return (array.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    return array.astype(np.float64)


def prepare(number, name, source, folder):
    """A job for both sides, or why there is none."""
    path = f"{folder}/{number:05d}"
    try:
        compiled = compile_modules.compile_kernel(name, source, path, BLOCKS,
                                                  {"num_warps": 4, "num_stages": 1})
    except Exception as error:
        return None, f"does not compile: {error!r}"[:80]
    pathlib.Path(path + ".ttir").write_text(compiled.asm["ttir"])
    signature = ast.literal_eval(re.search(r"'signature': (\{[^}]*\})", source)[1])
    declared = re.search(r"'constants': (\{[^}]*\})", source)
    constants = {k: v for k, v in BLOCKS.items() if k in signature}
    constants |= ast.literal_eval(declared[1]) if declared else {}
    names = [n for n, kind in signature.items() if kind != "constexpr"]
    grid_type = re.search(r"'grid_type': '(\w+)'", source)[1]
    grid = [2, 2 if "2D" in grid_type or "3D" in grid_type else 1, 1]
    numbers = [None if signature[n].startswith("*") else 40 for n in names]
    pathlib.Path(path + ".facts").write_text(json.dumps(
        {"grid": grid, "scalars": numbers, "elements": [None] * len(names)}))
    answer = subprocess.run([built("ttir/ttir_tool"), "ranges", path + ".ttir", path + ".facts"],
                            capture_output=True, text=True)
    if answer.returncode:
        return None, answer.stderr.strip()[:80]
    elements = [1] * len(names)
    for line in answer.stdout.splitlines():
        parameter, _, _, low, high = line.split()[:5]
        if int(parameter) < 0 or int(low) < 0 or int(high) >= 1 << 40:
            return None, "an address is not known"
        elements[int(parameter)] = max(elements[int(parameter)], int(high) + 1)
    draw = np.random.default_rng(number)
    job = {"ttir": path + ".ttir", "grid": grid, "names": names, "kinds": [], "number": number,
           "name": name, "source": path + ".py", "constants": constants, "arrays": []}
    storages, arguments = [], []
    for name_, count in zip(names, elements):
        kind = signature[name_]
        if not kind.startswith("*"):
            job["kinds"].append(None)
            value = 40 if kind.startswith("i") else 0.5
            arguments.append({"number": value})
            continue
        kind = kind[1:]
        if count * 8 > MOST_BYTES:
            return None, "is too large"
        values = draw.normal(size=count)
        if "welford" in source:  # weights are counts: negative ones cancel to nothing
            values = np.abs(values) + 0.1
        if kind == "bf16":
            array = to_bf16(values)
        elif kind in ("i1", "u8", "i8", "i16", "i32", "i64"):
            array = draw.integers(0, 2, size=count).astype(TYPES[kind][1])
        else:
            array = values.astype(TYPES[kind][1])
        job["kinds"].append(kind)
        file = f"{path}.{len(arguments)}"
        np.save(file + ".npy", array.view(np.int16) if kind == "bf16" else array)
        pathlib.Path(file + ".bin").write_bytes(array.tobytes())
        storages.append({"bytes": array.nbytes, "dtype": kind, "contents": file + ".bin"})
        arguments.append({"array": file + ".npy", "dtype": TYPES[kind][0]})
    of_storage = iter(range(len(storages)))
    launch = {"grid": grid, "storages": storages, "out": path + ".shadow", "arguments": [
        {"storage": next(of_storage)} if "array" in a else
        ({"int": a["number"]} if isinstance(a["number"], int) else {"float": a["number"]})
        for a in arguments]}
    job |= {"arguments": arguments, "out": path + ".interpreter"}
    for out in (job["out"], launch["out"]):
        pathlib.Path(out).mkdir()
    pathlib.Path(path + ".launch").write_text(json.dumps(launch))
    job["launch"] = path + ".launch"
    return job, None


def difference(job):
    """None, or a sentence: how the shadow device's arrays differ from the interpreter's."""
    storage = 0
    for argument, kind in enumerate(job["kinds"]):
        if kind is None:
            continue
        path = pathlib.Path(job["launch"].removesuffix(".launch") + f".shadow/{storage}.bin")
        storage += 1
        if not path.exists():  # not written
            continue
        ours = np.frombuffer(path.read_bytes(), TYPES[kind][1])
        theirs = np.load(f"{job['out']}/{argument}.npy").view(TYPES[kind][1])
        if np.array_equal(ours.view(np.uint8), theirs.view(np.uint8)):
            continue
        a, b = as_numbers(ours, kind), as_numbers(theirs, kind)
        if kind.startswith(("i", "u")):
            return f"{(a != b).sum()} of {a.size} integers of argument {argument} differ"
        if not np.array_equal(np.isnan(a), np.isnan(b)):
            return f"NaNs of argument {argument} differ"
        a, b = np.nan_to_num(a), np.nan_to_num(b)
        scale = max(np.abs(b[np.abs(b) < 1e30]).max(initial=0), 1e-30)
        unit = {"bf16": 2.0**-8, "fp16": 2.0**-11, "fp32": 2.0**-24, "fp64": 2.0**-53}[kind]
        # Sums of some hundred terms in another order, functions good to some ulps.
        worst = np.abs(a - b).max() / scale / unit
        if not worst < (256 if kind in ("fp32", "fp64") else 2):
            return f"argument {argument} is {worst:.3g} units off"
    return None


def evaluate(job):
    ours = subprocess.run([built("shadow/shadow_eval"), job["ttir"], job["launch"]],
                          capture_output=True, text=True)
    assert ours.returncode == 0, (job["name"], ours.stderr)
    report = json.loads(ours.stdout)
    assert report["findings"] == [], (job["name"], report["findings"])
    return report


def test_the_interpreter_computes_the_same(tmp_path):
    jobs, skipped = [], []
    for number, (name, source) in enumerate(sources()):
        job, why = prepare(number, name, source, tmp_path)
        if job and evaluate(job)["work"] > MOST_WORK:
            job, why = None, "takes too long"
        (jobs if job else skipped).append(job or (name, why))
    (tmp_path / "jobs.json").write_text(json.dumps(jobs))
    subprocess.run([sys.executable, str(ROOT / "tests/shadow/interpret.py"),
                    str(tmp_path / "jobs.json")], env=os.environ | {"TRITON_INTERPRET": "1"},
                   check=True)
    equal, differing, failed = 0, [], []
    for job in jobs:
        error = pathlib.Path(job["out"], "error")
        if error.exists():
            failed.append((job["name"], error.read_text().splitlines()[-1]))
        elif why := difference(job):
            differing.append((job["number"], job["name"], why))
        else:
            equal += 1
    for what, rows in (("skipped", skipped), ("not interpreted", failed), ("differ", differing)):
        print(f"{len(rows)} {what}", *rows[:40], sep="\n  ")
    print(f"{equal} equal")
    assert not differing
    assert equal >= 5
