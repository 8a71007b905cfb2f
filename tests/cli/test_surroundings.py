"""Odd surroundings: names, streams, terminals, environments, and being stopped at any time."""
import fcntl
import json
import os
import pty
import random
import signal
import struct
import subprocess
import sys
import termios
import time

import pytest
from conftest import FIXTURES, PROGRAM


def finished(kernelopt, stand_in, recording, folder="run", **options):
    """A run that has ended: kept, no Triton kernel."""
    done = kernelopt("optimize", "model.py", "--out", folder, "--python",
                     stand_in(capture=recording(kernels=False)), **options)
    assert done.code == 0, done.err
    return done


@pytest.mark.parametrize("name", [
    "with space", "new\nline", "\U0001f600", "-dash", "a'b\"c$(d)`e`", "%s%n", "x" * 200])
def test_names_that_need_care(kernelopt, stand_in, model, recording, tmp_path, name):
    folder = tmp_path / name
    folder.mkdir()
    odd = folder / "mo del.py"
    odd.write_text(model.read_text())
    python = stand_in(capture=recording(kernels=False))
    for arguments in (["optimize", odd, "--python", python, "--out", folder / "run"],
                      ["optimize", odd, "--python", python, "--out", folder / "run", "--json"],
                      ["resume", folder / "run", "--python", python], ["show", folder / "run"],
                      ["report", folder / "run"]):
        done = kernelopt(*arguments)
        assert (done.code, done.err) == (0, ""), arguments
    # The end of a run fits on its lines, whatever its folder's name.
    assert "\x1b" not in done.out


def test_names_that_json_can_not_hold(kernelopt, stand_in, model, tmp_path):
    odd = os.fsencode(tmp_path) + b"/m\xff.py"
    with open(odd, "wb") as file:
        file.write(model.read_bytes())
    for arguments in (["optimize", os.fsdecode(odd)], ["estimate", os.fsdecode(odd)],
                      ["optimize", "model.py", "--out", "r\udcff"],
                      ["optimize", "--recording", os.fsdecode(odd)]):
        done = subprocess.run([PROGRAM, *arguments, "--python", stand_in()], cwd=tmp_path,
                              capture_output=True, timeout=60, check=False)
        assert done.returncode == 2, (arguments, done)
        assert done.stderr.count(b"\n") == 1
    assert not [name for name in os.listdir(tmp_path) if name.endswith("kopt-run")]


def test_links_in_a_circle(kernelopt, tmp_path):
    (tmp_path / "loop.py").symlink_to("loop.py")
    for command in ("inspect", "estimate", "optimize"):
        kernelopt(command, "loop.py").fails(2, "loop.py", "circle")
    kernelopt("check-pack", "loop.py").fails(2)
    kernelopt("show", "loop.py").fails(2)


@pytest.mark.parametrize("streams", ["<&-", ">&-", "2>&-", "<&- >&-", "<&- >&- 2>&-"])
def test_closed_streams(kernelopt, stand_in, model, recording, environment, tmp_path, streams):
    """What is printed must not go into the files that are opened in the streams' place."""
    python = stand_in(capture=recording(kernels=False))
    done = subprocess.run(
        ["sh", "-c", f'"$@" {streams}', "sh", PROGRAM, "optimize", "model.py", "--python", python,
         "--out", "run"], cwd=tmp_path, env=environment, timeout=60, capture_output=True,
        check=False)
    assert done.returncode == 0, done
    for line in (tmp_path / "run" / "log.jsonl").read_text().splitlines():
        json.loads(line)
    assert (tmp_path / "run" / "lock").read_text().count("\n") == 1
    assert kernelopt("show", "run").code == 0


