#!/usr/bin/env bash
# Runs built fuzz targets, two at a time, each for FUZZ_SECONDS (60): run.sh FOLDER TARGET...
# FOLDER has the programs and `seeds`; what the targets find new is kept in FOLDER/corpus, an input that ends one in
# FOLDER/crashes. A line for each, then "N passed, M failed".
set -uo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
folder=$1
shift
limit=${FUZZ_SECONDS:-60}
mkdir -p "$folder/corpus" "$folder/crashes" "$folder/logs"
rm -rf "$folder/seeds.d"
"$folder/seeds" "$folder/seeds.d" || exit 1
export ASAN_OPTIONS=detect_leaks=1:allocator_may_return_null=0 UBSAN_OPTIONS=print_stacktrace=1

one() {
  local name=$1 status=0 words=()
  [ ! -e "$here/$name.dict" ] || words=(-dict="$here/$name.dict")
  mkdir -p "$folder/corpus/$name"
  # No input of this size has reason to make one take 10 s or ask for 256 MB at once.
  timeout -k 10 $((limit + 120)) "$folder/$name" "${words[@]}" -max_total_time="$limit" -max_len=4096 -timeout=10 \
    -malloc_limit_mb=256 -rss_limit_mb=1536 -print_final_stats=1 -artifact_prefix="$folder/crashes/$name-" \
    "$folder/corpus/$name" "$folder/seeds.d/$name" >"$folder/logs/$name" 2>&1 </dev/null || status=$?
  local runs rate word=ok
  runs=$(sed -nE 's/^stat::number_of_executed_units: ([0-9]+)/\1/p' "$folder/logs/$name")
  rate=$(sed -nE 's/^stat::average_exec_per_sec: +([0-9]+)/\1/p' "$folder/logs/$name")
  if [ $status != 0 ] || [ -z "$runs" ]; then
    word=FAIL
    grep -vE '^(#[0-9]+|INFO|NEW_FUNC)' "$folder/logs/$name" | tail -n 60
  fi
  printf '%-4s fuzz %-20s %10s executions %8s a second\n' "$word" "$name" "${runs:-?}" "${rate:-?}"
  echo "$word" >"$folder/logs/$name.word"
}

for name in "$@"; do
  while [ "$(jobs -rp | wc -l)" -ge "${JOBS:-2}" ]; do wait -n || true; done
  one "$name" &
done
wait
passed=0 failed=0
for name in "$@"; do
  if [ "$(cat "$folder/logs/$name.word")" = ok ]; then passed=$((passed + 1)); else failed=$((failed + 1)); fi
done
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
