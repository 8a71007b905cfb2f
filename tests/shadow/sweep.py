"""Evaluates the kernels of generated modules at their recorded sizes, for developers:

    python src/ttir/testdata/compile_modules.py MODULES_DIR TTIR_DIR 1
    python tests/shadow/sweep.py MODULES_DIR TTIR_DIR [INSTANCES]

TTIR_DIR holds NUMBER.ttir. Sizes are read off the modules' text. Of each kernel the
first, last and edge instances run, INSTANCES (3) at most, on one thread; storages that
are only stored to start as poison. Prints what could not be run, and every finding,
since the compiler's kernels should have none.
"""
import ast
import collections
import functools
import glob
import json
import pathlib
import re
import subprocess
import sys
import tempfile

for folder in ("src/ttir/testdata", "tests"):
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / folder))
from built import built  # noqa: E402
from compile_modules import NARROW  # noqa: E402

BYTES = {"fp32": 4, "fp16": 2, "bf16": 2, "fp64": 8, "i64": 8, "i32": 4, "i16": 2, "i8": 1,
         "u8": 1, "i1": 1}
TUPLE = r"\((?:[\d, ]*)\)"


def kernels(folder):
    """(module's text, name, source), in compile_modules' order."""
    for path in sorted(glob.glob(f"{folder}/*")):
        text = pathlib.Path(path).read_text()
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "triton" \
                    and len(node.args) > 1 and isinstance(node.args[1], ast.Constant):
                yield text, node.args[0].value, node.args[1].value


def span(shape, stride):
    shape, stride = ast.literal_eval(shape), ast.literal_eval(stride)
    return 1 + sum((n - 1) * s for n, s in zip(shape, stride)) if all(shape) else 0


@functools.lru_cache(None)
def elements(text):
    """The elements behind each name of a module."""
    found = {}
    for form in (rf"(\w+) = empty_strided\w*\(({TUPLE}), ({TUPLE}), ",
                 rf"assert_size_stride\((\w+), ({TUPLE}), ({TUPLE})",
                 rf"(\w+) = reinterpret_tensor\(\w+, ({TUPLE}), ({TUPLE}), \d+\)"):
        for match in re.finditer(form, text):
            found[match[1]] = span(match[2], match[3])
    for _ in range(4):  # chains of reuse
        for match in re.finditer(r"^\s+(\w+) = (\w+)(?:; del \w+  # reuse|;|$| *#)", text, re.M):
            if match[2] in found:
                found.setdefault(match[1], found[match[2]])
    return found


def split_arguments(text):
    parts, depth, current = [], 0, ""
    for letter in text:
        depth += (letter in "([") - (letter in ")]")
        if letter == "," and depth == 0:
            parts.append(current.strip())
            current = ""
        else:
            current += letter
    return [*parts, current.strip()]


def launch_of(text, name, source):
    """The first launch as shadow_eval's JSON; raises LookupError where it can't be read."""
    call = re.search(rf"{re.escape(name)}\.run\((.*?), stream=", text, re.S)
    if not call:
        raise LookupError("no launch")
    signature = ast.literal_eval(re.search(r"'signature': (\{[^}]*\})", source)[1])
    names = [n for n, kind in signature.items() if kind != "constexpr"]
    values = dict(zip(names, split_arguments(call[1])))

    def blocks(axis):
        block = axis.upper() + "BLOCK"
        return -(-int(values.get(axis + "numel", 1)) // (NARROW[block] if block in signature else 1))

    kind = re.search(r"'grid_type': '(\w+)'", source)[1]
    grid = {"Grid1D": [blocks("x"), 1, 1], "Grid2D": [blocks("x"), blocks("y"), 1],
            "Grid3D": [blocks("x"), blocks("y"), blocks("z")]}.get(kind)
    if kind == "Grid2DWithYZOverflow":
        deep = -(-blocks("y") // 65535)
        grid = [blocks("x"), -(-blocks("y") // deep), deep]
    if grid is None:
        raise LookupError(f"grid {kind}")
    storages, arguments, known = [], [], {}
    for argument in names:
        type_, value = signature[argument], values[argument]
        if not type_.startswith("*"):
            number = {"int": int(value)} if type_.startswith("i") else {"float": float(value)}
            arguments.append(number)
            continue
        view = re.match(rf"reinterpret_tensor\((\w+), ({TUPLE}), ({TUPLE}), (\d+)\)", value)
        base = view[1] if view else value
        count = elements(text).get(base, 0)
        if view:
            count = max(count, int(view[4]) + span(view[2], view[3]))
        if base not in known:
            if count == 0 and base not in elements(text):
                raise LookupError(f"no size of {base}")
            known[base] = len(storages)
            storages.append({"bytes": count * BYTES[type_[1:]], "dtype": type_[1:],
                             "int_high": 1 if type_ == "*i1" else 5})
        arguments.append({"storage": known[base]})
    return {"grid": grid, "storages": storages, "arguments": arguments, "seed": 1, "threads": 1}


def poison_what_is_only_stored(launch, ttir, folder):
    facts = {"grid": launch["grid"], "scalars": [a.get("int") for a in launch["arguments"]],
             "elements": [None] * len(launch["arguments"])}
    (folder / "facts").write_text(json.dumps(facts))
    ranges = subprocess.run([built("ttir/ttir_tool"), "ranges", ttir, folder / "facts"],
                            capture_output=True, text=True)
    rows = [line.split() for line in ranges.stdout.splitlines()]
    if ranges.returncode or any(int(row[0]) < 0 for row in rows):
        return
    loaded = {launch["arguments"][int(row[0])]["storage"] for row in rows if row[1] != "store"}
    for number, storage in enumerate(launch["storages"]):
        if number not in loaded:
            storage["role"] = "poison"


def main():
    folder, texts = sys.argv[1:3]
    work_folder = pathlib.Path(tempfile.mkdtemp())
    count, work, seconds = collections.Counter(), 0, 0.0
    for number, (text, name, source) in enumerate(kernels(folder)):
        ttir = pathlib.Path(texts, f"{number:05d}.ttir")
        if not ttir.exists():
            count["not compiled"] += 1
            print("not compiled", number, name)
            continue
        try:
            launch = launch_of(text, name, source)
        except LookupError as error:
            count["not read"] += 1
            print("not read", number, name, error)
            continue
        poison_what_is_only_stored(launch, ttir, work_folder)
        launch["instances"] = int(sys.argv[3]) if len(sys.argv) > 3 else 3
        (work_folder / "launch").write_text(json.dumps(launch))
        done = subprocess.run([built("shadow/shadow_eval"), ttir, work_folder / "launch"],
                              capture_output=True, text=True)
        if done.returncode:
            count["refused"] += 1
            print("refused", number, name, done.stderr.strip())
            continue
        report = json.loads(done.stdout)
        count["evaluated"] += 1
        count["poisoned storages"] += sum("role" in s for s in launch["storages"])
        work, seconds = work + report["work"], seconds + report["seconds"]
        if report["findings"] or report["written"] == 0:
            count["with findings"] += 1
            print("finding", number, name, *(f["text"] for f in report["findings"]))
    print(dict(count), f"{work / max(seconds, 1e-9) / 1e6:.0f} million lanes a second")


if __name__ == "__main__":
    main()
