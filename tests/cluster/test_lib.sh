# Sourced by test.sh and curve.sh: a cluster of their own, taken down on any exit, and tests that are counted.
set -uo pipefail
work=$(mktemp -d "${TMPDIR:-/tmp}/slabload-cluster-test.XXXXXX")
chmod 711 "$work"  # munged wants its socket to be reachable for all
export CLUSTER_DIR=$work/cluster
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
BUILD=${BUILD:-build/release}
case $BUILD in /*) ;; *) BUILD=$top/$BUILD ;; esac
export BUILD SLABLOAD=${SLABLOAD:-$BUILD/slabload}
source "$top/tests/tools/env.sh"

finish() {
  local status=$?
  trap '' INT TERM HUP
  if [ -n "${KEEP_LOGS:-}" ]; then cp -r "$CLUSTER_DIR/log" "$KEEP_LOGS" 2>/dev/null; fi
  "$here/down.sh" || status=1
  rm -rf "$work"
  exit $status
}
trap finish EXIT
trap 'exit 130' INT TERM HUP

OUT=$work/stdout ERR=$work/stderr STATUS=0
LIMIT=${LIMIT:-120}  # seconds for one program

# on_hosts HOSTS RANKS_PER_HOST ARGS...: slabload on them; run_options go to mpirun
run_options=()
on_hosts() {
  STATUS=0
  timeout -k 5 "$LIMIT" "$here/run.sh" "$1" "$2" "${run_options[@]}" -- slabload "${@:3}" >"$OUT" 2>"$ERR" || STATUS=$?
}
fail() {
  {
    echo "$*"
    echo "--- stdout"; tail -n 25 "$OUT"; echo "--- stderr"; tail -n 25 "$ERR"
  } >&2
  exit 1
}
expect_status() { [ "$STATUS" = "$1" ] || fail "exit status $STATUS, expected $1"; }
expect_out() { grep -qE -- "$1" "$OUT" || fail "stdout does not match: $1"; }
expect_err() { grep -qE -- "$1" "$ERR" || fail "stderr does not match: $1"; }
# Of ours exactly one line of error, which matches.
expect_error() {
  expect_status "$1"
  [ "$(grep -c 'slabload: .*error' "$ERR")" = 1 ] || fail "$(grep -c 'slabload: .*error' "$ERR") lines of error, expected 1"
  grep -E 'slabload: .*error' "$ERR" | grep -E -- "$2" >/dev/null || fail "the error does not match: $2"
}
# holds FILE EXPRESSION: of a JSON report `r`
holds() {
  "$PYTHON" -c 'import json,sys; r=json.load(open(sys.argv[1])); v=eval(sys.argv[2]); v is True or sys.exit(f"{sys.argv[2]}: {v}; {({k: r[k] for k in r if k in sys.argv[2]})}")' \
    "$1" "$2" || fail "does not hold in $1: $2"
}
# What still runs of the program on any host, half a minute after a job has ended.
nobody_left() {
  local pid i left=
  for i in $(seq 60); do
    left=
    for pid in $(processes); do
      [ "$(readlink "/proc/$pid/exe" 2>/dev/null)" != "$(realpath "$SLABLOAD")" ] || left+=" $pid"
    done
    [ -n "$left" ] || return 0
    sleep 0.5
  done
  fail "processes of the job are left:$left"
}

passed=0 failed=0
# check NAME FUNCTION ARGS...: in a shell of its own that stops at the first thing that does not hold
in_short() {
  local pattern
  # shellcheck disable=SC2053
  for pattern in "${short[@]}"; do [[ $1 != $pattern ]] || return 0; done
  return 1
}
check() {
  local name=$1 start=$SECONDS status=0
  shift
  # shellcheck disable=SC2053  # K is a pattern
  [ -z "${K:-}" ] || [[ $name == $K ]] || return 0
  [ -z "${SHORT:-}" ] || in_short "$name" || return 0
  # Not as a condition: there `set -e` has no effect.
  (trap - EXIT; set -e; "$@") >"$work/check.out" 2>&1 &
  wait $! || status=$?
  if [ $status = 0 ]; then
    passed=$((passed + 1))
    printf 'ok   %-52s %4d s\n' "$name" $((SECONDS - start))
  else
    failed=$((failed + 1))
    tail -n 70 "$work/check.out"
    printf 'FAIL %-52s %4d s\n' "$name" $((SECONDS - start))
  fi
}
