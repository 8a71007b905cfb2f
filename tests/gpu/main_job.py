"""The main job on a GPU, end to end: optimize, load in fresh processes, trace, undo.

    python tests/gpu/main_job.py OUT [--only NAME,...] [--again] [--only-optimize]
                                 [--record DIR]

`kernelopt optimize` on each example (timed). Then every pack is taken through a
tracer pack, the first one through the off switch, another example's model, an
edited model and another assembler, and at last, one after the other, each through
recheck.py (fresh processes, cold and warm FX-graph cache). Prints one line a check;
exit code 0 when all hold. --again takes the packs that OUT has from an earlier
call; --only-optimize ends after making them; --record keeps each example's capture
as DIR/NAME, as examples/recordings has them.
"""
from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
PROGRAM = os.environ.get("KERNELOPT_BINARY", os.path.join(ROOT, "kernelopt"))
#: example, options of optimize, (mode, train) sections to check
CASES = [
    ("vocabulary_softmax", [], [("default", False)]),
    ("transformer_block", [], [("default", False)]),
    ("conv_bn_relu_pool", ["--train"], [("default", False), ("default", True)]),
    ("language_model_loss", ["--modes", "default,reduce-overhead"],
     [("default", False), ("reduce-overhead", False)]),
    ("pooling", [], [("default", False)]),
    ("long_softmax", [], [("default", False)]),
    ("loss_reductions", [], [("default", False)]),
    ("matmul_only", [], []),
]

lines: list[str] = []
failures = 0


def say(good: bool, text: str) -> None:
    global failures
    failures += not good
    lines.append(("ok     " if good else "FAILED ") + text)
    print(lines[-1], flush=True)


def example(name: str) -> str:
    return os.path.join(ROOT, "examples", name + ".py")


def call(command: list[str], log: str, seconds: int = 400, **env: str) -> tuple[int, str]:
    """Exit code and standard output, which goes to the log as it comes; the other
    stream to LOG.err."""
    with (open(log, "w+", encoding="utf-8") as out, open(log + ".err", "w") as err):
        try:
            code = subprocess.run(command, stdout=out, stderr=err, timeout=seconds,
                                  env={**os.environ, **env}).returncode
        except subprocess.TimeoutExpired:
            return 124, ""
        out.seek(0)
        return code, out.read()


def swap(out: str, label: str, model: str, mode: str = "default", train: bool = False,
         pack: str = "", cache: str = "", **env: str) -> dict:
    command = [sys.executable, os.path.join(HERE, "swap_check.py"), model, "--mode", mode]
    command += ["--train"] if train else []
    command += ["--pack", pack] if pack else []
    command += ["--cache", cache] if cache else []
    code, text = call(command, os.path.join(out, f"swap-{label}.log"), **env)
    return json.loads(text.strip().splitlines()[-1]) if code == 0 else {"exit": code}


def optimize(out: str, name: str, options: list[str], again: bool) -> str:
    """The pack's path, or "" when the model was kept. `again`: what an earlier call with
    the same OUT came to is taken, where there was one."""
    run = os.path.join(out, name)
    pack = os.path.join(run, name + ".kopt")
    if again and os.path.isdir(run):
        return pack if os.path.isdir(pack) else ""
    start = time.monotonic()
    code, text = call([PROGRAM, "optimize", example(name), "--out", run, *options],
                      os.path.join(out, f"optimize-{name}.log"), seconds=600)
    seconds = time.monotonic() - start
    closing = " | ".join(text.strip().splitlines()[-4:])
    made = os.path.isdir(pack)
    # The time limit is for the default variant alone.
    say(code == 0 and (seconds < 180 or bool(options)),
        f"{name}: optimize {' '.join(options)} exit {code}, {seconds:.0f} s, "
        f"{'pack' if made else 'kept'}: {closing[-400:]}")
    return pack if made else ""


def record(capture: str, to: str) -> None:
    """A copy of a capture with nothing in it that names one machine."""
    shutil.rmtree(to, ignore_errors=True)
    shutil.copytree(capture, to)
    path = os.path.join(to, "capture.json")
    with open(path, encoding="utf-8") as file:
        text = json.load(file)
    text["device"]["uuid"] = ""
    text["model"]["file"] = os.path.basename(text["model"]["file"])
    with open(path, "w", encoding="utf-8") as file:
        json.dump(text, file, separators=(",", ":"))


def packed_sections(name: str, pack: str,
                    sections: list[tuple[str, bool]]) -> list[tuple[str, bool]]:
    """Those that the pack has."""
    with open(os.path.join(pack, "manifest.json"), encoding="utf-8") as file:
        manifest = json.load(file)
    packed = {(v["mode"], v["train"]) for v in manifest["variants"]}
    for mode, train in sections:
        if (mode, train) not in packed:
            print(f"       {section_label(name, mode, train)}: kept by the compiler, not in the "
                  "pack", flush=True)
    return [section for section in sections if section in packed]


def section_label(name: str, mode: str, train: bool) -> str:
    return f"{name} {mode}{' train' if train else ''}"


