"""Ranges of accesses against running the kernel, program by program."""
import itertools
import json
import subprocess

import evaluate
import pytest
from built import ROOT


def ranges(tool, path, folder, **facts):
    (folder / "facts.json").write_text(json.dumps(facts))
    lines = subprocess.run([tool, "ranges", str(path), str(folder / "facts.json")],
                           capture_output=True, text=True, check=True).stdout.splitlines()
    found = {}
    for line in lines:
        parameter, kind, bounds, low, high, *_ = line.split()
        found.setdefault(int(parameter), []).append((kind, bounds, int(low), int(high)))
    return found


@pytest.mark.parametrize("name, grid, scalars, elements, exact", [
    ("pointwise", [4, 1, 1], [None, None, None, 1000], [1000, 128, 1000, None], {0, 1, 2}),
    ("reduction", [5, 1, 1], [None, None, 20, 100], [2000, 2000, None, None], {0, 1}),
    ("gather", [2, 1, 1], [None, None, None, 200], [200, 100, 200, None], {0, 2}),
    ("select_one", [3, 1, 1], [None, None, 20], [320, 320, None], {0, 1}),
    ("versions/3.8.0/library", [3, 1, 1], [None, None, 300, None], [300, 300, None, None], {0, 1}),
])
def test_ranges_hold_what_is_touched(tool, tmp_path, name, grid, scalars, elements, exact):
    path = ROOT / f"src/ttir/testdata/{name}.ttir"
    module = evaluate.read(tool, path)
    arguments = []
    for seed, value in enumerate(module["parameters"]):
        element = evaluate.split(module["types"][value])[1]
        number = scalars[seed] if scalars[seed] is not None else 0.25
        arguments.append(evaluate.Memory(seed, element[8:-1]) if element.startswith("!")
                         else number)
    evaluate.run(module, arguments, list(itertools.product(*(range(n) for n in grid))))
    found = ranges(tool, path, tmp_path, grid=grid, scalars=scalars, elements=elements)
    for parameter, accesses in found.items():
        touched = arguments[parameter].touched
        low, high = min(a[2] for a in accesses), max(a[3] for a in accesses)
        assert low <= min(touched) and max(touched) <= high
        if parameter in exact:
            assert (low, high) == (min(touched), max(touched))
            assert {a[1] for a in accesses} == {"inside"}
            # One element less, and what is proven is no longer "inside".
            fewer = [max(touched) if i == parameter else n for i, n in enumerate(elements)]
            again = ranges(tool, path, tmp_path, grid=grid, scalars=scalars, elements=fewer)
            assert "inside" not in {a[1] for a in again[parameter] if a[3] == max(touched)}
