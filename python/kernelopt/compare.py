"""How far a tensor is from its float64 reference, in units that mean something.

scale_i = ulp(reference_i, in the tensor's dtype) + J_i, where J_i is the RMS
change of the reference, an ulp, when every float input moves by units in the last
place at random: the conditioning of each element (docs/numerics.md). Errors are
reported as RMS and maximum of error / scale. Large tensors are worked on in
slices, so that no more than a few hundred MiB is held beside them.
"""
from __future__ import annotations

import dataclasses
from typing import Any, Iterator

import torch

_SLICE = 1 << 24  # elements

#: Mantissa bits (stored) and smallest normal exponent of each float type.
_MANTISSA = {torch.float16: (10, -14), torch.bfloat16: (7, -126), torch.float32: (23, -126),
             torch.float64: (52, -1022)}


def ulp(reference: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Unit in the last place of `dtype` at each finite value, float64."""
    bits, smallest = _MANTISSA[dtype]
    _, exponent = torch.frexp(reference.abs())
    exponent = torch.where(reference == 0, smallest, (exponent - 1).clamp(min=smallest))
    return torch.ldexp(torch.ones_like(reference), exponent - bits)


_BITS = {2: torch.int16, 4: torch.int32, 8: torch.int64}


def perturb(tensor: torch.Tensor, seed: int, steps: int = 1) -> torch.Tensor:
    """A copy with every finite, non-zero float moved by `steps` units in the last
    place, toward or away from zero at random; other tensors as they are. A float
    that would change its sign or leave the finite range stays."""
    if not tensor.is_floating_point() or tensor.dtype not in _MANTISSA:
        return tensor
    generator = torch.Generator(device=tensor.device).manual_seed(seed)
    moved = torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype,
                                device=tensor.device)
    moved.copy_(tensor.detach())
    if moved.numel() == 0:
        return moved
    bits = moved.view(_BITS[tensor.element_size()])
    largest = torch.full((), torch.finfo(tensor.dtype).max, dtype=tensor.dtype)
    magnitude = bits & torch.iinfo(bits.dtype).max  # of a NaN beyond infinity's
    movable = ((magnitude >= steps)
               & (magnitude <= int(largest.view(bits.dtype).item()) - steps))
    step = torch.randint(0, 2, tensor.shape, generator=generator, device=tensor.device,
                         dtype=torch.int8).mul_(2).sub_(1).mul_(movable).mul_(steps)
    # Floats are ordered by magnitude as their bits are: one step of the bits is one ulp.
    bits.add_(step)
    return moved


def perturbation_steps(dtype: torch.dtype, run: int) -> int:
    """Ulps that perturbed run number `run` (from 1) of a kernel moves its inputs by,
    as in gate 2 (KoptSteps of src/device/element_code.h)."""
    return 16 if dtype in (torch.float32, torch.float64) and run % 2 == 0 else 1


@dataclasses.dataclass
class ScaledError:
    """RMS and maximum of |value - reference| / scale over counted elements."""

    rms: float
    maximum: float
    nonfinite_mismatches: int


def slices(numel: int) -> Iterator[slice]:
    for start in range(0, numel, _SLICE):
        yield slice(start, min(numel, start + _SLICE))


def flat(tensor: torch.Tensor) -> torch.Tensor:
    """All elements in logical order, as one dimension."""
    return tensor.detach().reshape(-1)


class Conditioning:
    """J: RMS over perturbed runs of the change an ulp of one reference, flat, float32.

    Runs are added one at a time, so that only one is held beside the reference.
    """

    def __init__(self, reference: torch.Tensor) -> None:
        self._base = flat(reference)
        self._squares = torch.zeros(self._base.numel(), dtype=torch.float32,
                                    device=reference.device)
        self._runs = 0

    def add(self, perturbed: torch.Tensor, steps: int = 1) -> None:
        moved = flat(perturbed)
        for part in slices(self._base.numel()):
            change = (moved[part].double() - self._base[part].double()) / steps
            self._squares[part] += torch.nan_to_num(change, 0, 0, 0).square().float()
        self._runs += 1

    def j(self) -> torch.Tensor:
        return (self._squares / max(1, self._runs)).sqrt()


def scaled_error(value: torch.Tensor, reference: torch.Tensor, j: torch.Tensor | None,
                 also_legal: torch.Tensor | None = None) -> ScaledError:
    """`value` against a float64 `reference` of the same shape. A non-finite
    class that differs from the reference's (rounded to the value's type) and
    from `also_legal`'s is counted as a mismatch, and the element left out."""
    v, r = flat(value), flat(reference)
    total = 0.0
    count = 0
    maximum = 0.0
    mismatches = 0
    legal = flat(also_legal) if also_legal is not None else None
    for part in slices(v.numel()):
        a, b = v[part].double(), r[part].double()
        rounded = b.to(value.dtype).double()
        wrong = _class(a) != _class(rounded)
        if legal is not None:
            wrong &= _class(a) != _class(legal[part].double())
        mismatches += int(wrong.sum())
        finite = torch.isfinite(a) & torch.isfinite(rounded)
        scale = ulp(torch.where(finite, b, torch.ones_like(b)), value.dtype)
        if j is not None:
            scale += j[part]
        z = torch.where(finite, (a - b).abs() / scale, torch.zeros_like(b))
        total += float(z.square().sum())
        count += int(finite.sum())
        maximum = max(maximum, float(z.max()) if z.numel() else 0.0)
    return ScaledError((total / count) ** 0.5 if count else 0.0, maximum, mismatches)


def _class(x: torch.Tensor) -> torch.Tensor:
    """0 finite, 1 NaN, 2 +inf, 3 -inf."""
    return (torch.isnan(x).int() + 2 * torch.isposinf(x).int() + 3 * torch.isneginf(x).int())


def bitwise_equal(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Same shape, type and bits, NaN payloads included."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if a.numel() == 0:
        return True
    x, y = flat(a).contiguous(), flat(b).contiguous()
    if a.dtype.is_complex:
        x, y = torch.view_as_real(x).reshape(-1), torch.view_as_real(y).reshape(-1)
    widths = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
    width = widths[x.element_size()]
    return all(bool(torch.equal(x.view(width)[part], y.view(width)[part]))
               for part in slices(x.numel()))


def layout(tensor: torch.Tensor) -> tuple[Any, ...]:
    """What must not change of an output besides its values."""
    return (tuple(tensor.shape), tensor.dtype, tensor.device.type, tuple(tensor.stride()),
            type(tensor).__name__)
