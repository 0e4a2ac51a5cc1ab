# Sourced by test.sh: what can fail where there are several hosts. The job ends by itself, with a clear line, and leaves
# nobody behind.

# A job in the background: begin ARGS of on_hosts; then ended.
begin() {
  rm -f "$work/job.status"
  (trap - EXIT; on_hosts "$@"; echo "$STATUS" >"$work/job.status") &
  job=$!
}
ended() {
  wait $job || true
  STATUS=$(cat "$work/job.status")
}
# All bytes that the host's interface has taken in and given out, by its own counters.
counted() { on "$1" awk -v port="$2:" '$1 == port { print $2 + $10 }' /proc/net/dev; }
# after_bytes HOST INTERFACE BYTES: waits until that many have moved since `mark`, or the job is over
mark=0
after_bytes() {
  while [ ! -e "$work/job.status" ] && [ $(($(counted "$1" "$2") - mark)) -lt "$3" ]; do sleep 0.1; done
  [ ! -e "$work/job.status" ] || fail "the job was over before $3 bytes had moved"
}

# rate HOST INTERFACE RATE [BURST]: both ways
rate() {
  on "$1" tc qdisc replace dev "$2" root tbf rate "$3" burst "${4:-16kb}" latency 50ms
  on head tc qdisc replace dev "$1.$2" root tbf rate "$3" burst "${4:-16kb}" latency 50ms
}

# ---- hosts that do not see the same files -------------------------------------------------------------------------------

missing_mount() {
  on n2 umount "$FS"
  on_hosts 2 1 load good.h5
  on n2 "$here/mount.sh"
  expect_error 3 '\[rank 1 n2\].*good.h5.*No such file'
}

# different WORDS COMMAND: good.h5 on n2 is a copy that COMMAND has changed
different() {
  on n2 cp -p "$FS/good.h5" "$LOCAL/other.h5"
  on n2 sh -c "cd '$LOCAL'; $2"
  on n2 mount --bind "$LOCAL/other.h5" "$FS/good.h5"
  on_hosts 3 2 load good.h5 --verify none
  on n2 umount "$FS/good.h5"
  on n2 rm "$LOCAL/other.h5"
  expect_error 3 "\\[rank 2 n2\\].*good.h5.*$1.*n1.*nothing was read"
}

# The same size, inode and time, other bytes: two steps of a training, each on a file system of a host's own.
same_inode() {
  local host file=$LOCAL/own/model.h5
  for host in n1 n2; do
    on $host sh -c "mkdir '$LOCAL/own' && mount -t tmpfs none '$LOCAL/own' && cp '$FS/good.h5' '$file'"
  done
  on n2 "$PYTHON" -c "$1" "$file"
  for host in n1 n2; do on $host touch -d 2026-01-01T00:00:00Z "$file"; done
  [ "$(on n1 stat -c '%i %s %Y' "$file")" = "$(on n2 stat -c '%i %s %Y' "$file")" ] || fail "the two files can be told apart"
  on_hosts 2 1 load "$file" --verify none
  for host in n1 n2; do on $host sh -c "umount '$LOCAL/own' && rmdir '$LOCAL/own'"; done
  expect_error 3 '\[rank 1 n2\].*model.h5.*other bytes.*n1.*nothing was read'
}
# Every byte of every tensor is another one; what describes them is the same.
another_step='
import h5py, sys
with h5py.File(sys.argv[1]) as file:
    places = [(d.id.get_offset(), d.id.get_storage_size()) for d in file.values() if isinstance(d, h5py.Dataset)]
assert len(places) == 9
with open(sys.argv[1], "r+b") as file:
    for offset, size in places:
        file.seek(offset); old = file.read(size); file.seek(offset); file.write(bytes(255 - b for b in old))'

clocks_apart() {
  local first preload=$BUILD/clock_preload.so
  export SLABLOAD_CLOCK_SHIFT=86400 SLABLOAD_CLOCK_HOST=n2
  [ "$(on n2 env LD_PRELOAD="$preload" date +%s)" -gt $(($(on n1 env LD_PRELOAD="$preload" date +%s) + 86000)) ] ||
    fail "the clocks agree"
  run_options=(-x LD_PRELOAD="$preload")
  for first in n1,n2,n3 n2,n1,n3; do
    on_hosts $first 1 generate --table "$table" --out clocks.h5 --seed $seed --force
    expect_status 0
    # The time of a file that a host with such a clock has written.
    on n2 touch -d '+1 day' "$FS/clocks.h5"
    on_hosts $first 1 load clocks.h5 --verify shards --timeline "$work/timeline.json" --timeout 20s
    expect_status 0
    expect_out '^#wrong 0$'
    # What a rank did is in the timeline where it was done, whatever its clock says.
    "$PYTHON" -c '
import json, sys
spans = [e for e in json.load(open(sys.argv[1]))["traceEvents"] if e.get("ph") == "X"]
assert len({e["pid"] for e in spans}) == 3, {e["pid"] for e in spans}
assert all(0 <= e["ts"] and e["ts"] + e["dur"] < 600e6 for e in spans), spans[:3]' "$work/timeline.json"
  done
}

