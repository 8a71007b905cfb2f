#!/bin/bash
# Installs what is needed, builds, and runs every test.
#
#   bash test.sh          all tests that need no GPU
#   bash test.sh --gpu    these, and then tests/gpu/run.sh
#
# A suite is one line in the closing summary. It fails when its command does; a
# suite over its time budget is marked, so that a slow one is seen. Whole logs
# are in build/logs. Exit code 0 only if every suite passed.
set -euo pipefail
cd "$(dirname "$0")"
source scripts/setup.sh

gpu=no
case "${1:-}" in
  '') ;;
  --gpu) gpu=yes ;;
  *)
    echo "test.sh: unknown argument '$1'; the only one is --gpu." >&2
    exit 2
    ;;
esac

mkdir -p build/logs
summary=()
failed=0

# suite NAME BUDGET_SECONDS COMMAND...: a passed suite shows the last lines of
# its log, where every runner used here says what it ran; a failed one all of it.
suite() {
  local name=$1 budget=$2 start=$SECONDS log state spent
  shift 2
  log="build/logs/${name//\//-}.log"
  printf '\n== %s (budget %s s)\n' "$name" "$budget"
  if "$@" >"$log" 2>&1 </dev/null; then
    state=passed
    tail -n 6 "$log"
  else
    state=FAILED
    failed=$((failed + 1))
    tail -n 400 "$log"
  fi
  spent=$((SECONDS - start))
  [ "$spent" -le "$budget" ] || state="$state, over budget"
  summary+=("$(printf '%-22s %5d s of %4d s  %s' "$name" "$spent" "$budget" "$state")")
}

python_suite() {
  suite "$1" "$2" .venv/bin/python -m pytest -q -rs --durations=3 "$1"
}

setup_packages "${BUILD_PACKAGES[@]}" "${TEST_PACKAGES[@]}"
setup_python

suite build 400 build test
suite build-release 400 build release
if [ "$failed" = 0 ]; then
  link_program release
  # The tests run the build with assertions.
  export KERNELOPT_BINARY="$PWD/build/test/kernelopt"
  export PYTHONPATH="$PWD/python"
  suite lint 120 bash scripts/lint.sh
  suite ctest 180 ctest --preset test -j "$(nproc)"
  for test in tests/*_test.py; do
    python_suite "$test" 120
  done
  # Every folder of Python tests is a suite; tests/gpu needs a GPU.
  for folder in tests/*/; do
    folder=${folder%/}
    if [ "$folder" != tests/gpu ] && grep -qrl --include='*.py' 'def test_' "$folder"; then
      python_suite "$folder" 240
    fi
  done
  if [ "$gpu" = yes ]; then
    suite tests/gpu 1800 bash tests/gpu/run.sh
  fi
fi

printf '\n== summary\n'
printf '%s\n' "${summary[@]}"
if [ "$failed" != 0 ]; then
  echo "$failed of ${#summary[@]} suites failed"
  exit 1
fi
echo "all ${#summary[@]} suites passed in $SECONDS s"