def test_a_reader_that_leaves(kernelopt, stand_in, model, recording, environment, tmp_path):
    python = stand_in(capture=recording(kernels=False))
    for arguments in ("--help", "optimize --help", f"optimize model.py --python {python}",
                      f"optimize model.py --python {python} --json", f"inspect {FIXTURES}/reductions.py"):
        done = subprocess.run(
            ["bash", "-c", f'"{PROGRAM}" {arguments} | head -c 1; exit "${{PIPESTATUS[0]}}"'],
            cwd=tmp_path, env=environment, timeout=60, capture_output=True, text=True, check=False)
        assert done.returncode in (0, 3), (arguments, done)
        assert done.stderr.count("\n") <= 1, done.stderr


@pytest.mark.parametrize("changed", [
    {"HOME": None, "XDG_CACHE_HOME": None}, {"HOME": "", "XDG_CACHE_HOME": ""}, {"TMPDIR": None},
    {"LANG": "C", "LC_ALL": "C"}, {"LANG": "tr_TR.UTF-8", "LC_ALL": "de_DE.UTF-8"},
    {"TERM": None}, {"COLUMNS": "20"}, {"PYTHONWARNINGS": "error"}, {"PYTHONSAFEPATH": "1"}])
def test_environments(kernelopt, stand_in, model, recording, environment, tmp_path, changed):
    kept = {**environment, **changed}
    kept = {name: value for name, value in kept.items() if value is not None}
    python = stand_in(capture=recording(kernels=False))
    done = subprocess.run([PROGRAM, "optimize", "model.py", "--python", python], cwd=tmp_path,
                          env=kept, timeout=60, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done


def test_a_cache_that_can_not_be_written(kernelopt, stand_in, model):
    kernelopt("optimize", "model.py", "--python", stand_in(),
              env={"XDG_CACHE_HOME": "/proc"}).fails(3, "/proc/kernelopt")


def test_no_place_for_temporary_files(kernelopt, stand_in, model):
    kernelopt("estimate", "model.py", "--python", stand_in(),
              env={"TMPDIR": "/proc/none"}).fails(3, "/proc/none")


@pytest.mark.parametrize("name, value", [
    ("TORCH_COMPILE_DISABLE", "1"), ("TORCHDYNAMO_DISABLE", "1"), ("TRITON_INTERPRET", "1"),
    ("TORCHINDUCTOR_CPP_WRAPPER", "1"), ("TRITON_CACHE_DIR", "/proc/none"),
    ("TORCHINDUCTOR_CACHE_DIR", "/dev/null")])
def test_settings_that_spoil_a_run(kernelopt, model, name, value):
    """The real worker says so, before it looks for a GPU."""
    pytest.importorskip("torch")
    kernelopt("optimize", "model.py", "--python", sys.executable,
              env={name: value}).fails(3, f"${name}")


def test_a_strict_umask(kernelopt, stand_in, model, recording, environment, tmp_path):
    python = stand_in(capture=recording(kernels=False))
    done = subprocess.run([PROGRAM, "optimize", "model.py", "--python", python], cwd=tmp_path,
                          env=environment, timeout=60, capture_output=True, umask=0o077,
                          check=False)
    assert done.returncode == 0, done
    for name in ("", "lock", "log.jsonl", "report.html", "store.db"):
        assert (tmp_path / "model.kopt-run" / name).stat().st_mode & 0o077 == 0, name


@pytest.mark.parametrize("columns", [0, 1, 20, 80, 400])
def test_a_terminal_of_any_width(kernelopt, stand_in, model, recording, environment, tmp_path,
                                 columns):
    """The live line stays on its line: longer, it would leave its beginning behind."""
    python = stand_in(capture=recording(kernels=False), capture_s=1.2)
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    process = subprocess.Popen([PROGRAM, "optimize", "model.py", "--python", python],
                               cwd=tmp_path, env=environment, stdout=theirs, stderr=theirs)
    os.close(theirs)
    shown = b""
    try:
        while chunk := os.read(ours, 4096):
            shown += chunk
    except OSError:  # the terminal's other end is closed
        pass
    os.close(ours)
    assert process.wait(60) == 0, shown
    live = [piece for piece in shown.decode().split("\r\x1b[K") if piece and "\n" not in piece]
    assert live or columns == 1
    for line in live:
        assert len(line) < max(columns, 2) or columns == 0, line


def children_of(folder):
    """Processes that work in this folder, or were told of it."""
    found = []
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) == os.getpid():
            continue
        try:
            with open(f"/proc/{name}/cmdline", "rb") as file:
                command = file.read()
        except OSError:
            continue
        if os.fsencode(folder) in command:
            found.append((name, command))
    return found


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("after", [0.0, 0.05, 0.1, 0.2, 0.4, 0.8])
def test_stopped_at_any_time(kernelopt, stand_in, model, recording, environment, tmp_path, number,
                             after):
    """One sentence, nothing left running, and the same command goes on."""
    capture = recording(kernels=False)
    process = subprocess.Popen(
        [PROGRAM, "optimize", "model.py", "--out", "run", "--python",
         stand_in(capture=capture, capture_s=20)],
        cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        # Tests that run in the background of a shell have it ignored, and hand that on.
        preexec_fn=lambda: signal.signal(number, signal.SIG_DFL))
    time.sleep(after)
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    # Before main has begun the signal still ends a process as it always does.
    assert process.returncode in (5, -number), (out, err)
    assert err.count("\n") == (1 if process.returncode == 5 else 0), err
    assert "Traceback" not in out + err
    deadline = time.monotonic() + 10
    while children_of(tmp_path) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not children_of(tmp_path)
    finished(kernelopt, stand_in, lambda **_: capture)


