import os
import pathlib
import subprocess
import sys

import pytest

PYTHON_FOLDER = pathlib.Path(__file__).resolve().parents[2] / "python"
sys.path.insert(0, str(PYTHON_FOLDER))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from kernelopt import framing  # noqa: E402


class Child:
    """A worker process and its frames."""

    def __init__(self, arguments, folder, **environment):
        self.process = subprocess.Popen(
            [sys.executable, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=open(folder / "stderr", "wb"),
            env={**os.environ, "PYTHONPATH": str(PYTHON_FOLDER),
                 "TRITON_CACHE_DIR": str(folder / "triton"),
                 "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor"), **environment})
        self.count = 0
        self.progress = []

    def call(self, method, **params):
        """The answer: {"ok": ...} or {"error": ...}."""
        self.count += 1
        framing.write_frame(self.process.stdin,
                            {"id": self.count, "method": method, "params": params})
        while True:
            answer = framing.read_frame(self.process.stdout)
            assert answer is not None, "the child ended"
            assert answer.pop("id") == self.count
            if "progress" not in answer:
                return answer
            self.progress.append(answer["progress"])

    def close(self):
        """Ends the input; the exit code."""
        self.process.stdin.close()
        return self.process.wait(timeout=30)


@pytest.fixture(scope="module")
def compile_worker(tmp_path_factory):
    child = Child(["-m", "kernelopt.compile_worker"], tmp_path_factory.mktemp("worker"))
    yield child
    assert child.close() == 0
