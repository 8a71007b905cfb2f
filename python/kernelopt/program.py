"""The `kernelopt` command of an installed package: runs the program that the wheel carries."""
from __future__ import annotations

import os
import pathlib
import sys


def path() -> pathlib.Path:
    """Where the program is; it comes with the wheel, not with a source tree."""
    return pathlib.Path(__file__).resolve().parent / "bin" / "kernelopt"


def main() -> None:
    """Becomes the program, with the same arguments. Its workers run in this Python."""
    program = path()
    if not program.is_file():
        sys.exit(f"kernelopt: {program} is missing; install the wheel again.")
    os.environ.setdefault("KERNELOPT_PYTHON", sys.executable)
    os.execv(program, [str(program), *sys.argv[1:]])
