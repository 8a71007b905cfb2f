#!/bin/bash
# Runs every fuzzer for SECONDS each (default 30); stops at the first finding,
# whose input is then in build/fuzz-findings.
#
#   bash scripts/fuzz.sh [SECONDS]
#
# build/fuzz-corpus keeps what the runs found interesting; fuzz/seeds/NAME, where
# there is one, starts the fuzzer NAME.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/setup.sh

seconds=${1:-30}
setup_packages "${BUILD_PACKAGES[@]}" "${FUZZ_PACKAGES[@]}"
setup_python
build fuzz | tail -n 1

ran=0
for source in fuzz/*_fuzzer.cc; do
  name=$(basename "$source" .cc)
  mkdir -p "build/fuzz-corpus/$name" build/fuzz-findings
  folders=("build/fuzz-corpus/$name")
  [ ! -d "fuzz/seeds/$name" ] || folders+=("fuzz/seeds/$name")
  note "$name for $seconds s"
  log="build/fuzz-findings/$name.log"
  if ! "build/fuzz/fuzz/$name" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=4096 \
    -verbosity=0 -print_final_stats=1 -artifact_prefix="build/fuzz-findings/$name-" \
    "${folders[@]}" >"$log" 2>&1; then
    tail -n 60 "$log"
    exit 1
  fi
  grep number_of_executed_units "$log"
  ran=$((ran + 1))
done
echo "$ran fuzzers ran, no finding"
