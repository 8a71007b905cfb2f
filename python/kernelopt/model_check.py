"""Gate 3's measurements: the stitched model against eager, the compiler, float64.

Everything runs in this (fresh) process, one side after the other on the same
weights and inputs. Verdicts are the gate's; this returns numbers.
"""
from __future__ import annotations

import contextlib
import dataclasses
from typing import Any, Callable, Iterator

import torch
from torch.utils import _pytree as pytree

from . import compare, inductor_hooks
from .capture import call_safely
from .framing import JobError
from .in_situ import VerifiedKernel
from .loader import PackObserver, load
from .model import (Built, ModelSource, StateGuard, Variant, compile_model, named_state,
                    seed_everything)

_PERTURBATIONS = 4

#: Outputs up to this many elements are kept to see whether they depend on the inputs.
_KEPT_ELEMENTS = 1 << 26


@dataclasses.dataclass
class Outcome:
    """What one call leaves: named tensors, cloned, and the aliasing between them."""

    tensors: dict[str, torch.Tensor]
    layouts: dict[str, tuple[Any, ...]]


def check(source: ModelSource, variant: Variant, pack: str, seeds: list[int],
          progress: Callable[[str], None]) -> dict[str, Any]:
    """The fields of ModelCheck (src/workers/model.h)."""
    observer = load(pack, allow_preview=True)
    observer.enabled = False
    session = _Session(source, variant, observer, seeds[0])
    comparisons = []
    plan = [("as_set", seeds[0], "user", False), *[("strict", s, "user", i > 0)
                                                   for i, s in enumerate(seeds)],
            ("strict", seeds[0], "zero_mean", False)]
    for number, (setting, seed, data, redrawn) in enumerate(plan):
        progress(f"comparing outputs, set {number + 1} of {len(plan)}")
        comparisons.append(session.compare(setting, seed, data, redrawn))
    externs = dict(session.externs)
    swapped = sorted({s.key for s in observer.swaps})
    misses = [dataclasses.asdict(m) for m in observer.misses]
    progress("replaying every swapped launch beside the compiler's")
    in_situ = session.in_situ(seeds[0])
    progress("counting launches")
    counted = session.count_launches()
    return {
        "comparisons": comparisons, "in_situ": in_situ,
        "swapped": swapped, "misses": misses, "externs_compiled": externs["compiled"],
        "externs_stitched": externs["stitched"], "launches": counted,
        "random": session.random, "degenerate": session.degenerate,
        "float64_path": session.float64_problem == "", "note": session.float64_problem,
    }


