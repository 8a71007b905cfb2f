"""The examples are models as their docstrings say: checked without memory at full
size (meta device) and with real numbers at a small one."""
import ast
import importlib.util
import pathlib

import pytest
import torch

ROOT = pathlib.Path(__file__).resolve().parents[2]

# Example -> (sizes for a run on the CPU, shape of the output at full size).
EXAMPLES = {
    "long_softmax": ({"ROWS": 4, "LENGTH": 96}, (2048, 131072)),
    "vocabulary_softmax": ({"ROWS": 4, "LENGTH": 97}, (8192, 50257)),
    "language_model_loss": ({"ROWS": 8, "CLASSES": 16, "COORDINATES": 4}, ()),
    "transformer_block": ({"BATCH": 2, "SEQUENCE": 8, "WIDTH": 32, "HEADS": 4}, (16, 1024, 1024)),
    "conv_bn_relu_pool": ({"BATCH": 2, "IN_CHANNELS": 3, "OUT_CHANNELS": 4, "SIZE": 16},
                          (64, 128, 28, 28)),
    "loss_reductions": ({"ROWS": 8, "CLASSES": 16, "COORDINATES": 4}, ()),
    "pooling": ({"BATCH": 1, "CHANNELS": 2, "SIZE": 16}, (16, 32, 511, 511)),
    "matmul_only": ({"ROWS": 8, "WIDTH": 16}, (8192, 4096)),
}
LARGEST_INPUT_BYTES = 2 << 30


def load(name):
    spec = importlib.util.spec_from_file_location(f"example_{name}", ROOT / f"examples/{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_example_is_here_and_in_the_readme():
    found = {path.stem for path in (ROOT / "examples").glob("*.py")}
    assert found == set(EXAMPLES)
    readme = (ROOT / "examples/README.md").read_text()
    assert all(f"| {name}.py |" in readme for name in found)


@pytest.mark.parametrize("name", EXAMPLES)
def test_full_size_on_the_meta_device(name):
    module = load(name)
    with torch.device("meta"):
        inputs = module.get_inputs()
        output = module.Model(*module.get_init_inputs())(*inputs)
    assert tuple(output.shape) == EXAMPLES[name][1]
    assert sum(x.nbytes for x in inputs) <= LARGEST_INPUT_BYTES


@pytest.mark.parametrize("name", EXAMPLES)
def test_small_run_depends_on_the_input_and_is_finite(name):
    module = load(name)
    for constant, value in EXAMPLES[name][0].items():
        assert hasattr(module, constant)
        setattr(module, constant, value)
    torch.manual_seed(0)
    model = module.Model(*module.get_init_inputs())
    first, second = (model(*module.get_inputs()) for _ in range(2))
    assert torch.isfinite(first).all()
    assert first.shape == second.shape and not torch.equal(first, second)


def test_batch_norm_example_is_in_training_mode_and_changes_its_buffers():
    module = load("conv_bn_relu_pool")
    for constant, value in EXAMPLES["conv_bn_relu_pool"][0].items():
        setattr(module, constant, value)
    model = module.Model(*module.get_init_inputs())
    assert model.training
    before = model.norm.running_mean.clone()
    model(*module.get_inputs())
    assert not torch.equal(before, model.norm.running_mean)


@pytest.mark.parametrize("name", EXAMPLES)
def test_says_what_it_is_and_what_to_expect(name):
    doc = ast.get_docstring(ast.parse((ROOT / f"examples/{name}.py").read_text()))
    assert doc and "Expect: " in doc
