# Sourced by the scripts at the root: makes sure that this checkout has what it
# is built and tested with. Says nothing when there is nothing to do, and needs
# no network then.
#
#   setup_packages NAME...   Debian packages (apt-get, through sudo if not root)
#   setup_python             .venv with scripts/requirements.txt
#   build PRESET             configures and builds build/PRESET
#   link_program PRESET      ./kernelopt -> the program that PRESET built
#
# The caller has run `set -euo pipefail` and is in the checkout's root.
# shellcheck disable=SC2034  # the lists of packages are the callers'

# fmt and spdlog are used header-only; everything else is linked statically.
# clang compiles the judge's own device kernels to PTX. ccache is used where it is
# found (CMakeLists.txt), and is the one package that could be left out.
BUILD_PACKAGES=(cmake ninja-build g++ clang-19 ccache pkg-config libcli11-dev nlohmann-json3-dev
                libspdlog-dev libfmt-dev libsqlitecpp-dev libsqlite3-dev libssl-dev libzstd-dev zlib1g-dev
                python3 python3-venv python3-dev ca-certificates)
TEST_PACKAGES=(libgtest-dev libgmock-dev librapidcheck-dev binutils git clang-format-19
               clang-tidy-19)
FUZZ_PACKAGES=(libclang-rt-19-dev)

note() { printf '%s\n' "-- $*"; }

fail() {
  printf '%s\n' "$*" >&2
  exit 3
}

as_root() {
  if [ "$(id -u)" = 0 ]; then
    "$@"
  elif command -v sudo >/dev/null; then
    sudo "$@"
  else
    fail "$1 needs root: run this script as root, or install sudo."
  fi
}

setup_packages() {
  local missing=() name
  for name in "$@"; do
    [ "$(dpkg-query -W -f='${db:Status-Status}' "$name" 2>/dev/null)" = installed ] ||
      missing+=("$name")
  done
  [ ${#missing[@]} = 0 ] && return
  command -v apt-get >/dev/null || fail "these Debian packages are missing: ${missing[*]}; this" \
    "script can install them only with apt-get, which was not found."
  note "installing ${missing[*]}"
  as_root apt-get update -qq
  as_root env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
}

# Debian's own Python: the one that python3-dev's headers belong to.
setup_python() {
  local python=/usr/bin/python3 want have
  want="$("$python" -c 'import sys; print(sys.version.split()[0])')
$(sha256sum scripts/requirements.txt)"
  have="$(cat .venv/kernelopt.stamp 2>/dev/null || true)"
  if [ "$want" != "$have" ]; then
    note "installing Python packages into .venv (torch is large: minutes)"
    if [ "$(.venv/bin/python -c 'import sys; print(sys.version.split()[0])' 2>/dev/null)" != \
         "${want%%$'\n'*}" ]; then
      "$python" -m venv --clear .venv
    fi
    .venv/bin/python -m pip install --quiet --disable-pip-version-check \
      -r scripts/requirements.txt 2> >(grep -v '^WARNING: Location' >&2)
    printf '%s\n' "$want" >.venv/kernelopt.stamp
  fi
}

build() {
  local preset=$1
  shift
  mkdir -p build
  if ! cmake --preset "$preset" "$@" >"build/configure-$preset.log" 2>&1; then
    cat "build/configure-$preset.log" >&2
    return 1
  fi
  cmake --build --preset "$preset"
}

link_program() {
  ln -sfn "build/$1/kernelopt" kernelopt
}
