#!/bin/bash
# The tests that need a GPU: bash tests/gpu/run.sh
#
# Runs the C++ GPU tests that were built (*_gpu_test below build/), then the main
# job on every example (main_job.py) with a Python that has torch and CUDA, and
# closes with a table. PYTHON names that Python; by default the first of .venv's and python3 that can.
# Without a usable GPU it fails: it was asked to test one.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1

python=
for candidate in ${PYTHON:-.venv/bin/python python3}; do
  if device=$("$candidate" -c \
    'import torch; print(torch.cuda.get_device_name(), "torch", torch.__version__)' 2>&1); then
    python=$candidate
    break
  fi
done
if [ -z "$python" ]; then
  echo "tests/gpu/run.sh: no Python that can use a GPU; $candidate says: ${device##*$'\n'}" >&2
  exit 3
fi
echo "GPU tests on $device"
mkdir -p build/logs
export PYTHONPATH="$PWD/python" KERNELOPT_BINARY="${KERNELOPT_BINARY:-$PWD/kernelopt}"
KERNELOPT_PYTHON=$(command -v "$python")
export KERNELOPT_PYTHON

table=()
passed=0
failed=0

# run NAME COMMAND...
run() {
  local name=$1 start=$SECONDS state=passed
  shift
  if "$@" >"build/logs/gpu-$name.log" 2>&1 </dev/null; then
    passed=$((passed + 1))
    tail -n 3 "build/logs/gpu-$name.log"
  else
    state=FAILED
    failed=$((failed + 1))
    tail -n 200 "build/logs/gpu-$name.log"
  fi
  table+=("$(printf '%-28s %5d s  %s' "$name" $((SECONDS - start)) "$state")")
}

# What shadow_gpu_test compares.
run shadow-jobs "$python" tests/shadow/gpu_jobs.py build/shadow-jobs
while read -r program; do
  run "$(basename "$program")" "$program"
done < <(find build -name '*_gpu_test' -type f -perm -u+x)
# What the rewrite rules make, through gates 1 and 2.
rules_corpus() {
  "$python" tests/rules/corpus.py "$1/tests/rules/rules_tool" build/rules-corpus &&
    "$1/tests/gates/gate_corpus_gpu_test" build/rules-corpus
}
for tool in build/*/tests/rules/rules_tool; do
  [ ! -x "$tool" ] || run rules-corpus rules_corpus "${tool%/tests/rules/rules_tool}"
done
# How far the clock and the screening can be trusted: shorter than judge_trials does by itself.
for tool in build/*/tests/gates/judge_trials; do
  [ -x "$tool" ] || continue
  for trial in "aa 100" "sensitivity 50" "screening 500"; do
    run "trials-${trial% *}" "$tool" "${trial% *}" --runs "${trial#* }"
  done
done
# The main job, one run an example, so that a slow or failing one shows by name; then
# the packs that came out.
rm -rf build/gpu-runs
for example in examples/*.py; do
  name=$(basename "$example" .py)
  run "optimize-$name" "$python" tests/gpu/main_job.py build/gpu-runs --only "$name" --only-optimize
done
run packs "$python" tests/gpu/main_job.py build/gpu-runs --again

printf '\n'
[ $((passed + failed)) = 0 ] || printf '%s\n' "${table[@]}"
echo "$passed passed, $failed failed"
[ "$failed" = 0 ] && [ "$passed" -gt 0 ]
