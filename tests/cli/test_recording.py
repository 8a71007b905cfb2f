"""A run on a recorded capture, with real compile workers: all that needs no GPU."""
import json
import shutil

import pytest


@pytest.fixture
def python():
    import sys
    pytest.importorskip("triton")
    return sys.executable


def test_a_recording(kernelopt, recording, python, tmp_path):
    done = kernelopt("optimize", "--recording", recording(), "--python", python, "--json",
                     timeout=300)
    assert (done.code, done.err) == (0, ""), done.out
    result = done.result()
    assert result["result"] == "not_measured"
    assert "need a GPU" in result["message"]
    ends = {e["step"]: e["message"] for e in done.events() if e["event"] == "step_end"}
    assert list(ends) == ["extract", "estimate", "search"]
    assert "by the data sheet of the NVIDIA H200" in ends["estimate"]
    assert "gate 2's screening on the shadow device" in ends["search"]
    run = tmp_path / "recording.kopt-run"
    shown = kernelopt("show", run)
    assert shown.code == 0 and "triton_poi_fused_relu_0" in shown.out
    kernel = kernelopt("show", run, "triton_poi")
    assert kernel.code == 0 and "gate 1" in kernel.out, kernel.out
    data = json.loads(kernelopt("show", run, "triton_poi", "--json").out)
    for gate in (1, 2):
        accepted = [v for v in data["verdicts"] if v["accepted"] and v["gate"] == gate]
        assert accepted, data
        again = kernelopt("replay", run, accepted[0]["verdict"], "--python", python)
        assert again.code == 0, again.err
        assert again.out.count("accepted") == 2
    assert "on the shadow device" in accepted[0]["message"]
    assert kernelopt("report", run).code == 0
    # The same command again, from the compile cache.
    assert kernelopt("optimize", "--recording", recording("same"), "--python", python).code == 0


def test_the_folder_alone_goes_on_elsewhere(kernelopt, recording, python, tmp_path):
    folder = recording()
    assert kernelopt("optimize", "--recording", folder, "--python", python).code == 0
    elsewhere = tmp_path / "elsewhere"
    shutil.move(tmp_path / "recording.kopt-run", elsewhere)
    shutil.rmtree(folder)
    assert kernelopt("resume", elsewhere, "--python", python).code == 0
    # The model that was recorded, and no other.
    model = tmp_path / "m.py"
    model.write_text("class Model: pass\n")
    kernelopt("resume", elsewhere, "--model", model, "--python", python).fails(2, "m.py")
    kernelopt("resume", elsewhere, "--model", tmp_path / "none.py").fails(2, "none.py")


def test_a_changed_module(kernelopt, recording, python):
    folder = recording()
    module = next((folder / "modules").iterdir())
    module.write_text(module.read_text() + "# changed\n")
    kernelopt("optimize", "--recording", folder, "--python", python).fails(2, "modules/")


def test_a_newer_recording(kernelopt, recording, python):
    folder = recording()
    capture = json.loads((folder / "capture.json").read_text())
    capture["schema"] = 99
    (folder / "capture.json").write_text(json.dumps(capture))
    kernelopt("optimize", "--recording", folder, "--python", python).fails(2, "99")


def test_show_names_what_is_there(kernelopt, recording, python, tmp_path):
    assert kernelopt("optimize", "--recording", recording(kernels=False), "--python",
                     python).code == 0
    run = tmp_path / "recording.kopt-run"
    kernelopt("show", run, "nothing").fails(2, "'nothing'")
    kernelopt("replay", run, "0000").fails(2, "'0000'")
