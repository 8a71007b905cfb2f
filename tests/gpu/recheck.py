"""An independent checker of packs: is the model still right, is it still faster?

    python tests/gpu/recheck.py PACK MODEL.py [--mode reduce-overhead] [--train] [--json OUT]

Own code on purpose: it uses the public `kernelopt.load` and `kernelopt.stats`
and plain torch, and nothing of the judge, the gates or the loader's verify
mode. Each side runs in fresh processes: the compiler's with no pack, ours with
the pack and plain torch.compile, once with a cold and once with a warm
FX-graph cache. Each side compares itself in full with eager float64 over
several seeds and input scales: outputs, mutated inputs, buffers, gradients.
Then both sides are timed in turns. Exit code 0: all of it holds.

A tensor passes when its relative L2 error and its largest error (over the
largest reference value) are at most twice the worse of eager's and the
compiler's, plus two roundings of its type; integers must be equal.
"""
from __future__ import annotations

import argparse
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

SEEDS = (7, 1001, 31337)
SCALES = (1.0, 1e-2, 30.0)


# ---- one side, in a process of its own --------------------------------------

def side_main(args: argparse.Namespace) -> int:
    import torch

    if args.side == "ours":
        import kernelopt
        kernelopt.load(args.pack, allow_preview=True)
    spec = importlib.util.spec_from_file_location("recheck_model", args.model)
    user = importlib.util.module_from_spec(spec)
    sys.modules["recheck_model"] = user
    spec.loader.exec_module(user)

    def build() -> tuple[Any, list[Any]]:
        torch.manual_seed(42)
        init = user.get_init_inputs() if hasattr(user, "get_init_inputs") else []
        model = user.Model(*init).cuda()
        return model, [on_gpu(a) for a in user.get_inputs()]

    def on_gpu(value: Any) -> Any:
        return value.cuda() if isinstance(value, torch.Tensor) and value.dim() else value

    def drawn(inputs: list[Any], seed: int, scale: float) -> list[Any]:
        torch.manual_seed(seed)
        out = []
        for value in inputs:
            if isinstance(value, torch.Tensor) and value.is_floating_point():
                fresh = torch.empty_strided(value.size(), value.stride(), dtype=value.dtype,
                                            device=value.device)
                # The first scale keeps the user's own values.
                out.append(fresh.copy_(value) if scale == 1.0 else fresh.normal_(0, scale))
            else:
                out.append(value.clone() if isinstance(value, torch.Tensor) else value)
        return out

    def snapshot(model: Any) -> dict[str, Any]:
        return {n: t.detach().clone() for n, t in model.state_dict().items()}

    def call(fn: Any, model: Any, inputs: list[Any], seed: int) -> dict[str, Any]:
        """Named results of one call; the model's state is part of them."""
        torch.manual_seed(seed)
        model.zero_grad(set_to_none=True)
        if args.train:
            output = fn(*inputs)
            sum(t.float().mean() if t.dtype != torch.float64 else t.mean()
                for t in flat(output) if t.requires_grad).backward()
        else:
            with torch.no_grad():
                output = fn(*inputs)
        named = {f"output {i}": t for i, t in enumerate(flat(output))}
        named |= {f"input {i}": t for i, t in enumerate(inputs) if isinstance(t, torch.Tensor)}
        named |= {f"buffer {n}": t for n, t in model.named_buffers()}
        if args.train:
            named |= {f"grad {n}": p.grad for n, p in model.named_parameters()
                      if p.grad is not None}
        return {n: t.detach().clone() for n, t in named.items()}

    def flat(value: Any) -> list[Any]:
        if isinstance(value, torch.Tensor):
            return [value]
        if isinstance(value, dict):
            value = list(value.values())
        return [t for v in value for t in flat(v)] if isinstance(value, (list, tuple)) else []

    def error(value: Any, reference: Any) -> list[float]:
        """[relative L2, largest over largest]; sums in slices, in float64."""
        v, r = value.reshape(-1), reference.reshape(-1)
        difference = norm = worst = top = 0.0
        for i in range(0, v.numel(), 1 << 24):
            a, b = v[i:i + (1 << 24)].double(), r[i:i + (1 << 24)].double()
            both = torch.isfinite(a) & torch.isfinite(b)
            if not torch.equal(torch.isnan(a), torch.isnan(b.to(value.dtype))):
                return [float("inf")] * 2
            d = torch.where(both, a - b, 0).abs()
            b = torch.where(both, b, 0).abs()
            difference += float(d.square().sum())
            norm += float(b.square().sum())
            worst, top = max(worst, float(d.max())), max(top, float(b.max()))
        tiny = 1e-300
        return [(difference / max(norm, tiny)) ** 0.5, worst / max(top, tiny)]

    tf32 = (torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.deterministic = True
    model, inputs = build()
    compiled = torch.compile(model, mode=None if args.mode == "default" else args.mode)
    state = snapshot(model)
    report: dict[str, Any] = {"sets": []}
    for seed, scale in zip(SEEDS, SCALES):
        warm = drawn(inputs, seed, scale)
        for _ in range(3):
            call(compiled, model, drawn(inputs, seed, scale), seed)
        model.load_state_dict(state)
        got = call(compiled, model, warm, seed)
        model.load_state_dict(state)
        eager = call(model, model, drawn(inputs, seed, scale), seed)
        model.load_state_dict(state)
        kept = [(t, t.data) for t in (*model.parameters(), *model.buffers())
                if t.is_floating_point()]
        model.zero_grad(set_to_none=True)
        for tensor, data in kept:
            tensor.data = data.double()
        wide = [t.double() if isinstance(t, torch.Tensor) and t.is_floating_point() else t
                for t in drawn(inputs, seed, scale)]
        exact = call(model, model, wide, seed)
        model.zero_grad(set_to_none=True)
        for tensor, data in kept:
            tensor.data = data
        model.load_state_dict(state)
        rows = []
        for name, value in got.items():
            row = {"name": name, "dtype": str(value.dtype), "shape": list(value.shape),
                   "stride": list(value.stride())}
            if value.is_floating_point():
                row["error"] = error(value, exact[name])
                row["eager_error"] = error(eager[name], exact[name])
                row["unit"] = torch.finfo(value.dtype).eps
            else:
                row["equal"] = bool(torch.equal(value, eager[name]))
            rows.append(row)
        report["sets"].append({"seed": seed, "scale": scale, "tensors": rows})
        del exact, wide, eager, got
    torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = tf32
    torch.backends.cudnn.deterministic = False

    from torch.profiler import ProfilerActivity, profile

    def plain() -> None:
        model.zero_grad(set_to_none=True)
        if args.train:
            sum(t.float().mean() for t in flat(compiled(*inputs)) if t.requires_grad).backward()
        else:
            with torch.no_grad():
                compiled(*inputs)

    for _ in range(4):
        plain()
    with profile(activities=[ProfilerActivity.CUDA], acc_events=True) as profiler:
        plain()
        torch.cuda.synchronize()
    names: dict[str, int] = {}
    for event in profiler.events():
        if event.device_type == torch.autograd.DeviceType.CUDA:
            names[event.name] = names.get(event.name, 0) + 1
    report["launches"] = names
    if args.side == "ours":
        report["stats"] = kernelopt.stats()
    print("REPORT " + json.dumps(report), flush=True)
    start = time.perf_counter()
    plain()
    torch.cuda.synchronize()
    calls = max(2, min(2000, int(0.1 / max(time.perf_counter() - start, 1e-6))))
    for line in sys.stdin:
        if line.strip() != "burst":
            break
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(calls):
            plain()
        torch.cuda.synchronize()
        print(f"TIME {(time.perf_counter() - start) / calls * 1e6}", flush=True)
    return 0


# ---- the parent --------------------------------------------------------------

class Side:
    """One side's process; `report` after it is up, `burst` in microseconds a call."""

    def __init__(self, args: argparse.Namespace, side: str, cache: str) -> None:
        command = [sys.executable, os.path.abspath(__file__), args.pack, args.model,
                   "--mode", args.mode, "--side", side]
        if args.train:
            command.append("--train")
        env = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": cache,
               "TRITON_CACHE_DIR": os.path.join(cache, "triton")}
        env.pop("KERNELOPT_PACK", None)
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True, env=env)
        self.report = json.loads(self._line("REPORT "))

    def _line(self, start: str) -> str:
        for line in self.process.stdout:
            if line.startswith(start):
                return line[len(start):]
        raise SystemExit(f"recheck: a side ended by itself (exit code {self.process.wait()})")

    def burst(self) -> float:
        self.process.stdin.write("burst\n")
        self.process.stdin.flush()
        return float(self._line("TIME "))

    def end(self) -> None:
        self.process.stdin.close()
        try:
            self.process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def compare_sides(ours: dict[str, Any], theirs: dict[str, Any]) -> list[str]:
    """What is wrong with ours; empty when nothing is."""
    wrong = []
    for mine, other in zip(ours["sets"], theirs["sets"]):
        place = f"seed {mine['seed']}, scale {mine['scale']}"
        rows = {r["name"]: r for r in other["tensors"]}
        if [r["name"] for r in mine["tensors"]] != list(rows):
            wrong.append(f"{place}: other tensors came out")
        for row in mine["tensors"]:
            base = rows.get(row["name"], row)
            for field in ("dtype", "shape", "stride"):
                if row[field] != base[field]:
                    wrong.append(f"{place}: {row['name']} has {field} {row[field]}, the "
                                 f"compiler's has {base[field]}")
            if "equal" in row:
                if not row["equal"] and base.get("equal"):
                    wrong.append(f"{place}: {row['name']} differs from eager's integers")
                continue
            for what, e, b, g in zip(("L2", "largest"), row["error"], base["error"],
                                     row["eager_error"]):
                if not e <= 2 * max(b, g) + 2 * row["unit"]:
                    wrong.append(f"{place}: {row['name']} has {what} error {e:.3g}; the "
                                 f"compiler's {b:.3g}, eager's {g:.3g}")
    return wrong


