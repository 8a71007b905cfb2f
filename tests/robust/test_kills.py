"""A run that is killed at any boundary of what it writes, and goes on, ends as if it had not been.

    pytest tests/robust [--seed N] [--kills N]

Each run of robust_run (robust_run.cc) is killed at one passage of one fail-point
(src/base/fail_point.h), some again when they go on, and then goes on to its end. Every
fail-point is used at its first and its last passage, the other passages are drawn.
"""
import collections
import concurrent.futures
import hashlib
import json
import os
import pathlib
import queue
import random
import shutil
import signal
import sqlite3
import subprocess
import tempfile

import pytest
from built import ROOT, built

# Fail-points that this run has no use for have tests of their own: blobs and merging
# (src/store), folders of commands that leave nothing (src/pipeline).
POINTS = {"file.open", "file.write", "file.rename", "file.done", "store.create", "store.record",
          "store.done", "pack.file", "pack.rename", "pack.done", "lock.open", "lock.taken",
          "lock.done", "gpu_lock.taken", "step.begin", "step.end", "step.done", "judge.answer"}


#: One for each that runs at a time: runs on one GPU wait for each other.
GPUS = queue.SimpleQueue()
for number in range(os.cpu_count()):
    GPUS.put(f"GPU-robust-{number}")


def run(folder, gpu, fail_point=None, settings=None):
    """The result of a run in the folder, or None if it was killed."""
    environment = {k: v for k, v in os.environ.items() if k != "KERNELOPT_FAILPOINT"}
    environment.update(settings or {}, TMPDIR=str(folder / "tmp"))
    if fail_point:
        environment["KERNELOPT_FAILPOINT"] = "{}:{}".format(*fail_point)
    (folder / "tmp").mkdir(parents=True, exist_ok=True)
    done = subprocess.run([built("robust/robust_run"), gpu], cwd=folder, env=environment,
                          capture_output=True, text=True, timeout=100, check=False)
    if fail_point and done.returncode == -signal.SIGKILL:
        return None
    assert done.returncode == 0, (fail_point, done)
    return json.loads(done.stdout)


def rows(folder, query):
    """Of a copy, so that what the killed process left is not tidied up here."""
    copy = folder / "copy"
    shutil.rmtree(copy, ignore_errors=True)
    copy.mkdir(parents=True)
    for path in (folder / "run").glob("store.db*"):
        shutil.copy(path, copy)
    try:
        with sqlite3.connect(copy / "store.db") as db:
            return db.execute(query).fetchall()
    except sqlite3.OperationalError:  # killed before the store had its tables
        return []
    finally:
        shutil.rmtree(copy)


def verdicts(folder):
    """What the gates said, in which words; a run that goes on may write it again."""
    return set(rows(folder, "SELECT subject, gate, stage, site, variant, kernel, accepted, final, "
                            "reason, message, evidence FROM verdicts"))


def recorded(folder):
    """How many of each kind of question have an answer that a run finds again."""
    found = collections.Counter(kind for [kind] in rows(
        folder, "SELECT CASE purpose WHEN 'judge' THEN 'judge' ELSE 'timing' END FROM measurements "
        "WHERE purpose IN ('judge', 'confirm') UNION ALL SELECT 'model' FROM verdicts WHERE gate=3 "
        "UNION ALL SELECT 'capture' FROM steps WHERE name='capture' AND state='done'"))
    for path in folder.glob("cache/doctor/*.json"):
        found["speeds"] = 1
        found["noise"] = int(bool(json.loads(path.read_text())["noise_us"]))
    return found


def asked(folder):
    path = folder / "asked.log"
    return path.read_text().splitlines() if path.exists() else []


def kinds(lines):
    return collections.Counter(line.split()[0] for line in lines)


def files(pack):
    return {str(path.relative_to(pack)): path.read_bytes()
            for path in sorted(pack.rglob("*")) if path.is_file()}


