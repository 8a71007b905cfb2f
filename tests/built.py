"""Where the programs are that tests run beside the product."""
from __future__ import annotations

import os
import pathlib

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[1]


def built(name: str) -> str:
    """tests/NAME of the build that $KERNELOPT_BINARY is in, or of the newest that has it."""
    builds = [pathlib.Path(os.environ["KERNELOPT_BINARY"]).parent] \
        if "KERNELOPT_BINARY" in os.environ else list((ROOT / "build").glob("*/"))
    found = [path for build in builds if (path := build / "tests" / name).exists()]
    if not found:
        target = name.rsplit("/", 1)[-1]
        pytest.fail(f"{target} isn't built; build it with `ninja -C build/dev {target}`")
    return str(max(found, key=lambda path: path.stat().st_mtime))