def test_the_second_signal_ends_at_once(stand_in, model, environment, tmp_path):
    process = subprocess.Popen(
        [PROGRAM, "optimize", "model.py", "--out", "run", "--python",
         stand_in(capture=["model", "late", "late", ""], capture_s=20)],
        cwd=tmp_path, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(0.5)
    for _ in range(2):
        process.send_signal(signal.SIGINT)
        time.sleep(0.02)
    assert process.wait(10) in (5, -signal.SIGINT)


def test_flipped_bits_in_the_store(kernelopt, stand_in, model, recording, tmp_path):
    """A damaged store is named as one, or what it still says is shown."""
    finished(kernelopt, stand_in, recording)
    store = tmp_path / "run" / "store.db"
    whole = store.read_bytes()
    draw = random.Random(7)
    for _ in range(60):
        damaged = bytearray(whole)
        for _ in range(draw.choice([1, 2, 20])):
            place = draw.randrange(len(damaged) if draw.random() < 0.7 else 200)
            damaged[place] ^= 1 << draw.randrange(8)
        store.write_bytes(damaged)
        done = kernelopt("show", "run", "--json")
        assert done.code in (0, 2, 3), done
        assert done.err.count("\n") == (0 if done.code == 0 else 1), done
        done.events()


@pytest.mark.parametrize("size", [0, 100, 4096, 5000])
def test_a_truncated_store(kernelopt, stand_in, model, recording, tmp_path, size):
    finished(kernelopt, stand_in, recording)
    os.truncate(tmp_path / "run" / "store.db", size)
    for command in (["show", "run"], ["report", "run"], ["resume", "run", "--python", sys.executable]):
        done = kernelopt(*command)
        assert done.code in (2, 3), done
        assert done.err.count("\n") == 1, done


def test_what_else_can_be_in_the_way_of_a_run(kernelopt, stand_in, model, recording, tmp_path):
    python = stand_in(capture=recording(kernels=False))
    (tmp_path / "file").write_text("")
    kernelopt("optimize", "model.py", "--python", python, "--out", "file").fails(3, "file")
    finished(kernelopt, stand_in, recording=lambda **_: tmp_path / "recording")
    (tmp_path / "run" / "report.html").unlink()
    (tmp_path / "run" / "report.html").mkdir()
    kernelopt("report", "run").fails(3, "report.html")
    (tmp_path / "run" / "report.html").rmdir()
    for name in ("lock", "log.jsonl"):
        (tmp_path / "run" / name).unlink()
    assert kernelopt("resume", "run", "--python", python).code == 0
    (tmp_path / "run" / "store.db").unlink()
    kernelopt("show", "run").fails(2, "run")
