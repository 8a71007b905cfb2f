"""What shadow_gpu_test compares on a GPU is made and read here, where a second evaluation
takes the GPU's place."""
import pathlib
import subprocess
import sys

from built import built

HERE = pathlib.Path(__file__).resolve().parent


def test_jobs_of_the_recordings(tmp_path):
    subprocess.run([sys.executable, HERE / "gpu_jobs.py", tmp_path], check=True)
    done = subprocess.run([built("shadow/shadow_gpu_test"), "--offline", tmp_path],
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    last = done.stdout.splitlines()[-1]
    made = len(list(tmp_path.glob("*.cubin")))
    assert made >= 10 and last.startswith(f"{made} of {made} jobs the same"), last
    assert "DIFFERS" not in done.stdout
    # What was not made is said.
    none = subprocess.run([built("shadow/shadow_gpu_test"), tmp_path / "none"],
                          capture_output=True, text=True)
    assert none.returncode == 2 and "gpu_jobs.py" in none.stderr
