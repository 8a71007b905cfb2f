#!/bin/bash
# Installs what is needed, builds, and runs the main job on an example: on the
# GPU if this machine has one that torch can use, else on a recording made on an
# H200, as far as that goes without a GPU.
#
#   bash demo.sh [EXAMPLE]     an example's name, by default long_softmax
set -euo pipefail
cd "$(dirname "$0")"
source scripts/setup.sh

example=${1:-long_softmax}
if [ ! -f "examples/$example.py" ]; then
  names=$(cd examples && printf '%s, ' *.py)
  echo "demo.sh: there is no examples/$example.py; the examples are ${names%, }." >&2
  exit 2
fi

setup_packages "${BUILD_PACKAGES[@]}"
setup_python
[ -x build/release/kernelopt ] || note "building (about seven minutes of one core's time)"
if [ -t 1 ]; then
  build release  # one line, rewritten as it goes
else
  build release | { grep -v '^ninja: no work to do' || true; } | tail -n 1
fi
link_program release

# The Python that the workers use: the user's own where it sees a GPU, since the
# pinned torch in .venv may be a build for the CPU.
for python in python3 .venv/bin/python; do
  if "$python" -c 'import sys, torch; sys.exit(not torch.cuda.is_available())' 2>/dev/null; then
    KERNELOPT_PYTHON=$(realpath -s "$(command -v "$python")")
    export KERNELOPT_PYTHON
    note "./kernelopt optimize examples/$example.py"
    exec ./kernelopt optimize "examples/$example.py"
  fi
done

if [ ! -d "examples/recordings/$example" ]; then
  echo "demo.sh: there is no GPU that torch can use, and examples/recordings/$example is missing," \
    "which is what runs without one." >&2
  exit 3
fi
note "no GPU that torch can use: this is a recording of the example, made on an H200"
KERNELOPT_PYTHON=$PWD/.venv/bin/python
export KERNELOPT_PYTHON
note "./kernelopt optimize --recording examples/recordings/$example"
./kernelopt optimize --recording "examples/recordings/$example"