def content(pack):
    """The pack without what tells of the run and not of the model: its report, and the
    report's hash."""
    found = files(pack)
    manifest = json.loads(found["manifest.json"])
    del manifest["files"]["report.html"], found["report.html"], found["manifest.sha256"]
    return {**found, "manifest.json": json.dumps(manifest)}


def check_pack(pack):
    """Whole: every file that the manifest names, with its hash, and no other."""
    found = files(pack)
    manifest = found.pop("manifest.json")
    assert found.pop("manifest.sha256").decode().strip() == hashlib.sha256(manifest).hexdigest()
    assert {name: hashlib.sha256(data).hexdigest() for name, data in found.items()} == \
        json.loads(manifest)["files"]


def check_folder(folder):
    """After a kill: whatever has a final name is whole."""
    for pack in [*folder.glob("run/*.kopt"), *folder.glob("run/drafts/*.kopt")]:
        check_pack(pack)
    for path in [*folder.glob("run/capture/**/*.json"), *folder.glob("cache/**/*.json")]:
        json.loads(path.read_text())


def leftovers(folder):
    return [path for path in [*folder.rglob("*.tmp"), *(folder / "tmp").iterdir()]]


class Trial:
    """One run, killed and gone on with."""

    def __init__(self, folder, gpu, reference):
        self.folder, self.gpu, self.reference = folder, gpu, reference
        self.kills = []

    def step(self, fail_point=None, settings=None):
        """One process; no question is asked again whose answer was recorded."""
        before, known = asked(self.folder), recorded(self.folder)
        result = run(self.folder, self.gpu, fail_point, settings)
        new = asked(self.folder)[len(before):]
        lost = {kind: len(set(line for line in before if line.startswith(kind))) - known[kind]
                for kind in kinds(before)}
        assert sum(lost.values()) <= 1 and min(lost.values(), default=0) >= 0, (self.kills, lost)
        again = kinds(line for line in new if line in before)
        assert again == +collections.Counter(lost) or result is None and again <= \
            collections.Counter(lost), (self.kills, again, lost)
        assert len(new) == len(set(new)), (self.kills, "asked twice by one process")
        if result is None:
            self.kills.append(fail_point)
            check_folder(self.folder)
        return result

    def check_end(self, result):
        assert result == {**self.reference.result, "passages": result["passages"]}, self.kills
        assert verdicts(self.folder) == self.reference.verdicts, self.kills
        assert set(asked(self.folder)) == self.reference.asked, self.kills
        assert content(self.folder / result["pack"]) == self.reference.pack, self.kills
        assert not leftovers(self.folder), self.kills


class Reference:
    def __init__(self, folder):
        self.result = run(folder, "GPU-robust-0")
        self.verdicts = verdicts(folder)
        self.asked = set(asked(folder))
        self.pack = content(folder / self.result["pack"])
        check_folder(folder)
        assert not leftovers(folder)


@pytest.fixture(scope="module")
def place():
    """In memory where the system has such a place: a store syncs after every row."""
    memory = pathlib.Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as path:
        yield pathlib.Path(path)


@pytest.fixture(scope="module")
def reference(place):
    return Reference(place / "reference")


def test_the_run_is_one_in_which_something_happens(reference):
    """Accepted and rejected by each gate that decides here, on the shadow device's word."""
    assert reference.result["result"] == "improved"
    assert all(reference.result["winners"].values()) and len(reference.result["winners"]) == 2
    said = {(row[1], row[2], bool(row[6])) for row in reference.verdicts}
    assert {(2, "screen", True), (2, "screen", False), (2, "certify", True), (3, "model", True),
            (3, "model", False), (4, "model", True)} <= said
    assert "wrong_value" in {row[8] for row in reference.verdicts}
    assert set(reference.result["passages"]) == POINTS