def count_swaps(ours: dict[str, Any], theirs: dict[str, Any]) -> list[str]:
    """Launch counts from the profiler: ours runs what it says, and nothing else changed."""
    wrong = []
    swapped = {s["kernel"] for s in ours["stats"]["swapped"]}
    if not swapped:
        wrong.append(f"nothing was swapped: {ours['stats']['misses'][:3]}")
    expected: dict[str, int] = {}
    for name, count in theirs["launches"].items():
        expected[name + "__kopt" if name in swapped else name] = count
    if expected != ours["launches"]:
        different = {n: (expected.get(n, 0), ours["launches"].get(n, 0))
                     for n in {*expected, *ours["launches"]}
                     if expected.get(n, 0) != ours["launches"].get(n, 0)}
        wrong.append(f"other kernels ran (expected, found): {different}")
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("pack")
    parser.add_argument("model")
    parser.add_argument("--mode", default="default")
    parser.add_argument("--train", action="store_true")
    parser.add_argument("--json", default="")
    parser.add_argument("--blocks", type=int, default=12)
    parser.add_argument("--side", choices=("ours", "compiler"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.side:
        return side_main(args)

    wrong: list[str] = []
    with tempfile.TemporaryDirectory() as cold, tempfile.TemporaryDirectory() as theirs_cache:
        with ThreadPoolExecutor() as pool:
            starting = pool.submit(Side, args, "compiler", theirs_cache)
            first = Side(args, "ours", cold)
            first.end()
            ours = Side(args, "ours", cold)  # the same cache, now warm
            theirs = starting.result()
        for label, report in (("cold cache", first.report), ("warm cache", ours.report)):
            wrong += [f"{label}: {w}" for w in (*compare_sides(report, theirs.report),
                                                *count_swaps(report, theirs.report))]
        ratios = []
        for _ in range(args.blocks):
            a, b, c, d = theirs.burst(), ours.burst(), ours.burst(), theirs.burst()
            ratios.append((a + d) / (b + c))
        ours.end()
        theirs.end()
    speedup = statistics.median(ratios)
    with open(os.path.join(args.pack, "manifest.json"), encoding="utf-8") as file:
        manifest = json.load(file)
    section = next((v for v in manifest["variants"]
                    if v["mode"] == args.mode and v["train"] == args.train), None)
    if section is None:
        wrong.append(f"the pack has no section for mode {args.mode}, train {args.train}")
    else:
        said = section["speedup"]
        if not said["lo"] * 0.98 <= speedup <= said["hi"] * 1.02:
            wrong.append(f"speed-up {speedup:.4f} lies outside the reported "
                         f"[{said['lo']:.4f}, {said['hi']:.4f}] by over 2 %")
    swaps = len(ours.report["stats"]["swapped"])
    print(f"recheck {args.model} {args.mode}{' train' if args.train else ''}: speed-up "
          f"{speedup:.4f} (blocks {min(ratios):.4f} to {max(ratios):.4f}), {swaps} swapped, "
          f"{'WRONG' if wrong else 'right'}")
    for line in wrong:
        print("  " + line)
    if args.json:
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump({"speedup": speedup, "ratios": ratios, "wrong": wrong, "swapped": swaps,
                       "said": section and section["speedup"]}, file)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