def make_tracer(out: str, name: str, pack: str) -> str:
    tracer = os.path.join(out, name + "-tracer.kopt")
    shutil.rmtree(tracer, ignore_errors=True)
    code, text = call([sys.executable, os.path.join(HERE, "make_tracer.py"), pack,
                       os.path.join(os.path.dirname(pack), "capture", "modules"), tracer],
                      os.path.join(out, f"tracer-{name}.log"))
    say(code == 0, f"{name}: {text.strip() or 'no tracer'}")
    return tracer


def check_tracer(out: str, name: str, tracer: str, mode: str, train: bool) -> None:
    """A pack whose kernels add 1 changes the output, with a cold and a warm cache."""
    label = section_label(name, mode, train)
    file_label = label.replace(" ", "-")
    cache = os.path.join(out, "cache-" + file_label)
    with ThreadPoolExecutor() as pool:
        plain = pool.submit(swap, out, f"{file_label}-plain", example(name), mode, train)
        traced = {warmth: swap(out, f"{file_label}-{warmth}", example(name), mode, train,
                               tracer, cache) for warmth in ("cold", "warm")}
    # Adding 1 to an inner tensor may change the output little, but far more than rounding does.
    for warmth, got in traced.items():
        say(got.get("swapped", 0) > 0 and got["kopt"] > 0
            and got["change"] > 100 * plain.result().get("change", float("inf")),
            f"{label}: tracer, {warmth} cache: {got}, without a pack {plain.result()}")
    shutil.rmtree(cache, ignore_errors=True)


def check_again(out: str, name: str, pack: str, mode: str, train: bool) -> None:
    """recheck.py, which must have the GPU for itself."""
    label = section_label(name, mode, train)
    command = [sys.executable, os.path.join(HERE, "recheck.py"), pack, example(name),
               "--mode", mode] + (["--train"] if train else [])
    code, text = call(command, os.path.join(out, f"recheck-{label.replace(' ', '-')}.log"))
    say(code == 0, f"{label}: {text.strip()[-500:]}")


def check_undo(out: str, name: str, pack: str, other: str) -> None:
    """What must swap nothing, and what must swap only in part."""
    import triton

    with open(example(name), encoding="utf-8") as file:
        text = file.read()
    edited = os.path.join(out, name + "_edited.py")
    with open(edited, "w", encoding="utf-8") as file:
        file.write(re.sub(r"^(ROWS|BATCH) = (\d+)", lambda m: f"{m[1]} = {int(m[2]) // 2}", text,
                          flags=re.MULTILINE))
    ptxas = os.path.join(os.path.dirname(triton.__file__), "backends", "nvidia", "bin", "ptxas")
    with ThreadPoolExecutor() as pool:
        disabled = pool.submit(swap, out, f"{name}-disabled", example(name), pack=pack,
                               KERNELOPT_DISABLE="1")
        foreign = pool.submit(swap, out, f"{name}-in-{other}", example(other), pack=pack)
        changed = pool.submit(swap, out, f"{name}-edited", edited, pack=pack)
        assembled = pool.submit(swap, out, f"{name}-ptxas", example(name), pack=pack,
                                TRITON_PTXAS_PATH=ptxas,
                                TORCHINDUCTOR_CACHE_DIR=os.path.join(out, "cache-ptxas"),
                                TRITON_CACHE_DIR=os.path.join(out, "cache-ptxas-triton"))
    got = disabled.result()
    say(got.get("swapped") == 0 and set(got["misses"]) == {"disabled"}, f"{name}: disabled: {got}")
    got = foreign.result()
    say(got.get("swapped") == 0, f"{name}'s pack in {other}: {got}")
    got = changed.result()
    say(got.get("swapped") == 0, f"{name}: one line edited: {got}")
    got = assembled.result()
    say(got.get("swapped") == 0 and "binary_differs" in got["misses"],
        f"{name}: another assembler: {got}")


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("out")
    parser.add_argument("--only", default="")
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--only-optimize", action="store_true")
    parser.add_argument("--record", default="")
    args = parser.parse_args()
    os.makedirs(args.out, exist_ok=True)
    wanted = args.only.split(",") if args.only else [c[0] for c in CASES]
    packs = {}
    for name, options, _ in CASES:
        if name not in wanted:
            continue
        pack = optimize(args.out, name, options, args.again)
        capture = os.path.join(args.out, name, "capture")
        if args.record and os.path.isdir(capture):
            record(capture, os.path.join(args.record, name))
        if name == "matmul_only":
            say(not pack, "matmul_only: kept")
        if pack:
            packs[name] = pack
    sections = [(name, packs[name], mode, train) for name, _, listed in CASES if name in packs
                for mode, train in packed_sections(name, packs[name], listed)]
    if packs and not args.only_optimize:
        # What changes outputs is seen whatever else runs; what is timed must run alone.
        with ThreadPoolExecutor(max_workers=4) as pool:
            tracers = dict(zip(packs, pool.map(lambda n: make_tracer(args.out, n, packs[n]),
                                               packs)))
            checks = [pool.submit(check_tracer, args.out, name, tracers[name], mode, train)
                      for name, _, mode, train in sections]
            first = next(iter(packs))
            checks.append(pool.submit(check_undo, args.out, first, packs[first],
                                      "vocabulary_softmax" if first == "pooling" else "pooling"))
            for check in checks:
                check.result()
        for name, pack, mode, train in sections:
            check_again(args.out, name, pack, mode, train)
    print(f"{len(lines) - failures} passed, {failures} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
