"""One model, timed in turns: torch.compile default, coordinate descent, and a pack.

    python tests/gpu/compare_modes.py MODEL.py [--pack P] [--blocks 8] [--json OUT]

Three fresh processes take bursts in rotating order, so that drift meets all of
them alike. Prints microseconds a call (median of bursts) and the speed-up over
default of each; with --json the raw bursts too.
"""
from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time

SIDES = ("default", "coordinate_descent", "ours")


def side_main(args: argparse.Namespace) -> int:
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..",
                                    "python"))
    import torch

    import kernelopt
    from kernelopt.model import ModelSource, Variant, run

    if args.side == "ours":
        kernelopt.load(args.pack, allow_preview=True)
    if args.side == "coordinate_descent":
        import torch._inductor.config as config
        config.coordinate_descent_tuning = True
    source = ModelSource(args.model)
    built = source.build()
    compiled = torch.compile(built.module)

    def call() -> None:
        run(source, compiled, built, Variant())

    start = time.perf_counter()
    for _ in range(5):
        call()
    torch.cuda.synchronize()
    first = time.perf_counter() - start
    start = time.perf_counter()
    call()
    torch.cuda.synchronize()
    calls = max(2, min(2000, int(0.1 / max(time.perf_counter() - start, 1e-6))))
    print(f"READY {first} {len(kernelopt.stats()['swapped'])}", flush=True)
    for line in sys.stdin:
        if line.strip() != "burst":
            break
        start = time.perf_counter()
        for _ in range(calls):
            call()
        torch.cuda.synchronize()
        print(f"TIME {(time.perf_counter() - start) / calls * 1e6}", flush=True)
    return 0


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("--pack", default="")
    parser.add_argument("--blocks", type=int, default=8)
    parser.add_argument("--json", default="")
    parser.add_argument("--side", choices=SIDES, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.side:
        return side_main(args)
    sides = [s for s in SIDES if s != "ours" or args.pack]
    processes = {}
    for side in sides:
        processes[side] = subprocess.Popen(
            [sys.executable, os.path.abspath(__file__), args.model, "--pack", args.pack,
             "--side", side], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env={**os.environ,
                 "TORCHINDUCTOR_CACHE_DIR": f"/tmp/compare_modes_{os.getpid()}_{side}"})

    def line(side: str, start: str) -> list[str]:
        for text in processes[side].stdout:
            if text.startswith(start):
                return text.split()[1:]
        for process in processes.values():
            process.kill()
        raise SystemExit(f"compare_modes: side {side} ended by itself")

    ready = {side: line(side, "READY") for side in sides}
    bursts: dict[str, list[float]] = {side: [] for side in sides}
    for block in range(args.blocks):
        order = sides[block % len(sides):] + sides[:block % len(sides)]
        for side in order:
            processes[side].stdin.write("burst\n")
            processes[side].stdin.flush()
            bursts[side].append(float(line(side, "TIME")[0]))
    for process in processes.values():
        process.stdin.close()
        process.wait(timeout=30)
    medians = {side: statistics.median(times) for side, times in bursts.items()}
    text = ", ".join(f"{side} {us:.1f} us ({medians['default'] / us:.3f}x)"
                     for side, us in medians.items())
    swapped = ready["ours"][1] if "ours" in ready else "0"
    print(f"{os.path.basename(args.model)}: {text}, {swapped} swapped")
    if args.json:
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump({"model": os.path.basename(args.model), "bursts_us": bursts,
                       "medians_us": medians, "swapped": int(swapped)}, file)
    return 0


if __name__ == "__main__":
    sys.exit(main())
