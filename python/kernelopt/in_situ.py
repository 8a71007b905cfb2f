"""Verify mode: at every launch of a swapped kernel, run the compiler's too.

Both kernels get the same storages, with their real contents, alignment and
aliasing: the storages are snapshotted, the compiler's kernel runs, its results
are set aside, the snapshot is put back, ours runs, and every storage is
compared by gate 2's rule: integers bitwise, floats in units of ulp + J, J from
runs of the compiler's kernel on perturbed contents (compare.py). What the
program goes on with is ours.
"""
from __future__ import annotations

import dataclasses
from typing import Any

import torch

from . import compare


#: An error of so many scales is looked at again with more perturbed runs.
_SECOND_LOOK_Z = 4.0


@dataclasses.dataclass
class LaunchComparison:
    """All launches of one swapped kernel in one verified call."""

    kernel: str
    key: str
    launches: int = 0
    bitwise_equal: bool = True
    max_z: float = 0.0
    own_z: float = 0.0  # of the compiler's kernel on inputs an ulp away; 0: no second look
    rms_z: float = 0.0
    integer_mismatches: int = 0
    nonfinite_mismatches: int = 0
    skipped: int = 0  # launches inside a CUDA graph capture: not comparable


class VerifiedKernel:
    """Stands in for a CachingAutotuner: `.run` launches both and compares."""

    def __init__(self, kernel: str, key: str, original: Any, replacement: Any,
                 perturbations: int = 4) -> None:
        self.comparison = LaunchComparison(kernel, key)
        self._original = original.result() if hasattr(original, "result") else original
        self._replacement = replacement
        self._perturbations = perturbations

    def __getattr__(self, name: str) -> Any:
        return getattr(self._replacement, name)

    def run(self, *args: Any, stream: Any, **kwargs: Any) -> Any:
        self.comparison.launches += 1
        if torch.cuda.is_current_stream_capturing():
            self.comparison.skipped += 1
            return self._replacement.run(*args, stream=stream, **kwargs)
        storages = _storages(args)
        before = [_bytes(s).clone() for s in storages]

        def restore() -> None:
            for storage, saved in zip(storages, before):
                _bytes(storage).copy_(saved)

        self._original.run(*args, stream=stream, **kwargs)
        expected = [_bytes(s).clone() for s in storages]
        restore()
        self._replacement.run(*args, stream=stream, **kwargs)
        got = [_bytes(s).clone() for s in storages]
        different = [i for i, (a, b) in enumerate(zip(expected, got)) if not torch.equal(a, b)]
        if different:
            self.comparison.bitwise_equal = False
            self._compare(args, storages, before, expected, got, different, stream, kwargs)
            for storage, saved in zip(storages, got):
                _bytes(storage).copy_(saved)
        return None

    def _compare(self, args: tuple[Any, ...], storages: list[torch.UntypedStorage],
                 before: list[torch.Tensor], expected: list[torch.Tensor],
                 got: list[torch.Tensor], different: list[int], stream: Any,
                 kwargs: dict[str, Any]) -> None:
        dtypes = _storage_dtypes(args, storages)
        conditioning: dict[int, compare.Conditioning] = {
            i: compare.Conditioning(_typed(expected[i], dtypes[i])) for i in different
            if _typed(expected[i], dtypes[i]).is_floating_point()}
        floats = {dtype for dtype in dtypes if dtype.is_floating_point}
        widest = max(floats, key=lambda dtype: dtype.itemsize, default=torch.bfloat16)

        def perturb_inputs(run: int) -> None:
            for i, (storage, saved) in enumerate(zip(storages, before)):
                values = _typed(saved, dtypes[i])
                if values.is_floating_point():
                    values = compare.perturb(values, 1000 * run + i,
                                             compare.perturbation_steps(dtypes[i], run))
                _typed(_bytes(storage), dtypes[i]).copy_(values)

        def perturbed_run(run: int) -> None:
            perturb_inputs(run)
            self._original.run(*args, stream=stream, **kwargs)
            for i, collected in conditioning.items():
                collected.add(_typed(_bytes(storages[i]), dtypes[i]),
                              compare.perturbation_steps(widest, run))

        def errors() -> list[compare.ScaledError]:
            return [compare.scaled_error(_typed(got[i], dtypes[i]), _typed(expected[i], dtypes[i]),
                                         collected.j()) for i, collected in conditioning.items()]

        for run in range(1, self._perturbations + 1):
            perturbed_run(run)
        found = errors()
        # Of many elements some seem exact in a few runs; a second look, as in gate 2.
        if any(error.maximum > _SECOND_LOOK_Z for error in found):
            last = 5 * self._perturbations
            for run in range(self._perturbations + 1, last + 1):
                perturbed_run(run)
            found = errors()
            own = []
            for run in (last + 1, last + 3):  # odd: single ulps
                perturb_inputs(run)
                self._original.run(*args, stream=stream, **kwargs)
                own.append(max(compare.scaled_error(
                    _typed(_bytes(storages[i]), dtypes[i]), _typed(expected[i], dtypes[i]),
                    collected.j()).maximum for i, collected in conditioning.items()))
            self.comparison.own_z = max(self.comparison.own_z, min(own))
        for error in found:
            self.comparison.max_z = max(self.comparison.max_z, error.maximum)
            self.comparison.rms_z = max(self.comparison.rms_z, error.rms)
            self.comparison.nonfinite_mismatches += error.nonfinite_mismatches
        for i in different:
            base, value = _typed(expected[i], dtypes[i]), _typed(got[i], dtypes[i])
            if not base.is_floating_point():
                self.comparison.integer_mismatches += int((base != value).sum())


def _storages(args: tuple[Any, ...]) -> list[torch.UntypedStorage]:
    found: dict[int, torch.UntypedStorage] = {}
    for arg in args:
        if isinstance(arg, torch.Tensor):
            storage = arg.untyped_storage()
            found.setdefault(storage.data_ptr(), storage)
    return list(found.values())


def _bytes(storage: torch.UntypedStorage) -> torch.Tensor:
    return torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage)


def _storage_dtypes(args: tuple[Any, ...],
                    storages: list[torch.UntypedStorage]) -> list[torch.dtype]:
    by_address = {}
    for arg in args:
        if isinstance(arg, torch.Tensor):
            by_address.setdefault(arg.untyped_storage().data_ptr(), arg.dtype)
    return [by_address[s.data_ptr()] for s in storages]


def _typed(data: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    width = torch.empty((), dtype=dtype).element_size()
    return data[:data.numel() // width * width].view(dtype)
