# The command line on real runs: help, version, where an option comes from, what goes to stdout and to stderr, plan, bench.
source "$(dirname "$0")/lib.sh"

small_table small.tsv
run_mpi 2 generate --table small.tsv --out model.h5
expect_status 0
expect_equal "$(cat "$ERR")" "" "stderr of a run that went well"
tensor_bytes=$((1003 * 64 * 2 * 2 + 67 * 129 * 4 + 67 * 4 + 130 * 515 * 2 * 2 + 31 * 2))
expect_out "^# tensors 7  bytes $tensor_bytes "

# help and version
verbs="generate import export inspect plan load verify bench help version"
run help
expect_status 0
for verb in $verbs; do expect_out "(^| )$verb( |$)"; done
for verb in $verbs; do
  run help $verb
  expect_status 0
  expect_out "slabload $verb"
  cp "$OUT" help.$verb
  [ $verb != help ] || continue
  run $verb --help
  expect_status 0
  expect_same_file "$OUT" help.$verb
done
for option in mesh layout strategy device fabric io hint staging min-read select exclude expect cast verify timeout report stage-out; do
  grep -qE -- "--$option\b" help.load || fail "help load says nothing of --$option"
done
grep -q '256MiB' help.load || fail "help load does not give the default of --staging"
run version
expect_status 0
expect_out '^slabload [0-9]+\.[0-9]+\.[0-9]+'
expect_out 'MPI.*HDF5 [0-9.]+'

# what is no word of the program
run
expect_status 2
run lode model.h5
expect_status 2
expect_err "unknown verb 'lode'; did you mean load"
run load model.h5 --stagin 1MiB
expect_status 2
expect_err 'unknown option --stagin; did you mean --staging'
run_mpi 3 load model.h5 --stagin 1MiB
expect_status 2
expect_equal "$(grep -c 'slabload: error' "$ERR")" 1 "lines of error on 3 ranks"
run load model.h5 --staging lots
expect_status 2
expect_err '[-]-staging.*lots'
run load model.h5 --layout tp
expect_status 2
expect_err 'needs a mesh axis tp'
run load
expect_status 2
expect_err 'CKPT'

# command line over environment over file, seen in what the run did
printf 'min-read = 1KiB\nstaging = 8MiB\nio = direct\nverify = none\nseed = 3\n' >run.ini
budget='r["staging_budget_bytes"]' io='r["io"].split(",")[0]' verified='r["tensors_verified"]'
run_mpi 2 load model.h5 --config run.ini --report report.json
expect_status 0
expect_json report.json "$budget, $io, $verified" "(8388608, 'direct', 0)"
export SLABLOAD_STAGING=16MiB SLABLOAD_VERIFY=checksum SLABLOAD_REPORT=report.json
run_mpi 2 load model.h5 --config run.ini
expect_status 0
expect_json report.json "$budget, $io, $verified" "(16777216, 'direct', 7)"
run_mpi 2 load model.h5 --config run.ini --staging 32MiB --io independent
expect_status 0
expect_json report.json "$budget, $io, $verified" "(33554432, 'independent', 7)"
SLABLOAD_CONFIG=run.ini run_mpi 1 load model.h5 --staging 24MiB
expect_status 0
expect_json report.json "$budget, $io, $verified" "(25165824, 'direct', 7)"
SLABLOAD_STAGING=lots
run load model.h5
expect_status 2
expect_err 'SLABLOAD_STAGING.*lots'
unset SLABLOAD_STAGING SLABLOAD_VERIFY SLABLOAD_REPORT
echo 'stagin = 1MiB' >wrong.ini
run load model.h5 --config wrong.ini
expect_status 2
expect_err "wrong.ini.*'stagin'"

