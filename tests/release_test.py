"""The wheel, and the program in it, work where nothing is installed.

The wheel is built once from the release build, opened, and installed into a
bare environment (no torch, no triton). What the program asks of the machine is
read off its ELF headers: it has to start on Ubuntu 24.04.
"""
import os
import pathlib
import re
import subprocess
import sys
import venv
import zipfile

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Ubuntu 24.04 has glibc 2.39.
HIGHEST_GLIBC = (2, 39)
ALLOWED_NEEDED = {"libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2", "librt.so.1",
                  "ld-linux-x86-64.so.2"}


def run(*command, **options) -> subprocess.CompletedProcess:
    """The command's result; the test fails with its output if it doesn't end well."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, **options)
    output = done.stdout + done.stderr
    assert done.returncode == 0, f"{command} ended with {done.returncode}:\n{output}"
    return done


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> pathlib.Path:
    folder = tmp_path_factory.mktemp("wheel")
    # The build requirements are in this environment, so that no network is used.
    run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation",
        "--no-index", "--wheel-dir", str(folder), str(ROOT))
    [path] = folder.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def program(wheel, tmp_path_factory) -> pathlib.Path:
    folder = tmp_path_factory.mktemp("unpacked")
    with zipfile.ZipFile(wheel) as archive:
        path = pathlib.Path(archive.extract("kernelopt/bin/kernelopt", folder))
    path.chmod(0o755)
    return path


@pytest.fixture(scope="module")
def bare(wheel, tmp_path_factory) -> pathlib.Path:
    """bin/ of an environment that holds the wheel and nothing else."""
    folder = tmp_path_factory.mktemp("bare") / "venv"
    venv.create(folder, with_pip=True)
    run(folder / "bin/python", "-m", "pip", "install", "--quiet", "--no-index", "--no-deps",
        str(wheel))
    return folder / "bin"


@pytest.fixture
def plain_environment() -> dict[str, str]:
    """Without what the test run itself sets."""
    return {k: v for k, v in os.environ.items()
            if not k.startswith(("KERNELOPT", "PYTHON", "VIRTUAL_ENV"))}


def test_wheel_is_for_any_python_of_this_platform(wheel):
    assert re.fullmatch(r"kernelopt-[\d.]+-py3-none-(manylinux_\d+_\d+|linux)_x86_64\.whl",
                        wheel.name)


def test_wheel_holds_the_package_the_program_and_the_licences(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        mode = archive.getinfo("kernelopt/bin/kernelopt").external_attr >> 16
    assert mode & 0o111, "the program in the wheel is not executable"
    for name in ("kernelopt.pth", "kernelopt/__init__.py", "kernelopt/compile_worker.py"):
        assert name in names
    assert any(name.endswith("THIRD_PARTY_LICENSES") for name in names)
    packed = {name for name in names if name.startswith("kernelopt/") and name.endswith(".py")}
    wanted = {f"kernelopt/{path.relative_to(ROOT / 'python/kernelopt')}"
              for path in (ROOT / "python/kernelopt").rglob("*.py")}
    assert packed == wanted


def test_program_needs_only_libc(program):
    dynamic = run("readelf", "--dynamic", "--wide", program).stdout
    needed = set(re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic))
    assert needed and needed <= ALLOWED_NEEDED, f"needs {needed - ALLOWED_NEEDED}"
    assert "RPATH" not in dynamic and "RUNPATH" not in dynamic


def test_program_starts_on_ubuntu_24_04(program):
    versions = run("readelf", "--version-info", "--wide", program).stdout
    found = {tuple(map(int, v.split("."))) for v in re.findall(r"GLIBC_([\d.]+)", versions)}
    highest = max(found)
    print("highest GLIBC version:", highest)
    assert highest <= HIGHEST_GLIBC
    assert "GLIBCXX" not in versions, "libstdc++ is not linked statically"


def test_program_has_no_fail_points(program):
    assert b"KERNELOPT_FAILPOINT" not in program.read_bytes()


def test_installed_command_runs(bare, plain_environment):
    version = run(bare / "kernelopt", "--version", env=plain_environment).stdout
    installed = run(bare / "python", "-c", "import kernelopt; print(kernelopt.__version__)",
                    env=plain_environment).stdout
    assert installed.strip() in version


def test_installed_command_passes_arguments_and_exit_code(bare, plain_environment):
    done = subprocess.run([bare / "kernelopt", "no-such-command"], capture_output=True, text=True,
                          env=plain_environment, timeout=60)
    assert done.returncode == 2
    assert "no-such-command" in done.stderr


def test_import_needs_no_torch(bare, plain_environment):
    run(bare / "python", "-c",
        "import sys, kernelopt; assert 'torch' not in sys.modules and 'triton' not in sys.modules",
        env=plain_environment)


def test_without_a_pack_nothing_is_imported_at_start(bare, plain_environment):
    run(bare / "python", "-c",
        "import sys; assert not [m for m in sys.modules if m.startswith('kernelopt')]",
        env=plain_environment)


def test_a_pack_named_in_the_environment_is_loaded_at_start(bare, plain_environment):
    done = run(bare / "python", "-c", "import sys; assert 'kernelopt._autoload' in sys.modules",
               env={**plain_environment, "KERNELOPT_PACK": "/no/such/pack.kopt"})
    assert "Error processing line" not in done.stderr, done.stderr
