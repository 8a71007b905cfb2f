"""The command line, end to end, with no GPU.

`kernelopt` runs the program that was built (KERNELOPT_BINARY, else
build/dev/kernelopt). A `Python` is a script that stands in for the user's
Python: as a model worker it answers what the test wrote down, as a compile
worker it is the real one, in this environment.
"""
import dataclasses
import hashlib
import json
import os
import pathlib
import stat
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = os.environ.get("KERNELOPT_BINARY", str(ROOT / "build/dev/kernelopt"))
FIXTURES = ROOT / "tests/corpus/fixtures"

DEVICE = {"name": "NVIDIA H200", "uuid": "11111111-2222-3333-4444-555555555555", "mig": "",
          "compute_capability": 90, "sm_count": 132, "l2_bytes": 50 << 20,
          "memory_bytes": 150 << 30}
HELLO = {"torch": "2.11.0+cu130", "triton": "3.6.0", "python": "3.11.2", "cuda": True,
         "device": DEVICE}

# The stand-in for the user's Python. HELLO (with what `device` answers) and
# CAPTURE are answers, or errors [kind, code, message, where]; a capture may also
# be a folder to copy.
STAND_IN = """#!{python} -S
import json, os, shutil, sys, time
sys.path.insert(0, {package!r})
scenario = json.load(open({scenario!r}))
if "kernelopt.model_worker" not in sys.argv:
    os.execv({python!r}, [{python!r}, *sys.argv[1:]])
from kernelopt import framing
framing.take_streams()

def answer(value):
    if isinstance(value, list):
        raise framing.JobError(*value)
    return value

def hello(params):
    return answer(scenario["hello"])

def device(params, progress):
    facts = answer(scenario["hello"])
    return {{name: facts.get(name) for name in ("cuda", "device")}}

def capture(params, progress):
    progress("compiling the model")
    time.sleep(scenario.get("capture_s", 0))
    value = answer(scenario["capture"])
    shutil.copytree(value, params["out_dir"], dirs_exist_ok=True)
    path = os.path.join(params["out_dir"], "capture.json")
    return {{"capture": path}}

sys.exit(framing.serve({{"capture": capture, "device": device,
                        "prepare": lambda params, progress: {{}}}}, hello=hello))
"""


@dataclasses.dataclass
class Done:
    """How a command ended."""

    code: int
    out: str
    err: str

    def events(self):
        """Standard output as JSON lines."""
        return [json.loads(line) for line in self.out.splitlines()]

    def result(self):
        [event] = [e for e in self.events() if e.get("event") == "result"]
        return event

    def fails(self, code, *parts):
        """The exit code is `code`, and standard error is one sentence with these parts."""
        assert self.code == code, (self.code, self.out, self.err)
        lines = self.err.splitlines()
        assert len(lines) == 1, self.err
        assert lines[0].startswith("kernelopt: "), self.err
        assert not lines[0].endswith("."), self.err
        for part in parts:
            assert part in lines[0], self.err
        return self


@pytest.fixture
def environment(tmp_path):
    """Nothing of the user's own settings, and a cache of its own."""
    kept = {name: value for name, value in os.environ.items()
            if not name.startswith("KERNELOPT_") and name != "PYTHONPATH"}
    return {**kept, "XDG_CACHE_HOME": str(tmp_path / "cache")}


@pytest.fixture
def kernelopt(tmp_path, environment):
    """Runs the program in tmp_path."""
    def run(*arguments, timeout=120, **options):
        env = {**environment, **options.pop("env", {})}
        done = subprocess.run([PROGRAM, *map(str, arguments)], cwd=tmp_path, env=env,
                              capture_output=True, text=True, timeout=timeout, **options)
        return Done(done.returncode, done.stdout, done.stderr)
    return run


@pytest.fixture
def stand_in(tmp_path):
    """Makes a Python whose model worker answers as told; gives its path."""
    def make(hello=HELLO, capture=("internal", "unexpected", "no capture was expected", ""),
             **more):
        scenario = tmp_path / "scenario.json"
        scenario.write_text(json.dumps(
            {"hello": hello, "capture": str(capture) if isinstance(capture, pathlib.Path)
             else list(capture), **more}))
        path = tmp_path / "stand_in_python"
        path.write_text(STAND_IN.format(python=sys.executable, package=str(ROOT / "python"),
                                        scenario=str(scenario)))
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return path
    return make


@pytest.fixture
def model(tmp_path):
    path = tmp_path / "model.py"
    path.write_text("class Model:\n    pass\n\ndef get_inputs():\n    return []\n")
    return path


def tensor(storage, size, stride=None, dtype="fp32"):
    strides = [1] if len(size) == 1 else [size[1], 1]
    return {"tensor": {"storage": storage, "dtype": dtype, "size": size,
                       "stride": stride or strides, "offset": 0}}


@pytest.fixture
def recording(tmp_path):
    """A recorded capture of tests/corpus/fixtures/pointwise_and_mm.py, or of no graph at all."""
    def make(name="recording", graphs=True, kernels=True, modes=("default",)):
        folder = tmp_path / name
        (folder / "modules").mkdir(parents=True)
        text = (FIXTURES / ("pointwise_and_mm.py" if kernels else "no_kernels.py")).read_text()
        module = hashlib.sha256(text.encode()).hexdigest()
        events = [{"kind": "alloc", "storage": 3},
                  {"kind": "extern", "name": "aten.mm.out", "device_us": 6.0, "arguments": [
                      tensor(0, [64, 64]), tensor(2, [64, 64]), tensor(3, [64, 64])]}]
        if kernels:
            events.append({
                "kind": "launch", "name": "triton_poi_fused_relu_0", "grid": [4, 1, 1],
                "config": {"XBLOCK": 1024, "num_warps": 4, "num_stages": 1}, "binary_hash": "",
                "device_us": 4.0,
                "arguments": [tensor(3, [64, 64]), tensor(1, [64]), {"int": 4096}]})
        events.append({"kind": "return", "arguments": [tensor(3, [64, 64])]})
        if graphs:
            (folder / "modules" / f"{module}.py").write_text(text)
        variant = {"train": False, "input_set": 0, "graph_breaks": 0 if graphs else 7,
                   "compiled_us": 30.0, "eager_us": 40.0, "device_us": 10.0,
                   "storages": [{"id": 0, "bytes": 16384, "kind": "input"},
                                {"id": 1, "bytes": 256, "kind": "parameter"},
                                {"id": 2, "bytes": 16384, "kind": "parameter"},
                                {"id": 3, "bytes": 16384, "kind": "intermediate"}],
                   "graphs": [{"module": module, "phase": "inference", "events": events}]
                   if graphs else []}
        (folder / "capture.json").write_text(json.dumps({
            "schema": 1, "torch": "2.11.0", "triton": "3.6.0", "python": "3.11.2",
            "device": DEVICE, "model": {"file": "model.py", "sha256": "0" * 64, "entry": ""},
            "modules": [module] if graphs else [],
            "variants": [{"mode": mode, **variant} for mode in modes]}))
        return folder
    return make
