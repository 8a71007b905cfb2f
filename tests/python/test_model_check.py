"""model_check.py on the CPU with real torch.compile: what gate 3 gets to see."""
import pytest
import torch

from kernelopt import model_check
from kernelopt.framing import JobError
from kernelopt.model import Built, ModelSource, Variant


class NoPack:
    """A loader's observer that swaps nothing."""

    def __init__(self):
        self.enabled = True
        self.swaps, self.misses, self.wrap = [], [], None


def session(write_model, body, **variant):
    source = ModelSource(write_model(body))
    return model_check._Session(source, Variant(**variant), NoPack(), 0)


STATEFUL = """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(8)
    def forward(self, x):
        y = self.norm(x)
        x.add_(1)
        return {"y": y, "z": [y.sum(), y > 0]}
def get_inputs():
    return [torch.randn(16, 8)]
"""


def test_outputs_inputs_buffers_and_layout_are_compared(on_cpu, write_model):
    checked = session(write_model, STATEFUL)
    state = {n: t.clone() for n, t in checked._built.module.state_dict().items()}
    result = checked.compare("strict", 0, "user", False)
    rows = {row["name"]: row for row in result["tensors"]}
    assert result["consecutive_calls"] == 3
    assert {"output 0", "output 1", "output 2", "input 0", "buffer norm.running_mean",
            "buffer norm.num_batches_tracked"} <= set(rows)
    assert all(row["same_layout"] and row["bitwise_equal"] for row in rows.values())
    assert rows["output 0"]["has_float64"] and rows["output 0"]["rms_stitched"] < 2
    assert not rows["output 2"]["has_float64"]
    assert checked.float64_problem == ""
    for name, tensor in checked._built.module.state_dict().items():
        assert torch.equal(tensor, state[name]), name
        assert tensor.dtype == state[name].dtype


def test_redrawn_weights_and_zero_mean_inputs_are_put_back(on_cpu, write_model, monkeypatch):
    checked = session(write_model, """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 8)
    def forward(self, x):
        return self.linear(x).relu()
def get_inputs():
    return [torch.rand(16, 8)]
""")
    monkeypatch.setattr(checked.source, "draw_alike", lambda built, seed, input_set: (
        (torch.rand(16, 8),), {}))
    weight = checked._built.module.linear.weight.detach().clone()
    for args in (("strict", 42, "user", True), ("strict", 0, "zero_mean", False)):
        assert all(r["bitwise_equal"] for r in checked.compare(*args)["tensors"])
    assert torch.equal(weight, checked._built.module.linear.weight)
    assert not checked.random and not checked.degenerate


def test_random_models_are_told_from_plain_ones(on_cpu, write_model):
    checked = session(write_model, """
class Model(nn.Module):
    def forward(self, x):
        return nn.functional.dropout(x, 0.5)
def get_inputs():
    return [torch.rand(64, 8)]
""")
    result = checked.compare("strict", 0, "user", False)
    assert checked.random
    assert not any(row["has_float64"] for row in result["tensors"])


def test_constant_outputs_are_degenerate(on_cpu, write_model):
    checked = session(write_model, """
class Model(nn.Module):
    def forward(self, x):
        return x * 0 + 3
def get_inputs():
    return [torch.rand(64, 8)]
""")
    checked.compare("strict", 0, "user", False)
    assert checked.degenerate


def test_gradients_are_compared_in_training(on_cpu, write_model):
    checked = session(write_model, """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 8)
    def forward(self, x):
        return self.linear(x).sigmoid()
def get_inputs():
    return [torch.rand(16, 8)]
""", train=True)
    rows = {r["name"]: r for r in checked.compare("strict", 0, "user", False)["tensors"]}
    assert rows["grad linear.weight"]["has_float64"]
    assert rows["grad linear.weight"]["rms_compiled"] < 50


def test_library_calls_are_traced_in_order(on_cpu, write_model):
    checked = session(write_model, """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(8, 8), nn.Linear(8, 8)
    def forward(self, x):
        return self.b(torch.tanh(self.a(x)))
def get_inputs():
    return [torch.rand(16, 8)]
""")
    checked.compare("strict", 0, "user", False)
    assert checked.externs["compiled"] == checked.externs["stitched"]
    assert len([n for n in checked.externs["compiled"] if "mm" in n or "linear" in n]) == 2


def test_a_model_without_a_float64_path_says_so(on_cpu, write_model):
    checked = session(write_model, """
class Model(nn.Module):
    def forward(self, x):
        if x.dtype == torch.float64:
            raise RuntimeError("only float32 here")
        return x + 1
def get_inputs():
    return [torch.rand(16, 8)]
""")
    checked.compare("strict", 0, "user", False)
    assert "only float32 here" in checked.float64_problem


def test_an_output_that_one_side_leaves_out_is_no_match():
    one = model_check.Outcome({"output 0": torch.ones(2)}, {"output 0": ("a",)})
    none = model_check.Outcome({}, {})
    for compiled, stitched in ((one, none), (none, one)):
        row = model_check._Session._row(None, "output 0", one, compiled, stitched, None, {})
        assert not row["same_layout"] and not row["bitwise_equal"]


def test_clones_keep_strides_and_identity():
    x = torch.rand(4, 6).t()
    built = Built(None, (x, x), {"k": [x, torch.ones(1)]})
    args, kwargs = model_check.clone_inputs(built)
    assert args[0] is args[1] is kwargs["k"][0] and args[0] is not x
    assert args[0].stride() == x.stride() and torch.equal(args[0], x)


def test_aliasing_between_outputs_is_part_of_the_layout():
    x = torch.rand(4)
    inputs = Built(None, (), {})
    same = model_check.collect((x, x), inputs, Variant(), inputs)
    apart = model_check.collect((x, x.clone()), inputs, Variant(), inputs)
    assert same.layouts["output 1"] != apart.layouts["output 1"]


def test_a_failing_forward_is_the_models_fault(on_cpu, write_model):
    checked = session(write_model, """
class Model(nn.Module):
    def forward(self, x):
        raise ValueError("bad shape")
def get_inputs():
    return [torch.rand(2)]
""")
    with pytest.raises(JobError) as caught:
        checked.compare("strict", 0, "user", False)
    assert (caught.value.kind, caught.value.code) == ("model", "forward_raises")
