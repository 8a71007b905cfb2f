#!/bin/bash
# clang-format on every source file of ours, clang-tidy on those that changed
# against BASE (default: main) or aren't committed; --all takes every file.
#
#   bash scripts/lint.sh [--all | BASE]
#   bash scripts/lint.sh --fix             formats every file in place, no more
#
# A tool that isn't installed is named; what it would have checked then counts
# as not checked, and the other tool still runs.
set -euo pipefail
cd "$(dirname "$0")/.."

base=${1:-main}
status=0

mapfile -t all < <(git ls-files --cached --others --exclude-standard -- 'src/*.h' 'src/*.cc' \
  'fuzz/*.cc' 'perf/*.cc' 'tests/*.cc')
if [ "$base" = --fix ]; then
  exec clang-format-19 -i "${all[@]}"
fi
if [ "$base" = --all ]; then
  changed=("${all[@]}")
else
  mapfile -t changed < <({
    git diff --name-only --diff-filter=d "$(git merge-base HEAD "$base" 2>/dev/null || echo HEAD)"
    git ls-files --others --exclude-standard
  } | grep -E '^src/.*\.cc$' | sort -u)
fi

if command -v clang-format-19 >/dev/null; then
  if ! clang-format-19 --dry-run --Werror "${all[@]}"; then
    echo "lint: bash scripts/lint.sh --fix formats them"
    status=1
  fi
  echo "lint: clang-format looked at ${#all[@]} files"
else
  echo "lint: clang-format-19 not installed, formatting not checked"
fi

if ! command -v clang-tidy-19 >/dev/null; then
  echo "lint: clang-tidy-19 not installed, ${#changed[@]} changed files not checked"
elif [ ! -f build/dev/compile_commands.json ] && ! cmake --preset dev >/dev/null; then
  echo "lint: cmake --preset dev failed, so clang-tidy knows no compile commands" >&2
  status=1
else
  mapfile -t sources < <(printf '%s\n' "${changed[@]}" | grep -E '\.cc$' || true)
  if [ ${#sources[@]} -gt 0 ]; then
    printf '%s\n' "${sources[@]}" | xargs -P "$(nproc)" -n 1 \
      clang-tidy-19 -p build/dev --quiet 2>/dev/null || status=1
  fi
  echo "lint: clang-tidy looked at ${#sources[@]} changed files"
fi
exit $status
