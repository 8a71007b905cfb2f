"""Reads the fixtures, and recorded modules if KERNELOPT_CORPUS names a folder of
them, once with the product and once with Python's `ast`."""
import os
import pathlib
import shutil

import pytest

from built import built
from check_corpus import check

FOLDER = pathlib.Path(__file__).resolve().parent
ROOT = FOLDER.parent.parent


@pytest.fixture(scope="module")
def program() -> str:
    return built("corpus/inspect_corpus")


def test_fixtures_are_read_as_python_reads_them(program):
    wrong, counts = check(program, str(FOLDER / "fixtures"))
    assert wrong == []
    assert counts == {"modules": 4, "kernels": 25, "launches": 25, "externs": 6, "refused": 20}


def test_the_check_finds_a_wrong_reading(program, tmp_path, monkeypatch):
    shutil.copy(FOLDER / "fixtures/pointwise_and_mm.py", tmp_path)
    assert check(program, str(tmp_path))[0] == []
    import check_corpus
    reading = check_corpus.module_fields

    def other(source):
        fields = reading(source)
        fields["launches"][0]["arguments"][2] = "4097"
        return fields

    monkeypatch.setattr(check_corpus, "module_fields", other)
    assert ["4097" in line for line in check(program, str(tmp_path))[0]] == [True]


@pytest.mark.skipif("KERNELOPT_CORPUS" not in os.environ, reason="KERNELOPT_CORPUS isn't set")
def test_recorded_modules_are_read_as_python_reads_them(program):
    wrong, counts = check(program, os.environ["KERNELOPT_CORPUS"])
    assert wrong == []
    assert counts["modules"] > 0
