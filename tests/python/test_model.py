"""model.py: every way a model file can fail has its sentence, and state comes back."""
import pytest
import torch

from kernelopt.framing import JobError
from kernelopt.model import (Built, ModelSource, StateGuard, Variant, prepare_gradients, run,
                             seed_everything)

GOOD = """
class Model(nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.linear = nn.Linear(width, width)
        self.norm = nn.BatchNorm1d(width)
    def forward(self, x):
        return self.norm(self.linear(x))
def get_inputs():
    return [torch.randn(3, 4)]
def get_init_inputs():
    return [4]
"""


@pytest.mark.parametrize("text, code, where", [
    ("def broken(:\n", "syntax_error", ":3"),
    ("raise ValueError('no')\n", "import_raises", ":3"),
    ("class E(Exception):\n  def __str__(self): raise RuntimeError\nraise E\n",
     "import_raises", ":5"),
    ("raise ValueError('\\ud800')\n", "import_raises", ":3"),
    ("import sys; sys.exit(0)\n", "import_raises", ":3"),
    ("def get_inputs(): return []\n", "no_model", ""),
    ("class Model(nn.Module): pass\n", "no_model", ""),
])
def test_a_file_that_is_no_model(write_model, text, code, where):
    path = write_model(text)
    with pytest.raises(JobError) as caught:
        ModelSource(path)
    assert (caught.value.kind, caught.value.code) == ("model", code)
    assert caught.value.where == path + where
    assert "\n" not in caught.value.message and not caught.value.message.endswith(".")


def test_a_file_that_is_not_there():
    with pytest.raises(JobError) as caught:
        ModelSource("/nowhere/m.py")
    assert (caught.value.kind, caught.value.code) == ("usage", "no_such_file")


@pytest.mark.parametrize("text, code", [
    (GOOD.replace("return [torch.randn(3, 4)]", "raise RuntimeError('no data')"), "inputs_raise"),
    (GOOD.replace("super().__init__()", "raise RuntimeError('no weights')"), "init_raises"),
])
def test_a_model_that_can_not_be_built(on_cpu, write_model, text, code):
    with pytest.raises(JobError) as caught:
        ModelSource(write_model(text)).build()
    assert (caught.value.kind, caught.value.code) == ("model", code)


@pytest.mark.parametrize("text, code, part", [
    ("def get_inputs(): pass", "inputs_raise", "nothing for what forward takes, wanted a list"),
    ("def get_inputs(): yield torch.ones(4)", "inputs_raise", "generator for what forward"),
    ("def get_inputs(): return torch.ones(3, 4)", "inputs_raise", "Tensor for what forward"),
    ("def get_inputs(): return {'x': torch.ones(4)}", "inputs_raise", "dict for what forward"),
    ("def get_inputs(): return 'text'", "inputs_raise", "str for what forward"),
    ("def get_inputs(): raise SystemExit(0)", "inputs_raise", "get_inputs raises SystemExit"),
    ("def get_kwargs(): pass", "inputs_raise", "nothing for forward's keyword arguments"),
    ("def get_kwargs(): return [1]", "inputs_raise", "list for forward's keyword arguments"),
    ("def get_kwargs(): raise KeyError('k')", "inputs_raise", "get_kwargs raises KeyError"),
    ("def get_init_inputs(): pass", "init_raises", "building Model raises TypeError"),
    ("del get_init_inputs\nModel.__init__ = lambda self, n: None", "init_raises",
     "no get_init_inputs"),
    ("Model.__init__ = lambda self, n: None", "init_raises", "moving the model"),
])
def test_functions_that_give_something_else(on_cpu, write_model, text, code, part):
    with pytest.raises(JobError) as caught:
        ModelSource(write_model(GOOD + text)).build(device="cpu")
    assert (caught.value.kind, caught.value.code) == ("model", code)
    assert part in caught.value.message


