# Sourced by every case: a fresh folder, ranks, and checks that say what was expected and what was seen. A case is one
# program about one subject; it ends with status 0 if all of it holds, and stops at the first thing that does not.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
top=$(cd "$here/../.." && pwd)
BUILD=${BUILD:-$top/build/release}
case $BUILD in /*) ;; *) BUILD=$top/$BUILD ;; esac
SLABLOAD=${SLABLOAD:-$BUILD/slabload}
TABLES=$top/tests/tables
source "$top/tests/tools/env.sh"

WORK=$(mktemp -d "${TMPDIR:-/tmp}/slabload-case.XXXXXX")
trap 'rm -rf "$WORK"' EXIT
cd "$WORK"

fail() {
  echo "$(basename "$0"): $*" >&2
  exit 1
}

# What the last `run` or `run_mpi` printed and returned.
OUT=$WORK/.stdout ERR=$WORK/.stderr STATUS=0
LIMIT=${LIMIT:-60}  # seconds for one program
PRELOAD=            # a library under $BUILD to put below the program, or empty

in_environment() {
  local environment=()
  # With the sanitizers linked in, another library in front of theirs is what these tests want.
  [ -z "$PRELOAD" ] || environment=(LD_PRELOAD="$BUILD/$PRELOAD" ASAN_OPTIONS="${ASAN_OPTIONS:-}:verify_asan_link_order=0")
  env "${environment[@]}" "$@"
}

# run ARGS...: slabload alone
run() {
  STATUS=0
  in_environment timeout -k 5 "$LIMIT" "$SLABLOAD" "$@" >"$OUT" 2>"$ERR" || STATUS=$?
}

# run_mpi N ARGS...: slabload on N ranks
run_mpi() {
  local ranks=$1
  shift
  STATUS=0
  if [ -n "$PRELOAD" ]; then
    # Below the ranks only, not below mpirun.
    timeout -k 5 "$LIMIT" ${MPIRUN:-mpirun} -n "$ranks" env LD_PRELOAD="$BUILD/$PRELOAD" \
      ASAN_OPTIONS="${ASAN_OPTIONS:-}:verify_asan_link_order=0" "$SLABLOAD" "$@" >"$OUT" 2>"$ERR" || STATUS=$?
  else
    timeout -k 5 "$LIMIT" ${MPIRUN:-mpirun} -n "$ranks" "$SLABLOAD" "$@" >"$OUT" 2>"$ERR" || STATUS=$?
  fi
}

show() { { echo "--- stdout"; tail -n 40 "$OUT"; echo "--- stderr"; tail -n 40 "$ERR"; } >&2; }

expect_status() {
  [ "$STATUS" = "$1" ] || { show; fail "exit status $STATUS, expected $1"; }
}
expect_out() { grep -qE -- "$1" "$OUT" || { show; fail "stdout does not match: $1"; }; }
expect_err() { grep -qE -- "$1" "$ERR" || { show; fail "stderr does not match: $1"; }; }
expect_equal() { [ "$1" = "$2" ] || { show; fail "${3:-value}: '$1', expected '$2'"; }; }
expect_same_file() { cmp -- "$1" "$2" >&2 || fail "$1 and $2 differ"; }
expect_no_file() { [ ! -e "$1" ] || fail "$1 is there and should not be"; }

# json FILE EXPRESSION: a value of a JSON report, the document being `r`: json report.json 'r["read_bytes"]'
json() { "$PYTHON" -c 'import json,sys; r=json.load(open(sys.argv[1])); print(eval(sys.argv[2]))' "$1" "$2"; }
expect_json() {
  local value
  value=$(json "$1" "$2")
  [ "$value" = "$3" ] || { show; fail "$2 is $value, expected $3"; }
}
expect_json_true() {
  [ "$(json "$1" "$2")" = True ] || { show; fail "does not hold in $1: $2"; }
}

# A small table of tensors with odd shapes and several types, for cases that need any checkpoint.
small_table() {
  printf '%s\t%s\t%s\n' \
    embed.weight bf16 1003,64  layers.0.attn.weight f32 67,129  layers.0.attn.bias f32 67 \
    layers.0.mlp.weight f16 130,515  layers.1.mlp.weight bf16 515,130  layers.1.norm.weight bf16 31 \
    lm_head.weight bf16 1003,64 >"$1"
}
