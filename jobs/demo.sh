#!/usr/bin/env bash
# The demo: makes a checkpoint with the exact tensors of qwen2.5-0.5b (988 MB), loads it on 4 ranks as 2 replicas of 2
# shards, then again the way that needs the whole model on rank 0, and compares the two reports.
#   demo.sh          the demo
#   demo.sh bench    every strategy and the raw read rate, on 2 ranks, repeated
# SLABLOAD is the program, DEMO_DIR the folder of the checkpoint (default: build/demo), MPIRUN what starts ranks.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
here=${here#"$PWD"/}
SLABLOAD=${SLABLOAD:-slabload}
folder=${DEMO_DIR:-build/demo}
read -ra mpirun <<<"${MPIRUN:-mpirun}"
checkpoint=$folder/qwen2.5-0.5b.h5
source "$here/one_machine.sh"

say() { printf '\n== %s\n' "$*"; }
shown() { echo "+ $*"; "$@"; }

mkdir -p "$folder"
if [ -e "$checkpoint" ]; then
  say "The checkpoint is there from an earlier run: $checkpoint"
else
  free=$(df --output=avail -k "$folder" | tail -n 1)
  [ "$free" -gt 1200000 ] || { echo "demo: $folder has less than 1.2 GB free; set DEMO_DIR" >&2; exit 3; }
  say "Generate: the 290 tensors of qwen2.5-0.5b, written by 4 ranks"
  shown "${mpirun[@]}" -n 4 "$SLABLOAD" generate --table "$here/qwen2.5-0.5b.tsv" --out "$checkpoint" --seed 1
fi

if [ "${1:-}" = bench ]; then
  say "Bench: every strategy on 2 ranks, warm cache"
  shown "${mpirun[@]}" -n 2 "$SLABLOAD" bench "$checkpoint" --verify none --repeat "${REPEAT:-3}" --warmup 1 \
    --strategies slab,rank0-broadcast,rank0-full,every-rank --json "$folder/bench.json"
  exit
fi

load=("${mpirun[@]}" -n 4 "$SLABLOAD" load "$checkpoint" --mesh dp_replicate=2,dp_shard=2 --layout hsdp --staging 64MiB)
say "Load: every rank reads its own slab, the replicas exchange the rest"
shown "${load[@]}" --report "$folder/slab.json"
say "The same by rank0-full: rank 0 takes in the whole model, then hands it out"
shown "${load[@]}" --strategy rank0-full --report "$folder/rank0-full.json"

say "Compared (reports: $folder/slab.json, $folder/rank0-full.json)"
# The reports are the program's own JSON; three plain keys and one list of numbers are all that is taken from them.
awk '
function number(key) { return match(text, "\"" key "\": *-?[0-9.e+-]+") ? value() : 0 }
function value(   part) { part = substr(text, RSTART, RLENGTH); sub(/.*: */, "", part); return part + 0 }
function word(key,   part) {
  if (!match(text, "\"" key "\": *\"[^\"]*\"")) return "?"
  part = substr(text, RSTART, RLENGTH); sub(/^[^:]*: *"/, "", part); sub(/"$/, "", part); return part
}
function first(key,   part) {
  if (!match(text, "\"" key "\": *\\[ *[0-9]+")) return 0
  part = substr(text, RSTART, RLENGTH); sub(/.*\[ */, "", part); return part + 0
}
function row() {
  printf "%-16s %9.3f %14.1f %14.3f %14.1f %14.1f %10d %8d\n", word("strategy"), number("total_s"), \
    number("read_bytes") / 1e6, number("read_amplification"), first("rss_peak_bytes") / 1e6, \
    number("rss_peak_bytes_max") / 1e6, number("rss_peak_rank"), number("wrong")
  seconds[++rows] = number("total_s"); rank0[rows] = first("rss_peak_bytes")
}
BEGIN {
  printf "%-16s %9s %14s %14s %14s %14s %10s %8s\n", "strategy", "time", "read", "amplification", "rank 0 memory", \
    "largest memory", "of rank", "#wrong"
  printf "%-16s %9s %14s %14s %14s %14s %10s %8s\n", "", "s", "MB", "read/selected", "MB", "MB", "", ""
}
FNR == 1 && NR > 1 { row(); text = "" }
{ text = text " " $0 }
END {
  row()
  if (seconds[1] > 0 && rank0[1] > 0)
    printf "\nrank0-full takes %.2f times as long and %.2f times the memory on rank 0.\n", seconds[2] / seconds[1], rank0[2] / rank0[1]
}' "$folder/slab.json" "$folder/rank0-full.json"