class _Session:
    def __init__(self, source: ModelSource, variant: Variant, observer: PackObserver,
                 first_seed: int) -> None:
        self.source = source
        self.variant = variant
        self.observer = observer
        self._built = source.build(input_set=variant.input_set)
        self._random: bool | None = None
        self.degenerate = False
        self.float64_problem = ""
        self.externs: dict[str, list[str]] = {"compiled": [], "stitched": []}
        self._first_seed = first_seed
        self._plain_outputs: dict[str, torch.Tensor] = {}

    @property
    def random(self) -> bool:
        """Whether the model draws random numbers; known after the first comparison."""
        return bool(self._random)

    # ---- one comparison

    def compare(self, setting: str, seed: int, data: str, redrawn: bool) -> dict[str, Any]:
        guard = StateGuard(self._built.module)
        try:
            with precision(strict=setting == "strict"):
                rows, consecutive = self._compare(seed, data, redrawn)
        finally:
            guard.restore()
        return {"setting": setting, "seed": seed, "data": data, "redrawn_weights": redrawn,
                "consecutive_calls": consecutive, "tensors": rows}

    def _compare(self, seed: int, data: str, redrawn: bool) -> tuple[list[dict[str, Any]], int]:
        built = self._draw(seed, data, redrawn)
        eager = self._side("eager", built, seed)
        if self._random is None:
            self._random = self._draws_random(built, seed, eager)
        compiled = self._side("compiled", built, seed)
        stitched = self._side("stitched", built, seed)
        consecutive = 3 if _stateful(built.module) else 1
        reference, conditioning = (None, {}) if self.random else self._float64(built, seed,
                                                                               consecutive)
        rows = [self._row(name, eager, compiled, stitched, reference, conditioning)
                for name in {**compiled.tensors, **stitched.tensors}]
        if seed == self._first_seed:
            self._note_degenerate(compiled, data)
        return rows, consecutive

    def _row(self, name: str, eager: Outcome, compiled: Outcome, stitched: Outcome,
             reference: dict[str, torch.Tensor] | None,
             conditioning: dict[str, torch.Tensor]) -> dict[str, Any]:
        ours, theirs = stitched.tensors.get(name), compiled.tensors.get(name)
        row: dict[str, Any] = {
            "name": name, "dtype": "", "same_layout": False, "bitwise_equal": False,
            "has_float64": False, "rms_stitched": 0.0, "rms_compiled": 0.0, "rms_eager": 0.0,
            "max_stitched": 0.0, "max_compiled": 0.0, "max_eager": 0.0,
            "nonfinite_mismatches": 0, "allclose_1e4": 0.0,
        }
        if ours is None or theirs is None:  # one side left it out
            return row
        row["dtype"] = str(ours.dtype).removeprefix("torch.")
        row["same_layout"] = stitched.layouts[name] == compiled.layouts[name]
        row["bitwise_equal"] = compare.bitwise_equal(ours, theirs)
        if not row["same_layout"]:
            return row
        plain = eager.tensors.get(name)
        if plain is not None and plain.shape == ours.shape and ours.numel():
            row["allclose_1e4"] = _share_close(ours, plain)
        if (reference is None or name not in reference or not ours.dtype.is_floating_point
                or plain is None or plain.shape != ours.shape):
            return row
        j = conditioning.get(name)
        row["has_float64"] = True
        for side, value, legal in (("stitched", ours, theirs), ("compiled", theirs, theirs),
                                   ("eager", plain, plain)):
            error = compare.scaled_error(value, reference[name], j, legal)
            row["rms_" + side], row["max_" + side] = error.rms, error.maximum
            if side == "stitched":
                row["nonfinite_mismatches"] = error.nonfinite_mismatches
        return row

    # ---- sides

    def _side(self, side: str, built: Built, seed: int) -> Outcome:
        """Runs one side on copies of the inputs; the module is as before after it."""
        guard = StateGuard(built.module)
        torch._dynamo.reset()
        inductor_hooks.forget_loaded_modules()
        self.observer.enabled = side == "stitched"
        if side == "stitched":
            self.observer.swaps.clear()
            self.observer.misses.clear()
        trace = _ExternTrace()
        try:
            with trace.observing():
                fn = built.module if side == "eager" else compile_model(built.module,
                                                                        self.variant)
                calls = self._calls(built, side)
                for call in range(calls):
                    inputs = Built(built.module, *clone_inputs(built))
                    seed_everything(seed + calls - 1 - call)
                    trace.names.clear()
                    output = call_safely(self.source, fn, inputs, self.variant,
                                         f"running the {side} model")
            if side != "eager":
                self.externs[side] = list(trace.names)
            return collect(output, inputs, self.variant, built)
        finally:
            guard.restore()

    def _calls(self, built: Built, side: str) -> int:
        """Consecutive calls of a side: three where there is state; two at least of
        what is compiled, since its first call also autotunes, three where CUDA
        graphs are recorded at the second."""
        if _stateful(built.module):
            return 3
        if side == "eager":
            return 1
        return 2 if self.variant.mode == "default" else 3

    def _draw(self, seed: int, data: str, redrawn: bool) -> Built:
        """The user's model with other inputs, and with other weights if asked for;
        whoever asks puts the weights back."""
        args, kwargs = self._built.args, self._built.kwargs
        if redrawn:
            _redraw(self._built.module, seed)
            args, kwargs = self.source.draw_alike(self._built, seed, self.variant.input_set)
        if data == "zero_mean":
            seed_everything(seed)
            args, kwargs = pytree.tree_map(_zero_mean, (args, kwargs))
        return Built(self._built.module, args, kwargs)

    def _draws_random(self, built: Built, seed: int, eager: Outcome) -> bool:
        """Whether equal seeds give equal outputs and unequal ones do not."""
        def same(a: Outcome, b: Outcome) -> bool:
            return all(n in b.tensors and compare.bitwise_equal(t, b.tensors[n])
                       for n, t in a.tensors.items())
        return (not same(eager, self._side("eager", built, seed + 1))
                and same(eager, self._side("eager", built, seed)))

    def _float64(self, built: Built, seed: int, calls: int
                 ) -> tuple[dict[str, torch.Tensor] | None, dict[str, torch.Tensor]]:
        """The model in float64 and the conditioning J of each of its tensors."""
        guard = StateGuard(built.module)
        base: dict[str, torch.Tensor] = {}
        conditioning: dict[str, compare.Conditioning] = {}
        try:
            for run in range(_PERTURBATIONS + 1):
                tree = clone_inputs(built)
                if run:
                    self._perturb(built.module, tree, run)
                outcome = self._float64_run(built, tree, seed, calls)
                if run == 0:
                    base = outcome
                    conditioning = {n: compare.Conditioning(t) for n, t in base.items()
                                    if t.is_floating_point()}
                else:
                    for name, collected in conditioning.items():
                        if name in outcome and outcome[name].shape == base[name].shape:
                            collected.add(outcome[name])
                del outcome
                guard.restore()
            return base, {name: c.j() for name, c in conditioning.items()}
        except (JobError, RuntimeError) as error:
            self.float64_problem = f"no float64 run was possible: {error}"[:300]
            return None, {}
        finally:
            guard.restore()

    def _perturb(self, module: Any, tree: Any, run: int) -> None:
        """Moves every float of inputs, parameters and buffers by one ulp, in place."""
        floats = [t for t in pytree.tree_leaves(tree) if isinstance(t, torch.Tensor)]
        if isinstance(module, torch.nn.Module):
            floats += [t for _, t in named_state(module)]
        with torch.no_grad():
            for i, tensor in enumerate(floats):
                tensor.copy_(compare.perturb(tensor, 1000 * run + i))

    def _float64_run(self, built: Built, tree: Any, seed: int,
                     calls: int) -> dict[str, torch.Tensor]:
        with widened(built.module):
            args, kwargs = pytree.tree_map(_widen, tree)
            inputs = Built(built.module, args, kwargs)
            for call in range(calls):
                seed_everything(seed + calls - 1 - call)
                output = call_safely(self.source, built.module, inputs, self.variant,
                                     "running the model in float64")
            return {n: t for n, t in collect(output, inputs, self.variant, None).tensors.items()}

    def _note_degenerate(self, outcome: Outcome, data: str) -> None:
        """Constant outputs, or outputs that are the same for other inputs."""
        outputs = {n: t for n, t in outcome.tensors.items() if n.startswith("output")}
        floats = [t for t in outputs.values() if t.is_floating_point() and t.numel() > 1]
        if floats and all(bool((t == t.flatten()[0]).all()) for t in floats):
            self.degenerate = True
        if self._plain_outputs and data == "zero_mean":
            self.degenerate |= all(
                n in self._plain_outputs and compare.bitwise_equal(t, self._plain_outputs[n])
                for n, t in outputs.items())
        if data == "user" and sum(t.numel() for t in outputs.values()) < _KEPT_ELEMENTS:
            self._plain_outputs = outputs

    # ---- what else gate 3 asks for

    def in_situ(self, seed: int) -> list[dict[str, Any]]:
        """Every launch of every swapped kernel beside the compiler's (in_situ.py)."""
        verified: list[VerifiedKernel] = []

        def wrap(kernel: str, key: str, original: Any, replacement: Any) -> Any:
            verified.append(VerifiedKernel(kernel, key, original, replacement))
            return verified[-1]

        self.observer.wrap = wrap
        try:
            with precision(strict=True):
                # Where CUDA graphs are used, the first call still launches one by one;
                # launches while a graph is captured are skipped.
                self._side("stitched", self._built, seed)
        finally:
            self.observer.wrap = None
        return [dataclasses.asdict(v.comparison) for v in verified]

    def count_launches(self) -> dict[str, dict[str, int]]:
        """Side -> kernel name -> launches in one call, by the profiler."""
        from torch.profiler import ProfilerActivity, profile

        counts: dict[str, dict[str, int]] = {}
        for side in ("compiled", "stitched"):
            built = self._built
            guard = StateGuard(built.module)
            torch._dynamo.reset()
            inductor_hooks.forget_loaded_modules()
            self.observer.enabled = side == "stitched"
            fn = compile_model(built.module, self.variant)
            try:
                for _ in range(4):
                    call_safely(self.source, fn, built, self.variant, f"running the {side} model")
                with profile(activities=[ProfilerActivity.CUDA], acc_events=True) as profiler:
                    call_safely(self.source, fn, built, self.variant, f"running the {side} model")
            finally:
                guard.restore()
            counts[side] = {}
            for event in profiler.events():
                if event.device_type == torch.autograd.DeviceType.CUDA:
                    counts[side][event.name] = counts[side].get(event.name, 0) + 1
        return counts


