"""Simulates gate 2's error rule: how often it rejects right kernels and accepts wrong ones.

    python perf/error_rule.py [--trials 20] [--json FILE]

On the CPU, with torch's float32, float16 and bfloat16: rows of 500 values through a softmax,
a layer norm, a sum and a variance, and a pointwise GELU, as a kernel computes them (loads
widened to float32, partial sums of 128 lanes, a tree over the lanes, one rounding at the
store). A trial is what certification does at one site: nine families of data, three seeds,
the scale of docs/numerics.md from four perturbed runs of the float64 twin, or twenty. Numbers of the
report are simulated, not measured on a GPU.
"""
from __future__ import annotations

import argparse
import json
import math
import zlib
from collections.abc import Callable

import torch

Tensor = torch.Tensor
ROWS, WIDTH, LANES = 24, 500, 128
TYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}
FAMILIES = ("uniform", "normal", "normal_shifted", "large", "small", "log_uniform", "ties",
            "cancelling", "special")
SEEDS = (0, 42, 1337)
# docs/numerics.md, device/judge.h.
RMS_FACTOR, RMS_SLACK, MAX_FACTOR, MAX_SLACK, RMS_FLOOR, MAX_FLOOR = 1.5, 0.1, 3.0, 1.0, 1.0, 8.0
ASIDE, NEAR = 64.0, 8.0


def draw(family: str, seed: int, trial: int, kind: torch.dtype) -> Tensor:
    """device/element_code.h's families, from another generator."""
    g = torch.Generator().manual_seed(zlib.crc32(f"{family} {seed} {trial}".encode()))
    shape = (ROWS, WIDTH)
    normal = torch.randn(shape, generator=g, dtype=torch.float64)
    odd = seed % 2 == 1
    if family == "uniform":
        x = torch.rand(shape, generator=g, dtype=torch.float64)
    elif family == "normal_shifted":
        x = normal + (-30 if odd else 30)
    elif family == "large":
        x = 1000 * normal
        if odd:
            x = normal + 20 * (torch.rand(shape, generator=g) < 1 / 32)
    elif family == "small":
        x = 1e-6 * normal
    elif family == "log_uniform":
        top = 13 if kind == torch.float16 else 30
        exponent = torch.randint(-top, top + 1, shape, generator=g)
        x = torch.sign(normal) * (1 + torch.rand(shape, generator=g, dtype=torch.float64)) \
            * 2.0 ** exponent
    elif family == "ties":
        x = torch.randint(-8, 9, shape, generator=g) * 0.25
        if odd:
            x = torch.full(shape, 0.75)
    elif family == "cancelling":
        x = 1000 * normal
        x[:, 1::2] = 1e-3 * normal[:, 1::2] - x[:, 0::2]
    elif family == "special":
        x = normal.clone()
        x.view(-1)[torch.randint(0, x.numel(), (3,), generator=g)] = torch.tensor(
            [math.nan, math.inf, -math.inf], dtype=torch.float64)
        x[normal > 1.5] = 0
    else:
        x = normal
    return x.to(kind)


def ulp(x: Tensor, kind: torch.dtype) -> Tensor:
    digits = {torch.float32: 23, torch.float16: 10, torch.bfloat16: 7}[kind]
    least = {torch.float32: -126, torch.float16: -14, torch.bfloat16: -126}[kind]
    _, exponent = torch.frexp(x.to(kind).double())
    return 2.0 ** (torch.clamp(exponent - 1, min=least).double() - digits)


def moved(x: Tensor, g: torch.Generator) -> tuple[Tensor, int]:
    """Every float input moved by ulps at random, and by how many, root mean square."""
    most, mean = (27, 16) if x.dtype == torch.float32 else (1, 1)
    up = torch.randint(0, 2, x.shape, generator=g).double() * 2 - 1
    steps = torch.randint(1, most + 1, x.shape, generator=g).double()
    return (x.double() + up * steps * ulp(x.double(), x.dtype)).to(x.dtype), mean


# --- Sums as kernels make them.

def lanes_sum(x: Tensor) -> Tensor:
    """The compiler's looped reduction: lanes over the tiles, then a tree over the lanes."""
    padded = torch.nn.functional.pad(x, (0, -x.shape[-1] % LANES))
    acc = torch.zeros(*x.shape[:-1], LANES, dtype=x.dtype)
    for tile in padded.split(LANES, dim=-1):
        acc = acc + tile
    return tree_sum(acc)


def tree_sum(x: Tensor) -> Tensor:
    width = 1 << (x.shape[-1] - 1).bit_length()
    x = torch.nn.functional.pad(x, (0, width - x.shape[-1]))
    while x.shape[-1] > 1:
        half = x.shape[-1] // 2
        x = x[..., :half] + x[..., half:]
    return x