# one report, from rank 0 alone, and nothing else on stdout
run_mpi 3 load model.h5 --layout replicate --report report.json
expect_status 0
expect_equal "$(grep -c '^# slabload ' "$OUT")" 1 "reports on stdout"
expect_equal "$(tail -n 1 "$OUT")" "#wrong 0" "last line of stdout"
expect_equal "$(grep -vcE '^(#|  (open|plan|read|copy|fill|verify|total) )' "$OUT" || true)" 0 "lines of stdout that are no report"
keys='schema_version version checkpoint ranks hosts ranks_per_node mesh layout strategy strategy_why device fabric io hints
tensors tensors_verified tensors_unverified wrong selected_bytes read_bytes read_amplification read_requests
read_share_max_over_mean fill_bytes rounds staging_budget_bytes staging_peak_bytes shard_bytes_max rss_peak_bytes_max
rss_peak_rank rss_peak_bytes device_peak_bytes_max total_s bound_s over_bound phases'
for key in $keys; do expect_json_true report.json "'$key' in r"; done
expect_json report.json '[p["name"] for p in r["phases"]]' "['open', 'plan', 'read', 'copy', 'fill', 'verify', 'total']"
expect_json report.json '(r["selected_bytes"], r["fill_bytes"], r["ranks"])' "($tensor_bytes, $((2 * tensor_bytes)), 3)"
cp report.json three.json
run_mpi 1 load model.h5 --layout replicate --report report.json
expect_status 0
expect_equal "$(json report.json 'list(r)')" "$(json three.json 'list(r)')" "keys on 1 rank and on 3"

# a cast is said, and a narrowing one by name
run_mpi 2 load model.h5 --cast bf16
expect_status 0
expect_out 'NARROWING cast of .*layers.0.attn'