@pytest.mark.parametrize("text, part", [
    ("def get_train_step(): raise ValueError('no')", "raises ValueError: no"),
    ("def get_train_step(): return 3", "gives something of type int, wanted a function"),
])
def test_a_training_step_that_is_none(write_model, text, part):
    with pytest.raises(JobError, match=part):
        ModelSource(write_model(GOOD + text)).train_step()


def test_equal_seeds_build_equal_models(on_cpu, write_model):
    source = ModelSource(write_model(GOOD))
    a, b, c = source.build(1), source.build(1), source.build(2)
    assert torch.equal(a.args[0], b.args[0]) and not torch.equal(a.args[0], c.args[0])
    assert torch.equal(a.module.linear.weight, b.module.linear.weight)


def test_input_variants_kwargs_and_both_init_forms(on_cpu, write_model):
    source = ModelSource(write_model("""
class Model(nn.Module):
    def __init__(self, width, bias):
        super().__init__()
        self.linear = nn.Linear(width, width, bias=bias)
    def forward(self, x, scale=1.0):
        return self.linear(x) * scale
def get_inputs():
    return [torch.zeros(1, 2)]
def get_input_variants():
    return [[torch.zeros(1, 2)], [torch.ones(5, 2)]]
def get_kwargs():
    return {"scale": 3.0}
def get_init_inputs():
    return [[2], {"bias": False}]
"""))
    assert source.input_sets() == 2
    built = source.build(input_set=1)
    assert built.args[0].shape == (5, 2) and built.kwargs == {"scale": 3.0}
    assert built.module.linear.bias is None
    assert run(source, built.module, built, Variant()).shape == (5, 2)


def test_a_training_call_leaves_gradients_and_the_guard_takes_all_back(on_cpu, write_model):
    source = ModelSource(write_model(GOOD))
    built = source.build()
    before = {n: t.clone() for n, t in built.module.state_dict().items()}
    guard = StateGuard(built.module)
    drawn = torch.get_rng_state()
    run(source, built.module, built, Variant(train=True))
    torch.rand(1)
    assert built.module.linear.weight.grad is not None
    assert not torch.equal(before["norm.running_mean"], built.module.norm.running_mean)
    guard.restore()
    assert built.module.linear.weight.grad is None
    assert all(torch.equal(before[n], t) for n, t in built.module.state_dict().items())
    assert torch.equal(drawn, torch.get_rng_state())


def test_a_model_without_gradients_has_no_training_step(on_cpu, write_model):
    source = ModelSource(write_model(
        "class Model(nn.Module):\n    def forward(self, x): return x.round()\n"
        "def get_inputs(): return [torch.ones(2)]\n"))
    built = source.build()
    with pytest.raises(JobError) as caught:
        run(source, built.module, built, Variant(train=True))
    assert caught.value.code == "not_trainable"
    prepare_gradients(built, Variant(train=True))


def test_an_entry_function(on_cpu, tmp_path, monkeypatch):
    (tmp_path / "entry_module.py").write_text(
        "import torch\ndef make():\n    return torch.nn.ReLU(), (torch.ones(2),), {}\n"
        "def bad():\n    return 1\n")
    monkeypatch.chdir(tmp_path)
    built = ModelSource("", "entry_module:make").build()
    assert isinstance(built, Built) and isinstance(built.module, torch.nn.ReLU)
    with pytest.raises(JobError) as caught:
        ModelSource("", "entry_module:nothing")
    assert caught.value.code == "no_model"
    with pytest.raises(JobError) as caught:
        ModelSource("", "entry_module:bad").build()
    assert caught.value.code == "init_raises"


def test_inputs_drawn_alike_have_the_layout_and_other_values(on_cpu, write_model):
    source = ModelSource(write_model(GOOD))
    built = source.build(1)
    seed_everything(5)
    (drawn,), _ = source.draw_alike(built, 7, 0)
    assert drawn.shape == built.args[0].shape and not torch.equal(drawn, built.args[0])
