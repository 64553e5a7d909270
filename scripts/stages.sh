# shellcheck shell=bash
# Sourced by fuzz, quickstart, test and .ci/run: functions that print progress and errors, and that configure and build.
# Each line starts with the name of the script and the seconds since it began.

# say TEXT: prints a line of progress.
bold= plain=
if [ -t 1 ] && [ -z "${NO_COLOR-}" ]; then bold=$'\033[1m' plain=$'\033[0m'; fi
say() { printf '%s[%s %4d s]%s %s\n' "$bold" "${0##*/}" "$SECONDS" "$plain" "$*"; }

# die TEXT: prints an error, which states the cause and what to do about it, and exits.
die() { printf '[%s %4d s] error: %s\n' "${0##*/}" "$SECONDS" "$*" >&2; exit 1; }

# Prints the number of compilers to run: one per core, but at most one per 2 GB of memory, which LibTorch's headers need.
jobs() {
  local cores memory
  cores=$(nproc)
  memory=$(awk '/MemAvailable/ { print int($2 / 2000000) }' /proc/meminfo)
  [ "${memory:-1}" -ge 1 ] || memory=1
  [ "$cores" -le "$memory" ] && echo "$cores" || echo "$memory"
}

# Stages, whose seconds are printed at the end. Downloads are counted apart: scripts/setup adds theirs to this file.
stages='' stage_name='' stage_began=0
TROUPE_DOWNLOADS=$(mktemp)
export TROUPE_DOWNLOADS
trap 'rm -f "$TROUPE_DOWNLOADS"' EXIT
downloads() { awk '{ sum += $1 } END { print sum + 0 }' "$TROUPE_DOWNLOADS"; }

# stage NAME TEXT: ends the last stage and begins the next.
stage() {
  end_stage
  stage_name=$1 stage_began=$SECONDS; shift
  : >"$TROUPE_DOWNLOADS"
  say "$*"
}
end_stage() {
  [ -n "$stage_name" ] || return 0
  local seconds=$((SECONDS - stage_began)) loaded
  loaded=$(downloads)
  stages+=$(printf '%-12s %5d %9d' "$stage_name" $((seconds - loaded)) "$loaded")$'\n'
  stage_name=''
}

# Prints the seconds of each stage and in all.
print_stages() {
  end_stage
  printf '%s[%s]%s %-12s %5s %9s\n' "$bold" "${0##*/}" "$plain" stage seconds downloads
  printf '%s%-12s %5d %9d\n' "$stages" "in all" \
    "$(awk 'NF { sum += $(NF - 1) } END { print sum + 0 }' <<<"$stages")" \
    "$(awk 'NF { sum += $NF } END { print sum + 0 }' <<<"$stages")" |
    while IFS= read -r line; do printf '%s[%s]%s %s\n' "$bold" "${0##*/}" "$plain" "$line"; done
}

unset CDPATH  # with it, cd could choose another folder of the same name

# The local environment. A relative TROUPE_VENV is relative to the caller's folder, so this must precede any cd.
TROUPE_VENV=$(realpath -m -- "${TROUPE_VENV:-"$(dirname "${BASH_SOURCE[0]}")/../.venv"}")
export TROUPE_VENV

# configure PRESET [OPTION…]: runs CMake with the LibTorch of the local environment.
configure() {
  local log preset=$1; shift
  local torch=("$TROUPE_VENV"/lib/python3*/site-packages/torch)
  [ -d "${torch[0]}" ] || die "LibTorch was not found in $TROUPE_VENV. Run scripts/setup, which installs it there."
  log=$(mktemp)
  if cmake --preset "$preset" "-DTROUPE_TORCH_ROOT=${torch[0]}" "$@" >"$log" 2>&1; then rm "$log"; return; fi
  cat "$log" >&2; rm "$log"
  die "CMake could not configure the preset $preset; see its error above.
  If the build folder belongs to another compiler or generator, remove it and run this script again."
}

# build FOLDER [TARGET…]: builds the targets, or all.
build() {
  local folder=$1; shift
  cmake --build "$folder" --parallel "$(jobs)" ${1:+--target "$@"} ||
    die "the build in $folder failed; see the first error above.
  'Killed' or 'internal compiler error' usually means too little memory: try cmake --build $folder --parallel 1"
}
