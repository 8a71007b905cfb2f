"""A disk that fills up, wherever it does: one sentence, exit code 3, and the run goes on later."""
import pathlib
import subprocess

import pytest


@pytest.fixture(scope="session")
def full_disk(tmp_path_factory):
    source = pathlib.Path(__file__).with_name("full_disk.c")
    library = tmp_path_factory.mktemp("full_disk") / "full_disk.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"], check=True)
    return library


@pytest.mark.parametrize("bytes_left", [0, 5_000, 60_000, 120_000, 180_000, 240_000])
def test_disk_full(kernelopt, stand_in, model, recording, full_disk, bytes_left):
    python = stand_in(capture=recording(kernels=False))
    done = kernelopt("optimize", "model.py", "--python", python, "--out", "run",
                     env={"LD_PRELOAD": str(full_disk), "KOPT_DISK_BYTES": str(bytes_left)})
    if done.code != 0:
        done.fails(3, "free some space")
    elif bytes_left < 100_000:
        raise AssertionError(f"{bytes_left} bytes were enough")
    again = kernelopt("optimize", "model.py", "--python", python, "--out", "run")
    assert again.code == 0, again.err
