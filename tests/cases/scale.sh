# No step grows with tensors x ranks: whatever the number of tensors, one rank walks the file, and a rank opens only the
# datasets that it reads from.
source "$(dirname "$0")/lib.sh"

RANKS=4
make_file() {  # TENSORS
  awk -v n="$1" 'BEGIN {for (i = 0; i < n; ++i) printf "t%05d.weight\tbf16\t16,9\n", i; print "one\tf32\t1\nbig\tf32\t512,1024"}' >table.tsv
  run_mpi 1 generate --table table.tsv --out "$1.h5"
  expect_status 0
}

# traced_load FILE OPTION...: leaves a line "calls bytes" for each rank in reads.0, reads.1, ...
traced_load() {
  local file=$1 rank
  shift
  rm -f trace.*
  STATUS=0
  timeout -k 5 "$LIMIT" ${MPIRUN:-mpirun} -n $RANKS bash -c \
    'exec strace -f -qq -y --seccomp-bpf -e trace=read,pread64,readv,preadv,preadv2 -o "trace.$OMPI_COMM_WORLD_RANK" "$@"' - \
    "$SLABLOAD" load "$file" --report report.json "$@" >"$OUT" 2>"$ERR" || STATUS=$?
  expect_status 0
  for rank in 0 1 2 3; do "$PYTHON" "$here/lib.py" reads "$file" trace.$rank >reads.$rank; done
}

make_file 100
make_file 10000

# A tensor of one element, read by one rank, whichever. The others read nothing of the file, not even to open it, with
# 10,000 tensors as with 100; the one that reads goes down to its dataset, a step more in a tree a hundred times as big.
for io in independent direct; do
  for tensors in 100 10000; do
    traced_load $tensors.h5 --select one --io $io
    expect_json report.json '(r["tensors"], r["read_bytes"], r["read_requests"])' "(1, 4, 1)"
    expect_json report.json 'r["datasets_opened"]' "$([ $io = direct ] && echo 0 || echo 1)"
    cp reads.0 $io.$tensors.walk
    sort -n reads.1 reads.2 reads.3 >$io.$tensors.others
    echo "$io, 1 of $((tensors + 2)) tensors: calls and bytes of rank 0: $(<reads.0), of the others: $(paste -sd, $io.$tensors.others)"
  done
  for tensors in 100 10000; do
    expect_equal "$(head -n 2 $io.$tensors.others | sort -u)" "0 0" "$io: calls and bytes of the idle ranks, $tensors tensors"
  done
  read -r calls bytes < <(tail -n 1 $io.10000.others)
  [ "$calls" -le 16 ] && [ "$bytes" -le 65536 ] || fail "$io: a rank read $bytes bytes in $calls calls, for one tensor"
  # The check has to see what it is about: rank 0's walk does grow.
  read -r few _ <$io.100.walk
  read -r many _ <$io.10000.walk
  [ "$many" -gt $((10 * few)) ] || fail "rank 0 read $many times for 10,000 tensors, $few times for 100: does strace see it?"
done

# All tensors: the small ones are merged into requests for which no dataset is opened; the large ones are opened by the ranks
# that read a slab of them.
traced_load 10000.h5 --min-read 64KiB
expect_json report.json '(r["tensors"], r["wrong"], r["tensors_verified"])' "(10002, 0, 10002)"
opened=$(json report.json 'r["datasets_opened"]')
[ "$opened" -le $((2 * RANKS)) ] || fail "datasets opened: $opened, for 10,002 tensors on $RANKS ranks"
cat reads.1 reads.2 reads.3 | while read -r calls bytes; do
  # Many in a request: as far as nothing lies between them in the file.
  [ "$calls" -le 1000 ] || fail "a rank made $calls reads for its quarter of 10,000 small tensors"
done
echo "all 10,002 tensors on $RANKS ranks: $opened datasets opened, open $(json report.json 'round(r["phases"][0]["max_s"],3)') s under strace," \
  "calls and bytes $(cat reads.0 reads.1 reads.2 reads.3 | paste -sd,)"

run_mpi $RANKS load 10000.h5 --io direct --verify none --report report.json
expect_status 0
expect_json report.json 'r["datasets_opened"]' 0
