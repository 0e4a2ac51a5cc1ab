#!/usr/bin/env bash
# How loading grows with hosts: every strategy and layout, cold, on 1 2 4 8 hosts (or those given), one load after the
# other. Leaves a table, a picture and all reports in $OUT.
#   OUT=build/curve   TABLE=FILE.tsv (2 GB: the embedding and two layers of a 7B)   SCALE=1 divides its dimensions
#   LINK=1gbit        READ_LINK=$LINK   STORAGE_LINK=4gbit   RANKS=1 on each host   REPEAT=1 (the median counts)
#   COST=...          what `plan` is told of the links (default: 119 MB/s, 119 MB/s and 476 MB/s, what TCP leaves of the defaults)
#   STRATEGIES="rank0-full rank0-broadcast every-rank slab"   LAYOUTS="fsdp2 hsdp replicate"
# Nothing else should run meanwhile: the hosts share this machine's cores.
out=${OUT:-build/curve}
export LIMIT=${LIMIT:-900}
source "$(dirname "${BASH_SOURCE[0]}")/test_lib.sh"
read -ra counts <<<"${*:-1 2 4 8}"
read -ra strategies <<<"${STRATEGIES:-rank0-full rank0-broadcast every-rank slab}"
read -ra layouts <<<"${LAYOUTS:-fsdp2 hsdp replicate}"
ranks=${RANKS:-1} link=${LINK:-1gbit} read_link=${READ_LINK:-${LINK:-1gbit}} storage_link=${STORAGE_LINK:-4gbit}
mkdir -p "$out"
out=$(cd "$out" && pwd)

most=$(printf '%s\n' "${counts[@]}" | sort -n | tail -n 1)
"$here/up.sh" --hosts "$most" --link "$link" --read-link "$read_link" --storage-link "$storage_link" --brick-size 4g --while $$ || exit 1
table=${TABLE:-$work/table.tsv}
[ -n "${TABLE:-}" ] || grep -E '^model\.(embed_tokens|norm|layers\.[01])\.' "$top/tests/tables/qwen2.5-coder-7b.tsv" >"$table"
on_hosts 1 2 generate --table "$table" --scale "${SCALE:-1}" --out model.h5 || exit 1
[ "$STATUS" = 0 ] || { cat "$OUT" "$ERR"; exit 1; }
bytes=$(sed -nE 's/^# tensors .* bytes ([0-9]+) .*/\1/p' "$OUT")
echo "# model.h5: $bytes bytes; hosts' links $link to each other and $read_link to the storage, storage's $storage_link, $ranks rank(s) a host, cold"

# received HOST INTERFACE
received() { on "$1" awk -v port="$2:" '$1 == port { print $2 }' /proc/net/dev; }
cost=${COST:-fabric=119MB/s,fs_per_rank=119MB/s,fs=476MB/s}
# How much memory of this machine a load takes, and how long: by the program's own plan.
planned() {
  on_hosts 1 1 plan model.h5 --ranks "$1" --mesh "$2" --layout "$3" --strategy "$4" --cost "$cost" --json
  "$PYTHON" -c '
import json, sys
r = json.load(open(sys.argv[1]))
print(r["peak_bytes"]["sum"], r["bound_s"])' "$OUT"
}
rows=$out/rows.tsv
printf '%s\t' hosts ranks layout strategy bound_s total_s startup_s read_bytes rss_rank0 rss_max eth1_sum eth1_max eth0_sum >"$rows"
printf 'eth0_max\n' >>"$rows"
failures=0
for hosts in "${counts[@]}"; do
  all=$((hosts * ranks))
  for layout in "${layouts[@]}"; do
    mesh=dp_shard=$all
    if [ "$layout" = hsdp ]; then
      [ $((all % 2)) = 0 ] || continue
      mesh=dp_replicate=2,dp_shard=$((all / 2))
    fi
    for strategy in "${strategies[@]}"; do
      read -r need bound < <(planned $all $mesh "$layout" "$strategy")
      free=$(awk '/^MemAvailable/ { printf "%.0f", $2 * 1024 }' /proc/meminfo)
      if [ "$need" -gt $((free - 1500000000)) ]; then
        echo "# $hosts hosts, $layout, $strategy: left out, it needs $need bytes of this machine's memory, $free are free"
        continue
      fi
      for turn in $(seq "${REPEAT:-1}"); do
        "$here/cold.sh" || exit 1
        before=()
        for i in $(seq "$hosts"); do before[i]="$(received "n$i" eth1) $(received "n$i" eth0)"; done
        report=$out/$hosts-$layout-$strategy-$turn.json
        on_hosts "$hosts" "$ranks" load model.h5 --mesh $mesh --layout "$layout" --strategy "$strategy" --cost "$cost" --report "$report"
        if [ "$STATUS" != 0 ]; then
          echo "# $hosts hosts, $layout, $strategy: status $STATUS: $(grep error "$ERR")"
          failures=$((failures + 1))
          continue
        fi
        sum1=0 max1=0 sum0=0 max0=0
        for i in $(seq "$hosts"); do
          read -r old1 old0 <<<"${before[i]}"
          new1=$(($(received "n$i" eth1) - old1)) new0=$(($(received "n$i" eth0) - old0))
          sum1=$((sum1 + new1)) sum0=$((sum0 + new0))
          [ $new1 -le $max1 ] || max1=$new1
          [ $new0 -le $max0 ] || max0=$new0
        done
        "$PYTHON" -c '
import json, sys
r = json.load(open(sys.argv[1]))
start = sum(p["max_s"] for p in r["phases"] if p["name"] in ("open", "plan"))
print(*sys.argv[2:7], r["total_s"], start, r["read_bytes"], r["rss_peak_bytes"][0], r["rss_peak_bytes_max"], *sys.argv[7:], sep="\t")' \
          "$report" "$hosts" $all "$layout" "$strategy" "$bound" $sum1 $max1 $sum0 $max0 >>"$rows" || exit 1
        tail -n 1 "$rows"
      done
    done
  done
done
"$PYTHON" "$here/curve.py" "$rows" "$bytes" "$out/curve.md" "$out/curve.svg" || exit 1
cat "$out/curve.md"
[ $failures = 0 ]