def plan(passages, draw, count):
    """(fail-point, passage) of each kill: the edges of each point, then others."""
    wanted = [(name, n) for name, most in sorted(passages.items()) for n in sorted({1, most})]
    others = [(name, n) for name, most in passages.items() for n in range(2, most)]
    wanted += draw.sample(others, min(len(others), max(0, count - len(wanted))))
    while len(wanted) < count:  # fewer passages than kills: some twice, with other second kills
        wanted.append(draw.choice(wanted))
    return wanted[:max(count, 2 * len(passages))]


def test_killed_and_gone_on_with(reference, place, request):
    draw = random.Random(request.config.getoption("--seed", 1))
    passages = reference.result["passages"]
    wanted = plan(passages, draw, request.config.getoption("--kills", 200))
    jobs = []
    for number, first in enumerate(wanted):
        second = draw.choice(sorted(passages.items()))
        second = (second[0], draw.randint(1, second[1])) if draw.random() < 0.1 else None
        jobs.append((place / str(number), first, second))

    def attempt(job):
        folder, first, second = job
        trial = Trial(folder, GPUS.get(), reference)
        try:
            assert trial.step(first) is None, (first, "was not passed")
            result = trial.step(second)
            if result is None:
                result = trial.step()
            trial.check_end(result)
        finally:
            GPUS.put(trial.gpu)
        shutil.rmtree(folder)
        return trial.kills

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        kills = [kill for done in pool.map(attempt, jobs) for kill in done]
    counts = collections.Counter(name for name, _ in kills)
    print(f"{len(kills)} kills:", ", ".join(f"{n} {name}" for name, n in sorted(counts.items())))
    assert set(counts) == POINTS


def preloaded(folder, source):
    """Settings that put the C file's functions before those of the system."""
    library = folder / "preloaded.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"], check=True)
    return {"LD_PRELOAD": str(library)}


@pytest.fixture(scope="module")
def earlier(tmp_path_factory):
    """Settings under which it is an hour earlier."""
    return preloaded(tmp_path_factory.mktemp("earlier"),
                     pathlib.Path(__file__).with_name("earlier.c"))


@pytest.fixture(scope="module")
def full_disk(tmp_path_factory):
    """Settings under which the run's folder takes no more than KOPT_DISK_BYTES."""
    return {**preloaded(tmp_path_factory.mktemp("full_disk"), ROOT / "tests/cli/full_disk.c"),
            "KOPT_DISK_PART": "/run/"}


@pytest.mark.parametrize("point, share", [("judge.answer", 0.5), ("store.record", 0.9),
                                          ("step.end", 0.9)])
def test_gone_on_with_an_hour_earlier(reference, place, earlier, point, share):
    """What was measured later still counts, and the run's own times only grow."""
    trial = Trial(place / f"earlier-{point}", "GPU-robust-0", reference)
    kill = point, int(reference.result["passages"][point] * share)
    assert trial.step(kill) is None
    steps = "SELECT rowid, at_us FROM steps ORDER BY rowid"
    first = [at for _, at in rows(trial.folder, steps)]
    trial.check_end(trial.step(settings=earlier))
    times = [at for _, at in rows(trial.folder, steps)]
    assert times == sorted(set(times)) and times[:len(first)] == first
    # A microsecond a row, while the clock is behind.
    assert times[-1] - times[len(first)] < 1000


def test_gone_on_with_after_the_disk_was_full(reference, place, full_disk):
    """Room for ever more of the run, up to the last file of the pack: what could not be kept is
    no answer, and the run ends as it would have."""
    short, enough = 0, 16_000_000
    while enough - short > 500:
        room = (short + enough) // 2
        trial = Trial(place / f"room-{room}", "GPU-robust-0", reference)
        try:
            result = trial.step(settings={**full_disk, "KOPT_DISK_BYTES": str(room)})
            enough = room
        except AssertionError as failed:
            assert "; free some space and run the same command again" in str(failed), failed
            short = room
            check_folder(trial.folder)
            result = trial.step()
        trial.check_end(result)
    assert 1_000_000 < enough < 15_000_000
