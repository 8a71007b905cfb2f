"""Runs the model worker's code on the CPU: what asks for CUDA gets the CPU."""
import functools

import pytest


@pytest.fixture
def on_cpu(monkeypatch):
    import torch

    from kernelopt import capture, model, model_check

    monkeypatch.setattr(torch.cuda, "synchronize", lambda *a: None)
    monkeypatch.setattr(model.ModelSource, "build", functools.partialmethod(
        model.ModelSource.build, device="cpu"))
    monkeypatch.setattr(model, "to_device", lambda tree, device: tree)
    for module in (capture, model_check):
        monkeypatch.setattr(module, "call_safely", capture.call_safely)
    return model


@pytest.fixture
def write_model(tmp_path):
    def write(text, name="m.py"):
        path = tmp_path / name
        path.write_text("import torch\nimport torch.nn as nn\n" + text)
        return str(path)
    return write
