"""The user's model: load it, build it on the GPU, draw its inputs, call it.

Two forms: KernelBench's (`Model`, `get_inputs`, `get_init_inputs`; optional
`get_input_variants`, `get_kwargs`, `get_train_step`) and any function named by
`module:function` that returns (model, args, kwargs).

Errors are framing.JobError of kind "model" with one sentence: no_model,
syntax_error, import_raises, inputs_raise, init_raises, forward_raises.
"""
from __future__ import annotations

import dataclasses
import importlib
import importlib.util
import linecache
import os
import sys
import traceback
from typing import Any, Callable

import torch
from torch.utils import _pytree as pytree

from .framing import JobError, one_sentence


@dataclasses.dataclass(frozen=True)
class Variant:
    """What is compiled: torch.compile mode, training step or not, which inputs."""

    mode: str = "default"
    train: bool = False
    input_set: int = 0


@dataclasses.dataclass
class Built:
    """A model on the GPU with one set of inputs."""

    module: torch.nn.Module | Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


def where(error: BaseException, file: str) -> str:
    """file:line of the innermost frame in the user's own file."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}:{error.lineno}"
    frames = [f for f in traceback.extract_tb(error.__traceback__)
              if os.path.realpath(f.filename) == os.path.realpath(file)]
    return f"{file}:{frames[-1].lineno}" if frames else file


class ModelSource:
    """A model file (or entry point), imported once; builds as often as asked."""

    def __init__(self, file: str, entry: str = "") -> None:
        self.file = file
        self.entry = entry
        self.namespace: Any = None
        if entry:
            self._load_entry()
        else:
            self._load_file()

    def _load_file(self) -> None:
        if not os.path.isfile(self.file):
            raise JobError("usage", "no_such_file", "there is no such file; check the path",
                           self.file)
        linecache.checkcache(self.file)
        spec = importlib.util.spec_from_file_location("kernelopt_user_model", self.file)
        if spec is None or spec.loader is None:
            raise JobError("model", "no_model", "it is not a Python file; name a .py file",
                           self.file)
        module = importlib.util.module_from_spec(spec)
        sys.modules["kernelopt_user_model"] = module
        sys.path.insert(0, os.path.dirname(os.path.abspath(self.file)))
        try:
            spec.loader.exec_module(module)
        except SyntaxError as error:
            raise JobError("model", "syntax_error", f"it is not valid Python ({error.msg}); mend "
                           "the file and run again", where(error, self.file)) from error
        except BaseException as error:
            raise JobError("model", "import_raises", f"importing the file raises "
                           f"{one_sentence(error)}; mend the file and run again",
                           where(error, self.file)) from error
        for name in ("Model", "get_inputs"):
            if not callable(getattr(module, name, None)):
                raise JobError("model", "no_model", f"it defines no {name}; wanted Model, "
                               "get_inputs and get_init_inputs, or --entry module:function",
                               self.file)
        self.namespace = module

    def _load_entry(self) -> None:
        module_name, _, function = self.entry.partition(":")
        if self.file:
            sys.path.insert(0, os.path.dirname(os.path.abspath(self.file)))
        sys.path.insert(0, os.getcwd())
        try:
            module = importlib.import_module(module_name)
        except BaseException as error:
            raise JobError("model", "import_raises", f"importing {module_name} raises "
                           f"{one_sentence(error)}; check --entry", self.entry) from error
        if not callable(getattr(module, function, None)):
            raise JobError("model", "no_model", f"module {module_name} has no function "
                           f"'{function}'; wanted --entry module:function", self.entry)
        self.file = self.file or (module.__file__ or "")
        self.namespace = getattr(module, function)

    def input_sets(self) -> int:
        """How many input sets the model offers; at least 1."""
        return max(1, len(self._input_variants()))

    def _input_variants(self) -> list[Any]:
        variants = getattr(self.namespace, "get_input_variants", None)
        if not callable(variants):
            return []
        try:
            return list(variants())
        except BaseException as error:
            raise JobError("model", "inputs_raise", f"get_input_variants raises "
                           f"{one_sentence(error)}; mend the file and run again",
                           where(error, self.file)) from error

    def train_step(self) -> Callable[..., Any] | None:
        """The user's own training step (model, args, kwargs) -> loss, if there is one."""
        get = getattr(self.namespace, "get_train_step", None)
        if not callable(get):
            return None
        try:
            step = get()
        except BaseException as error:
            raise JobError("model", "init_raises", f"get_train_step raises {one_sentence(error)}; "
                           "mend the file and run again", where(error, self.file)) from error
        if not callable(step):
            raise JobError("model", "init_raises", f"get_train_step gives {_kind(step)}, wanted "
                           "a function (model, args, kwargs) -> loss", self.file)
        return step

    def build(self, seed: int = 42, input_set: int = 0, device: str = "cuda") -> Built:
        """The model and its inputs on `device`, drawn under `seed`."""
        seed_everything(seed)
        if self.entry:
            try:
                built = self.namespace()
                module, args, kwargs = built
            except BaseException as error:
                raise JobError("model", "init_raises", f"the entry function raises "
                               f"{one_sentence(error)}; it must return (model, args, kwargs)",
                               where(error, self.file)) from error
            self._check_inputs("the entry function", args, kwargs)
        else:
            module = self._init_module()
            args, kwargs = self._draw(input_set)
        try:
            if isinstance(module, torch.nn.Module):
                module = module.to(device)
        except torch.cuda.OutOfMemoryError:
            raise
        except BaseException as error:
            raise JobError("model", "init_raises", f"moving the model to the GPU raises "
                           f"{one_sentence(error)}; mend the file and run again",
                           where(error, self.file)) from error
        return Built(module, tuple(to_device(args, device)), to_device(kwargs, device))

    def draw_alike(self, built: Built, seed: int,
                   input_set: int) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Other inputs from the user's own generator, of the layout of `built`'s.

        Drawn on the GPU where the generator leaves the device open, which saves
        seconds for large ones; else as `build` draws them. An entry function
        draws with its model, so its inputs are drawn around their own values.
        """
        if self.entry:
            seed_everything(seed)
            return pytree.tree_map(_resample, (built.args, built.kwargs))
        wanted = _layouts((built.args, built.kwargs))
        for device in ("cuda", "cpu"):
            seed_everything(seed)
            try:
                with torch.device(device):
                    args, kwargs = self._draw(input_set)
            except JobError:
                if device == "cpu":
                    raise
                continue
            drawn = (tuple(to_device(args, "cuda")), to_device(kwargs, "cuda"))
            if _layouts(drawn) == wanted:
                return drawn
        raise JobError("model", "inputs_differ", "get_inputs gives tensors of other shapes or "
                       "types when it is called again; its layouts must not change", self.file)

    def _init_module(self) -> Any:
        try:
            init = getattr(self.namespace, "get_init_inputs", lambda: [])()
            # KernelBench also writes ([args], {kwargs}).
            if (isinstance(init, (list, tuple)) and len(init) == 2
                    and isinstance(init[0], (list, tuple)) and isinstance(init[1], dict)):
                return self.namespace.Model(*init[0], **init[1])
            if isinstance(init, dict):
                return self.namespace.Model(**init)
            return self.namespace.Model(*init)
        except BaseException as error:
            hint = "mend the file and run again"
            if not hasattr(self.namespace, "get_init_inputs"):
                hint = "the file has no get_init_inputs, which gives its arguments"
            raise JobError("model", "init_raises", f"building Model raises {one_sentence(error)}; "
                           f"{hint}", where(error, self.file)) from error

    def _draw(self, input_set: int) -> tuple[Any, dict[str, Any]]:
        name = "get_inputs"
        try:
            if input_set > 0:
                args = self._input_variants()[input_set]
            else:
                args = self.namespace.get_inputs()
            name = "get_kwargs"
            kwargs = getattr(self.namespace, "get_kwargs", dict)()
        except JobError:
            raise
        except BaseException as error:
            raise JobError("model", "inputs_raise", f"{name} raises {one_sentence(error)}; "
                           "mend the file and run again", where(error, self.file)) from error
        self._check_inputs("get_inputs or get_kwargs", args, kwargs)
        return args, dict(kwargs)

    def _check_inputs(self, giver: str, args: Any, kwargs: Any) -> None:
        # A tensor alone could be one argument or, unpacked, its rows.
        if not isinstance(args, (list, tuple)):
            raise JobError("model", "inputs_raise", f"{giver} gives {_kind(args)} for what forward "
                           "takes, wanted a list or tuple", self.file)
        if not isinstance(kwargs, dict):
            raise JobError("model", "inputs_raise", f"{giver} gives {_kind(kwargs)} for forward's "
                           "keyword arguments, wanted a dict", self.file)


def _kind(value: Any) -> str:
    """How a sentence names a value of the wrong type."""
    return "nothing" if value is None else f"something of type {type(value).__name__}"


def seed_everything(seed: int) -> None:
    """Seeds torch (all devices), Python's random and numpy where it is loaded."""
    import random

    random.seed(seed)
    torch.manual_seed(seed)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(seed % 2**32)