class _ExternTrace(inductor_hooks.ModuleObserver):
    """Names of the library calls of a compiled model, in order."""

    def __init__(self) -> None:
        self.names: list[str] = []

    @contextlib.contextmanager
    def observing(self) -> Iterator[None]:
        inductor_hooks.add_observer(self)
        try:
            yield
        finally:
            inductor_hooks.remove_observer(self)

    def loaded(self, module: Any, path: str, text: str) -> None:
        from .recorder import _SILENT, TorchDispatchMode

        trace = self

        class Mode(TorchDispatchMode):
            def __torch_dispatch__(self, func: Any, types: Any, args: Any = (),
                                   kwargs: Any = None) -> Any:
                name = str(func)
                if not name.startswith(_SILENT):
                    trace.names.append(name)
                return func(*args, **(kwargs or {}))

        call = module.call

        def traced(args: Any) -> Any:
            with Mode():
                return call(args)

        module.call = traced


@contextlib.contextmanager
def precision(strict: bool) -> Iterator[None]:
    """TF32 off and deterministic cuDNN for all sides, or as the user set it."""
    if not strict:
        yield
        return
    saved = (torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32,
             torch.backends.cudnn.deterministic, torch.backends.cudnn.benchmark)
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.deterministic = True
    torch.backends.cudnn.benchmark = False
    try:
        yield
    finally:
        (torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32,
         torch.backends.cudnn.deterministic, torch.backends.cudnn.benchmark) = saved