# ---- the network --------------------------------------------------------------------------------------------------------

# An interface with the same address on every host, as a bridge of containers has it: MPI is made to take that one.
wrong_interface() {
  local host
  for host in n1 n2; do
    on $host sh -c 'ip link add containers type bridge && ip address add 172.17.0.1/16 dev containers && ip link set containers up'
  done
  BTL_IF=172.17.0.0/16 on_hosts 2 1 load good.h5 --timeout 3s
  for host in n1 n2; do on $host ip link del containers; done
  [ "$STATUS" != 0 ] && [ "$STATUS" != 124 ] || fail "exit status $STATUS"
  expect_err 'OMPI_MCA_btl_tcp_if_include'
  nobody_left
}

# broken_link INTERFACE COMMAND WORDS: n2's link is slow, and in the middle of a load COMMAND breaks it
broken_link() {
  rate n2 "$1" 8mbit
  "$here/cold.sh"
  mark=$(counted n2 "$1")
  LIMIT=60 begin 3 1 load good.h5 --layout replicate --strategy rank0-broadcast --min-read 64KiB --timeout 4s
  after_bytes n2 "$1" 700000
  eval "$2"
  ended
  on head ip link set "n2.$1" up
  rate n2 "$1" 1gbit 1mb
  on n2 "$here/mount.sh"
  case $STATUS in 0 | 124 | 137) fail "exit status $STATUS" ;; esac
  expect_err "$3"
  nobody_left
}
cut_fabric='on head ip link set n2.eth0 down'
crawl='rate n2 eth0 2kbit 4kb'

# ---- the file system ------------------------------------------------------------------------------------------------------

# n2 reads alone through its slow link; what it still wants is then on a server that is gone.
storage_cut() {
  rate n2 eth1 8mbit
  "$here/cold.sh"
  mark=$(counted n2 eth1)
  LIMIT=60 begin n1,n2 1 load good.h5 --min-read 64KiB --timeout 4s
  after_bytes n2 eth1 700000
  eval "$1"
  ended
  case $STATUS in 3 | 4) ;; *) fail "exit status $STATUS" ;; esac
  expect_err '\[rank 1 n2\].*(good.h5|phase read)'
  eval "$2"
  rate n2 eth1 1gbit 1mb
  "$here/cold.sh"
  nobody_left
  on_hosts 2 1 verify good.h5
  expect_status 0
}
# The server of the file's first block.
kill_brick='on storage sh -c "kill -9 \$(cat /run/gluster/vols/checkpoints/*bricks-$(brick_of good.h5)-data.pid)"'
start_brick='on storage gluster --mode=script volume start checkpoints force >/dev/null; sleep 1'
brick_of() {
  local brick
  for brick in 1 2 3 4; do
    [ -z "$(on storage find "$CLUSTER_DIR/bricks/$brick/data" -maxdepth 1 -name "$1" -size +8k)" ] || { echo $brick; return; }
  done
}

disk_full() {
  printf 'big.%d\tbf16\t4096,4096\n' 1 2 3 4 5 6 7 8 >"$work/big.tsv"
  on_hosts 2 1 generate --table "$work/big.tsv" --out big.h5
  expect_status 3
  expect_err 'big.h5.*No space left'
  [ -z "$(on n1 find "$FS" -name '*big*')" ] || fail "left: $(on n1 ls -A "$FS")"
  on_hosts 2 1 verify good.h5
  expect_status 0
}

check "a mount is missing on one host" missing_mount
check "another file on one host: its size" different 'another one' 'echo >>other.h5'
check "another file on one host: its inode" different 'another one' 'touch -r other.h5 other.h5'
check "another file on one host: what it holds" same_inode "$another_step"
check "clocks a day apart" clocks_apart
check "MPI takes an interface that joins nobody" wrong_interface
check "a host's link is cut in a load" broken_link eth0 "$cut_fabric" 'no progress for [0-9]+ s in phase (fill|verify|end).*10\.77\.0\.2'
check "a host's link slows to a crawl" broken_link eth0 "$crawl" 'no progress for [0-9]+ s in phase (fill|verify|end)'
check "a host's link to the storage is cut" storage_cut 'on head ip link set n2.eth1 down' 'on head ip link set n2.eth1 up'
check "a brick is killed in a load" storage_cut "$kill_brick" "$start_brick"
check "the file system is full" disk_full