def to_device(tree: Any, device: str) -> Any:
    """Every CPU tensor of a nest moved to `device`, except 0-d ones, which
    torch.compile treats as scalars; strides and aliasing inside one tensor stay."""
    def move(leaf: Any) -> Any:
        if isinstance(leaf, torch.nn.Module):
            return leaf.to(device)
        if isinstance(leaf, torch.Tensor) and leaf.device.type == "cpu" and leaf.dim() > 0:
            return leaf.to(device)
        return leaf
    return pytree.tree_map(move, tree)


def run(source: ModelSource, fn: Callable[..., Any], built: Built, variant: Variant) -> Any:
    """One call of `fn` (the module, or its compiled form) as the variant says.

    Inference runs under no_grad. Training runs the user's step if there is one,
    else the sum of all float outputs, backward; gradients are left in place.
    """
    if not variant.train:
        with torch.no_grad():
            return fn(*built.args, **built.kwargs)
    step = source.train_step()
    if step is not None:
        loss = step(fn, built.args, built.kwargs)
        output = loss
    else:
        output = fn(*built.args, **built.kwargs)
        leaves = [t for t in tensors(output) if t.is_floating_point() and t.requires_grad]
        if not leaves:
            raise JobError("model", "not_trainable", "no output needs a gradient, so there is no "
                           "training step; leave --train out", source.file)
        loss = sum(t.float().mean() for t in leaves)
    if isinstance(loss, torch.Tensor) and loss.requires_grad:
        loss.backward()
    return output