@contextlib.contextmanager
def widened(module: Any) -> Iterator[None]:
    """The module's float parameters and buffers in float64 while this is active."""
    if not isinstance(module, torch.nn.Module):
        yield
        return
    kept = [(t, t.data) for _, t in named_state(module) if t.is_floating_point()]
    module.zero_grad(set_to_none=True)
    for tensor, data in kept:
        tensor.data = data.double()
    try:
        yield
    finally:
        module.zero_grad(set_to_none=True)
        for tensor, data in kept:
            tensor.data = data


def clone_inputs(built: Built) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Copies of the inputs with their strides; tensors that are one stay one."""
    seen: dict[int, torch.Tensor] = {}

    def clone(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor):
            return leaf
        if id(leaf) not in seen:
            copy = torch.empty_strided(leaf.size(), leaf.stride(), dtype=leaf.dtype,
                                       device=leaf.device)
            copy.copy_(leaf.detach())
            seen[id(leaf)] = copy.requires_grad_(leaf.requires_grad)
        return seen[id(leaf)]

    return pytree.tree_map(clone, (built.args, built.kwargs))


def _stateful(module: Any) -> bool:
    """Whether calls change the module: it is in training mode and has buffers."""
    return (isinstance(module, torch.nn.Module) and module.training
            and any(True for _ in module.buffers()))


def collect(output: Any, inputs: Built, variant: Variant, original: Built | None) -> Outcome:
    """Outputs, inputs (which may have been mutated), buffers and gradients, copied
    where they would change later: an input that still equals `original`'s stands
    for itself, and with no `original` (a float64 run) nothing is copied."""
    named: list[tuple[str, torch.Tensor]] = []
    named += [(f"output {i}", t) for i, t in enumerate(_tensors(output))]
    named += [(f"input {i}", t) for i, t in enumerate(_tensors((inputs.args, inputs.kwargs)))]
    if isinstance(inputs.module, torch.nn.Module):
        named += [(f"buffer {n}", t) for n, t in inputs.module.named_buffers()]
        if variant.train:
            named += [(f"grad {n}", p.grad) for n, p in inputs.module.named_parameters()
                      if p.grad is not None]
    storages: dict[int, int] = {}
    layouts = {}
    for position, (name, tensor) in enumerate(named):
        first = storages.setdefault(tensor.untyped_storage().data_ptr(), position)
        layouts[name] = (*compare.layout(tensor), first if tensor.numel() else position)
    kept = {}
    unchanged = dict(zip((f"input {i}" for i in range(len(named))),
                         _tensors((original.args, original.kwargs)))) if original else {}
    for name, tensor in named:
        if name in unchanged and compare.bitwise_equal(tensor, unchanged[name]):
            kept[name] = unchanged[name].detach()
        else:
            kept[name] = tensor.detach().clone() if original or name.startswith("buffer") else (
                tensor.detach())
    return Outcome(kept, layouts)


def _tensors(tree: Any) -> list[torch.Tensor]:
    return [t for t in pytree.tree_leaves(tree) if isinstance(t, torch.Tensor)]


def _widen(leaf: Any) -> Any:
    if isinstance(leaf, torch.Tensor) and leaf.is_floating_point():
        return leaf.detach().double().requires_grad_(leaf.requires_grad)
    return leaf


def _zero_mean(leaf: Any) -> Any:
    """Float inputs drawn anew around zero with the spread they had."""
    if not isinstance(leaf, torch.Tensor) or not leaf.is_floating_point() or leaf.numel() < 2:
        return leaf
    spread = leaf.detach().float().std().clamp(min=1e-3).item()
    drawn = torch.empty_strided(leaf.size(), leaf.stride(), dtype=leaf.dtype, device=leaf.device)
    with torch.no_grad():
        drawn.normal_(0.0, spread)
    return drawn.requires_grad_(leaf.requires_grad)


def _redraw(module: Any, seed: int) -> None:
    """New float parameters with the mean and spread of each old one."""
    if not isinstance(module, torch.nn.Module):
        return
    with torch.no_grad():
        for _, parameter in module.named_parameters():
            if parameter.is_floating_point() and parameter.numel() > 1:
                mean = parameter.float().mean().item()
                spread = parameter.float().std().item() or 0.02
                parameter.normal_(mean, spread)


def _share_close(value: torch.Tensor, eager: torch.Tensor) -> float:
    if not value.dtype.is_floating_point:
        return 1.0 if torch.equal(value, eager) else 0.0
    close = 0
    a, b = compare.flat(value), compare.flat(eager)
    for part in compare.slices(a.numel()):
        close += int(torch.isclose(a[part].double(), b[part].double(), rtol=1e-4, atol=1e-4,
                                   equal_nan=True).sum())
    return close / max(1, a.numel())
