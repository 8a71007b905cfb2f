"""Makes what shadow_gpu_test compares, on a machine without a GPU:

    python tests/shadow/gpu_jobs.py OUT [MODULES_DIR SEED COUNT]

Every launch of examples/recordings as it was recorded, and COUNT kernels of the
generated modules in MODULES_DIR, drawn by SEED, in one configuration, at the sizes
that the modules' text has. OUT gets jobs.json, NUMBER.ttir and
NUMBER.cubin; `shadow_gpu_test OUT` on a GPU machine needs nothing else.
"""
from __future__ import annotations

import ast
import json
import pathlib
import random
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
for folder in ("src/ttir/testdata", "tests", "python"):
    sys.path.insert(0, str(ROOT / folder))
import compile_modules  # noqa: E402
import sweep  # noqa: E402
from kernelopt import kernels  # noqa: E402


def parameters_of(name, source):
    """The names of all arguments of a kernel, and its signature."""
    entry = next(n for n in ast.parse(source).body
                 if isinstance(n, ast.FunctionDef) and n.name == name)
    return ([a.arg for a in entry.args.args],
            ast.literal_eval(re.search(r"'signature': (\{[^}]*\})", source)[1]))


def with_constants(names, signature, arguments):
    """Arguments of what is no constexpr, as one for every name."""
    given = iter(arguments)
    return [{"int": 0} if signature[n] == "constexpr" else next(given) for n in names]


def recorded(folder):
    """(name, source, configuration, launch) of each launch of a recording."""
    capture = json.loads((folder / "capture.json").read_text())
    sources = {name: source for _, name, source in sweep.kernels(str(folder / "modules"))}
    sizes = {s["id"]: s["bytes"] for s in capture["variants"][0]["storages"]}
    for event in (e for g in capture["variants"][0]["graphs"] for e in g["events"]):
        if event["kind"] != "launch" or event["name"] not in sources:
            continue
        storages, arguments, known = [], [], {}
        for argument in event["arguments"]:
            tensor = argument.get("tensor")
            if tensor is None:
                arguments.append(argument)
                continue
            if tensor["storage"] not in known:
                known[tensor["storage"]] = len(storages)
                storage = {"bytes": sizes[tensor["storage"]], "dtype": tensor["dtype"]}
                low, high = tensor.get("low"), tensor.get("high")
                if low is not None and tensor["dtype"].startswith(("fp", "bf")):
                    storage |= {"float_low": low, "float_high": high}
                elif low is not None:
                    storage |= {"int_low": int(low), "int_high": int(high)}
                storages.append(storage)
            arguments.append({"storage": known[tensor["storage"]],
                              "offset": tensor["offset"] * sweep.BYTES[tensor["dtype"]]})
        names, _ = parameters_of(event["name"], sources[event["name"]])
        arguments += [{"int": 0}] * (len(names) - len(arguments))
        yield (event["name"], sources[event["name"]], event["config"],
               {"grid": event["grid"], "storages": storages, "arguments": arguments})


def drawn(folder, seed, count):
    """The same of kernels of generated modules."""
    found = list(sweep.kernels(folder))
    random.Random(seed).shuffle(found)
    made = 0
    for text, name, source in found:
        try:
            launch = sweep.launch_of(text, name, source)
        except LookupError as error:
            print("not read", name, error)
            continue
        names, signature = parameters_of(name, source)
        launch["arguments"] = with_constants(names, signature, launch["arguments"])
        yield (name, source, compile_modules.NARROW | {"num_warps": 4, "num_stages": 1},
               {key: launch[key] for key in ("grid", "storages", "arguments")})
        made += 1
        if made == count:
            return


def write(asked, out):
    """jobs.json and its files in the folder `out`; the jobs."""
    out.mkdir(parents=True, exist_ok=True)
    jobs = []
    for number, (name, source, config, launch) in enumerate(asked):
        path = str(out / f"{number:05d}")
        options = {key: config[key] for key in ("num_warps", "num_stages")}
        kernel = compile_modules.compile_kernel(name, source, path, config, options)
        pathlib.Path(path + ".py").unlink()
        described = kernels._describe(kernel)
        pathlib.Path(path + ".cubin").write_bytes(described.cubin)
        pathlib.Path(path + ".ttir").write_text(described.ttir)
        jobs.append({"name": name, "files": f"{number:05d}", "record": described.record} | launch)
    (out / "jobs.json").write_text(json.dumps(jobs))
    return jobs


def main():
    out = pathlib.Path(sys.argv[1])
    asked = [launch for folder in sorted((ROOT / "examples/recordings").iterdir())
             for launch in recorded(folder)]
    if len(sys.argv) > 2:
        asked += drawn(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
    jobs = write(asked, out)
    size = sum(path.stat().st_size for path in out.iterdir())
    print(f"{len(jobs)} jobs, {size / 1e6:.1f} MB in {out}")


if __name__ == "__main__":
    main()