def prepare_gradients(built: Built, variant: Variant) -> None:
    """Clears gradients before a training call."""
    if variant.train and isinstance(built.module, torch.nn.Module):
        built.module.zero_grad(set_to_none=True)


def tensors(tree: Any) -> list[torch.Tensor]:
    """The tensors of a nest, in order."""
    return [leaf for leaf in pytree.tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


def compile_model(module: Any, variant: Variant) -> Any:
    """Plain torch.compile in the variant's mode."""
    return torch.compile(module) if variant.mode == "default" else torch.compile(
        module, mode=variant.mode)


def _layouts(tree: Any) -> list[Any]:
    return [(t.device.type, t.dtype, tuple(t.shape), t.stride()) if isinstance(t, torch.Tensor)
            else type(t).__name__ for t in pytree.tree_leaves(tree)]


def _resample(leaf: Any) -> Any:
    """A float tensor's values in another order; other leaves as they are."""
    if not isinstance(leaf, torch.Tensor) or not leaf.is_floating_point() or leaf.numel() < 2:
        return leaf
    other = torch.empty_strided(leaf.size(), leaf.stride(), dtype=leaf.dtype, device=leaf.device)
    order = torch.randperm(leaf.numel(), device=leaf.device)
    return other.copy_(leaf.detach().reshape(-1)[order].reshape(leaf.shape))


class StateGuard:
    """Keeps a module's parameters, buffers, training flags and the random state,
    and puts them back: nothing of the user's is changed when it is done."""

    def __init__(self, module: Any) -> None:
        self._module = module
        self._state: dict[str, torch.Tensor] = {}
        self._flags: list[tuple[torch.nn.Module, bool]] = []
        if isinstance(module, torch.nn.Module):
            self._flags = [(m, m.training) for m in module.modules()]
            self._state = {name: t.detach().clone() for name, t in named_state(module)}
        self._cpu_rng = torch.get_rng_state()
        self._cuda_rng = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []

    def restore(self) -> None:
        if isinstance(self._module, torch.nn.Module):
            with torch.no_grad():
                for name, tensor in named_state(self._module):
                    if name in self._state:
                        tensor.copy_(self._state[name])
            for module, flag in self._flags:
                module.training = flag
            self._module.zero_grad(set_to_none=True)
        torch.set_rng_state(self._cpu_rng)
        if self._cuda_rng:
            torch.cuda.set_rng_state_all(self._cuda_rng)


def named_state(module: torch.nn.Module) -> list[tuple[str, torch.Tensor]]:
    """Parameters and buffers by name, tied ones once."""
    return [*module.named_parameters(), *module.named_buffers()]