def neighbours_sum(x: Tensor) -> Tensor:
    width = 1 << (x.shape[-1] - 1).bit_length()
    x = torch.nn.functional.pad(x, (0, width - x.shape[-1]))
    while x.shape[-1] > 1:
        x = x[..., 0::2] + x[..., 1::2]
    return x


def backwards_sum(x: Tensor) -> Tensor:
    return lanes_sum(x.flip(-1))


def split_sum(x: Tensor) -> Tensor:
    return sum(tree_sum(part) for part in x.split(x.shape[-1] // 4, dim=-1))


def exact_sum(x: Tensor) -> Tensor:
    return x.sum(-1, keepdim=True)


def short_sum(x: Tensor) -> Tensor:
    return lanes_sum(x[..., :-1])


def no_tail_sum(x: Tensor) -> Tensor:
    return lanes_sum(x[..., : x.shape[-1] // LANES * LANES])


def one_row_sum(x: Tensor) -> Tensor:
    total = lanes_sum(x)
    total[3] = short_sum(x)[3]
    return total


Sum = Callable[[Tensor], Tensor]


def softmax(x: Tensor, total: Sum) -> Tensor:
    e = torch.exp(x - x.amax(-1, keepdim=True))
    return e / total(e)


def layer_norm(x: Tensor, total: Sum, less: int = 0, eps: float = 1e-5) -> Tensor:
    mean = total(x) / WIDTH
    off = x - mean
    return off * torch.rsqrt(total(off * off) / (WIDTH - less) + eps)


def one_pass_norm(x: Tensor, total: Sum) -> Tensor:
    mean = total(x) / WIDTH
    return (x - mean) * torch.rsqrt(total(x * x) / WIDTH - mean * mean + 1e-5)


def variance(x: Tensor, total: Sum, less: int = 1) -> Tensor:
    off = x - total(x) / WIDTH
    return total(off * off) / (WIDTH - less)


def plain_sum(x: Tensor, total: Sum) -> Tensor:
    return total(x)


def gelu(x: Tensor, total: Sum, constant: float = 0.7071067811865476) -> Tensor:
    return x * 0.5 * (1 + torch.erf(x * constant))


def gelu_factored(x: Tensor, total: Sum) -> Tensor:
    half = x * 0.5
    return half + half * torch.erf(x * 0.7071067811865476)


def tf32(x: Tensor) -> Tensor:
    return (x.float().view(torch.int32) & -8192).view(torch.float32)


OPERATORS: dict[str, Callable[[Tensor, Sum], Tensor]] = {
    "softmax": softmax, "layer norm": layer_norm, "sum": plain_sum, "variance": variance,
    "gelu": gelu}
RIGHT_SUMS = {"a tree": tree_sum, "neighbours": neighbours_sum, "backwards": backwards_sum,
              "four parts": split_sum}
WRONG_SUMS = {"one column less": short_sum, "no tail": no_tail_sum,
              "one row of 24 less a column": one_row_sum}


def candidates(name: str, kind: torch.dtype = torch.float32) -> dict[str, tuple[bool, Callable[[Tensor], Tensor]]]:
    """By name: whether it is right, and its result in float32 or float64."""
    operator = OPERATORS[name]
    found: dict[str, tuple[bool, Callable[[Tensor], Tensor]]] = {"in float64": (True, lambda x: operator(x.double(), exact_sum)),
             "inputs in TF32": (False, lambda x: operator(tf32(x), lanes_sum)),
             "rounds to bfloat16 inside": (False, lambda x: operator(
                 x.float(), lambda v: lanes_sum(v).bfloat16().float()))}
    if kind != torch.float32:
        del found["inputs in TF32"]  # these have no more bits
    if name == "gelu":
        found |= {"factored": (True, lambda x: gelu_factored(x.float(), lanes_sum)),
                  "constant off by 1e-3": (False, lambda x: gelu(x.float(), lanes_sum, 0.7078))}
        del found["rounds to bfloat16 inside"]
        return found
    for label, total in RIGHT_SUMS.items():
        found[label] = (True, lambda x, total=total: operator(x.float(), total))
    for label, total in WRONG_SUMS.items():
        found[label] = (False, lambda x, total=total: operator(x.float(), total))
    if name == "layer norm":
        found |= {"over N - 1": (False, lambda x: layer_norm(x.float(), lanes_sum, less=1)),
                  "epsilon 1e-6": (False, lambda x: layer_norm(x.float(), lanes_sum, eps=1e-6)),
                  "difference of squares": (False, lambda x: one_pass_norm(x.float(), lanes_sum))}
    if name == "variance":
        found["over N"] = (False, lambda x: variance(x.float(), lanes_sum, less=0))
    return found


class Pool:
    def __init__(self) -> None:
        self.sum = self.own_sum = self.max = self.own_max = 0.0
        self.count = 0

    def holds(self) -> bool:
        if self.count == 0:
            return True
        if self.own_max == 0 and self.max > 0:
            return False
        rms, own = math.sqrt(self.sum / self.count), math.sqrt(self.own_sum / self.count)
        return (rms <= max(RMS_FLOOR, RMS_FACTOR * own + RMS_SLACK)
                and self.max <= max(MAX_FLOOR, MAX_FACTOR * self.own_max + MAX_SLACK))

    def add(self, z: Tensor, own: Tensor) -> None:
        if not z.numel():
            return
        self.sum += float((z * z).sum())
        self.own_sum += float((own * own).sum())
        self.max = max(self.max, float(z.max()))
        self.own_max = max(self.own_max, float(own.max()))
        self.count += z.numel()


def accepted(name: str, kind: torch.dtype, trial: int) -> dict[str, tuple[bool, bool]]:
    """By candidate: whether it is right, and whether the rule accepts it. What scales of four
    runs reject is looked at again with scales of twenty."""
    first, second = (with_scales(name, kind, trial, runs) for runs in (4, 20))
    return {label: (right, accepts or second[label][1])
            for label, (right, accepts) in first.items()}


def with_scales(name: str, kind: torch.dtype, trial: int,
                runs: int) -> dict[str, tuple[bool, bool]]:
    """The same, with scales of so many perturbed runs."""
    operator = OPERATORS[name]
    tried = candidates(name, kind)
    verdicts = {label: True for label in tried}
    g = torch.Generator().manual_seed(trial)
    pools = {label: {} for label in tried}
    for family in FAMILIES:
        for seed in SEEDS:
            x = draw(family, seed, trial, kind)
            twin = operator(x.double(), exact_sum)
            changes = torch.zeros_like(twin)
            for _ in range(runs):
                other, steps = moved(x, g)
                change = (operator(other.double(), exact_sum) - twin) / steps
                changes += torch.where(change.isfinite(), change * change, 0)
            center = twin.to(kind)
            scale = ulp(twin, kind) + torch.sqrt(changes / runs)
            reference = operator(x.float(), lanes_sum).to(kind)
            finite = center.isfinite() & reference.isfinite()
            if 4 * int((~center.isfinite()).sum()) > center.numel():
                continue
            own = ((reference.double() - twin).abs() / scale)
            for label, (_, compute) in tried.items():
                value = compute(x).to(kind)
                same_class = (value.isfinite() & finite) | (value.isnan() & center.isnan()) | (
                    value == center) | (value.isnan() & reference.isnan()) | (value == reference)
                if not bool(same_class.all()):
                    verdicts[label] = False
                    continue
                z = (value.double() - twin).abs() / scale
                aside = finite & (own > ASIDE)
                near = (z <= NEAR) | ((value - reference).double().abs() / scale <= NEAR)
                if bool((aside & ~near).any()):
                    verdicts[label] = False
                counted = finite & ~aside & value.isfinite()
                for key in (family, "all"):
                    pools[label].setdefault(key, Pool()).add(z[counted], own[counted])
    for label, of_label in pools.items():
        small = ROWS < 256 and name in ("sum", "variance")
        for key, pool in of_label.items():
            if (key == "all" or not small) and not pool.holds():
                verdicts[label] = False
    return {label: (tried[label][0], verdicts[label]) for label in tried}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--json")
    options = parser.parse_args()
    torch.set_num_threads(1)
    counts: dict[tuple[str, str, str, bool], int] = {}
    for name in OPERATORS:
        for kind_name, kind in TYPES.items():
            for trial in range(options.trials):
                for label, (right, accept) in accepted(name, kind, trial).items():
                    key = (name, label, kind_name, right)
                    counts[key] = counts.get(key, 0) + accept
    for right in (True, False):
        print(f"\n{'right' if right else 'wrong'} kernels accepted, of {options.trials} trials")
        print(f"{'operator':<12} {'candidate':<28}" + "".join(f"{k:>10}" for k in TYPES))
        for name in OPERATORS:
            for label in candidates(name):
                if (name, label, "float32", right) in counts:
                    row = [counts.get((name, label, kind, right), "-") for kind in TYPES]
                    print(f"{name:<12} {label:<28}" + "".join(f"{n:>10}" for n in row))
        for kind in TYPES:
            row = [n for (_, _, k, r), n in counts.items() if k == kind and r == right]
            rate = sum(row) / (len(row) * options.trials)
            print(f"{kind}: {'false reject' if right else 'false accept'} rate "
                  f"{(1 - rate) if right else rate:.3f}")
    if options.json:
        with open(options.json, "w") as out:
            json.dump([[*key, n] for key, n in counts.items()], out)


if __name__ == "__main__":
    main()