# plan: without mpirun, of a checkpoint and of a table
run plan model.h5 --mesh dp_replicate=2,dp_shard=3 --layout hsdp
expect_status 0
expect_out '^# read amplification 1\.000$'
expect_out "^# tensors 7  selected .*\($tensor_bytes bytes\)"
expect_out 'plan valid'
run plan --table small.tsv --mesh dp_replicate=2,dp_shard=3 --layout hsdp --json
expect_status 0
cp "$OUT" table.json
run plan model.h5 --mesh dp_replicate=2,dp_shard=3 --layout hsdp --json
expect_status 0
expect_json_true "$OUT" 'isinstance(r, dict) and r["ranks"] == 6'
expect_json "$OUT" 'r["read_amplification"]' "$(json table.json 'r["read_amplification"]')"
run plan model.h5 --ranks 4 --explain embed.weight
expect_status 0
# torch.chunk of 1003 rows: three times 251, then 250.
expect_out '^tensor embed.weight'
expect_out 'rank 0 +holds \[0:251, 0:64\]'
expect_out 'rank 3 +holds \[753:1003, 0:64\]'
run plan model.h5 --explain nothing.here
expect_status 2
expect_err 'nothing.here'
run plan model.h5 --table small.tsv
expect_status 2
# Largest share of one rank over the mean, for every model at 4 to 64 ranks.
for table in "$TABLES"/*.tsv; do
  shares=
  for ranks in 4 16 64; do
    for layout in fsdp2 hsdp; do
      mesh=dp_shard=$ranks
      [ $layout = fsdp2 ] || mesh=dp_replicate=2,dp_shard=$((ranks / 2))
      run plan --table "$table" --mesh $mesh --layout $layout
      expect_status 0
      share=$(sed -nE 's/^# largest read share over the mean ([0-9.]+)$/\1/p' "$OUT")
      awk -v s="$share" 'BEGIN {exit !(s >= 1 && s <= 1.05)}' || fail "$(basename "$table") on $ranks ranks, $layout: share $share"
      shares+=" $share"
    done
  done
  echo "largest share over the mean, $(basename "$table" .tsv) on 4, 16, 64 ranks, fsdp2 and hsdp:$shares"
done

# A report replaces nothing that the run reads or makes.
cksum model.h5 >whole
for given in 'load model.h5 --report model.h5' 'load model.h5 --timeline ./model.h5' \
  'bench model.h5 --json model.h5' 'save --from model.h5 --out new.h5 --report new.h5' 'load model.h5 --report r.json --timeline r.json'; do
  # shellcheck disable=SC2086
  run $given
  expect_status 2
  expect_err 'are one file'
done
expect_equal "$(cksum model.h5)" "$(cat whole)" "the checkpoint"
expect_no_file new.h5
# By another name it is seen when the report is written.
ln -s model.h5 same.h5
run load model.h5 --report same.h5
expect_status 2
expect_err 'same\.h5: is a checkpoint, which no report replaces'
expect_equal "$(cksum model.h5)" "$(cat whole)" "the checkpoint"
rm same.h5
# Nor the index of a folder of shards, and it makes none there.
run export model.h5 --out shards --max-file-bytes 400KB
expect_status 0
cksum shards/*.index.json >whole.index
for given in "load shards --report shards/model.safetensors.index.json" "plan model.h5 --ranks 2 --report shards/model.safetensors.index.json" \
  "plan model.h5 --ranks 2 --svg shards/other.index.json"; do
  # shellcheck disable=SC2086
  run $given
  expect_status 2
  expect_err 'index'
done
expect_equal "$(cksum shards/*.index.json)" "$(cat whole.index)" "the index"
rm -r shards

# bench: every strategy, JSON and CSV
run_mpi 2 bench model.h5 --repeat 2 --warmup 0 --json bench.json --csv bench.csv --plot bench.svg
expect_status 0
expect_equal "$(tail -n 1 "$OUT" | cut -c 1-7)" "# best:" "last line of bench"
"$PYTHON" - <<'END' || fail "bench.svg"
import xml.etree.ElementTree as tree
words = {text.strip() for node in tree.parse("bench.svg").getroot().iter() for text in node.itertext() if text.strip()}
# 'slab' stands for itself twice: below its bars, and beside its line.
for word in ("slab", "rank0-broadcast", "rank0-full", "every-rank", "start-up", "fill", "rank", "peak memory by rank (MB)"):
    assert any(word in found for found in words), (word, words)
END
run bench model.h5 --plot no/such/folder/bench.svg --repeat 1
expect_status 3
expect_err 'no/such/folder/bench.svg'
mkdir broken
printf '#!/bin/sh\necho worn out >&2\nexit 9\n' >broken/gnuplot
chmod +x broken/gnuplot
PATH=$PWD/broken:$PATH run bench model.h5 --plot none.svg
expect_status 3
expect_err '^slabload: error: gnuplot: ended with status 9: worn out$'
expect_no_file none.svg
expect_json_true bench.json 'isinstance(r, dict) and r["ranks"] == 2'
"$PYTHON" - <<'END' || fail "bench.csv"
import csv
rows = list(csv.DictReader(line for line in open("bench.csv") if not line.startswith("#")))
strategies = sorted(row["strategy"] for row in rows)
assert strategies == sorted(2 * ["slab", "rank0-broadcast", "rank0-full", "every-rank"]), strategies
END
run_mpi 2 bench model.h5 --strategies slab,every-rank --repeat 1 --cache cold
expect_status 0
expect_out 'resident|cold'
run bench model.h5 --strategies slab,slab
expect_status 2

# The bound of --cost, and words that are no rates
run_mpi 2 load model.h5 --cost fs=1GB/s,fabric=1GB/s --report bound.json
expect_status 0
expect_json_true bound.json 'r["bound_s"] > 0 and abs(r["over_bound"] - r["total_s"] / r["bound_s"]) < 1e-6'
run_mpi 2 load model.h5 --cost zz=1GB/s
expect_status 2

# Shards of an earlier load on more ranks are never left beside new ones; a set that is not whole is not left at all.
run_mpi 3 load model.h5 --stage-out used
expect_status 0
cksum used/* >before
run_mpi 2 load model.h5 --stage-out used
expect_status 3
cksum used/* >after
cmp -s before after || fail "a refused --stage-out changed the folder"
mkdir -p partial/rank-00001.safetensors
run_mpi 2 load model.h5 --stage-out partial
expect_status 3
expect_equal "$(ls partial)" rank-00001.safetensors "what a failed --stage-out leaves"

# Verbs that need no MPI print once on several ranks
run_mpi 3 inspect model.h5
expect_status 0
expect_equal "$(grep -c '^# checkpoint' "$OUT")" 1 "reports of inspect on 3 ranks"
echo "help, options, reports, plan and bench as the documents have them"
