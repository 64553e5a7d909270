# shellcheck shell=bash
# Sourced by quickstart, test and .ci/run: one voice for what a script is doing, and how it builds.
# Each stage prints its name and the seconds since the script began.

# say TEXT: one line under the script's name, with the elapsed seconds.
bold= plain=
if [ -t 1 ] && [ -z "${NO_COLOR-}" ]; then bold=$'\033[1m' plain=$'\033[0m'; fi
say() { printf '%s[%s %4d s]%s %s\n' "$bold" "${0##*/}" "$SECONDS" "$plain" "$*"; }

# die TEXT: what went wrong and what to do about it.
die() { printf '[%s %4d s] error: %s\n' "${0##*/}" "$SECONDS" "$*" >&2; exit 1; }

# As many compilers as there are cores, but no more than one for each 2 GB of memory: LibTorch's headers need them.
jobs() {
  local cores memory
  cores=$(nproc)
  memory=$(awk '/MemAvailable/ { print int($2 / 2000000) }' /proc/meminfo)
  [ "${memory:-1}" -ge 1 ] || memory=1
  [ "$cores" -le "$memory" ] && echo "$cores" || echo "$memory"
}

# The local environment; a relative TROUPE_VENV counts from where the caller stands, so this comes before any cd.
TROUPE_VENV=$(realpath -m -- "${TROUPE_VENV:-"$(dirname "${BASH_SOURCE[0]}")/../.venv"}")
export TROUPE_VENV

# configure PRESET [OPTION…]: CMake with the LibTorch of the local environment.
configure() {
  local torch log preset=$1; shift
  torch=$(echo "$TROUPE_VENV"/lib/python3*/site-packages/torch)
  log=$(mktemp)
  if cmake --preset "$preset" "-DTROUPE_TORCH_ROOT=$torch" "$@" >"$log" 2>&1; then rm "$log"; return; fi
  cat "$log" >&2; rm "$log"
  die "CMake could not configure the preset $preset; its reason stands above.
  If the build folder was made by another compiler or generator, remove it and run this script again."
}

# build FOLDER [TARGET…]
build() {
  local folder=$1; shift
  cmake --build "$folder" --parallel "$(jobs)" ${1:+--target "$@"} ||
    die "the build in $folder failed; the first error stands above.
  'Killed' or 'internal compiler error' means too little memory: try cmake --build $folder --parallel 1"
}
