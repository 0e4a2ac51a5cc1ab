#!/bin/bash
# tests/gpu/tools/steps.sh NAME: one step of tests/gpu/one_gpu.sh, which sets the variables used here and describes the output.
# Figures go to $FIGURES as "name":value, the reason for a failure to $REASON.
set -uo pipefail

say_figure() { echo "\"$1\":$2" >>"$FIGURES"; }
say_text() { say_figure "$1" "$(json_text "$2")"; }
fail() {
  echo "$*" | tee -a "$REASON"
  exit 1
}

# ---- starting programs

# shellcheck source=/dev/null
source "$BUNDLE/env.sh"
mkdir "$WORK/$1" && cd "$WORK/$1" || fail "no folder to run in"

export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
export OMPI_MCA_hwloc_base_binding_policy=none OMPI_MCA_btl_vader_single_copy_mechanism=none
export OMPI_MCA_oob_tcp_if_include=lo OMPI_MCA_btl_tcp_if_include=lo OMPI_MCA_btl=self,vader,tcp OMPI_MCA_pml=ob1
# NCCL lets several ranks share a GPU if they take each other for other hosts; then sockets are all they have.
cat >rank.sh <<'END'
#!/bin/bash
export NCCL_HOSTID=host$OMPI_COMM_WORLD_RANK NCCL_NET=Socket NCCL_SOCKET_IFNAME=lo NCCL_P2P_DISABLE=1 NCCL_SHM_DISABLE=1
export NCCL_NVLS_ENABLE=0 NCCL_RAS_ENABLE=0 NCCL_NET_PLUGIN=none NCCL_DEBUG=${NCCL_DEBUG:-WARN}
exec "$@"
END
# Starts what a remote shell would start on another host. Without one mpirun does not even start ranks here.
cat >agent.sh <<'END'
#!/bin/bash
export TMPDIR=$TMPDIR/$1
mkdir -p "$TMPDIR"
shift
exec /bin/sh -c "$*"
END
chmod +x rank.sh agent.sh
export OMPI_MCA_plm_rsh_agent=$PWD/agent.sh

with_libs() { LD_LIBRARY_PATH=$LIBS${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} "$@"; }
# ranks N COMMAND...: on this host, sharing its GPU
ranks() { with_libs mpirun -n "$1" ./rank.sh "${@:2}"; }
# hosts N COMMAND...: each rank on a host of its own, as far as MPI, NCCL and slabload can tell
hosts() {
  mkdir -p "$WORK/tmp"
  TMPDIR=$WORK/tmp OMPI_MCA_btl=self,tcp OMPI_MCA_plm=rsh with_libs mpirun -host "$(seq -s, -f 'gpu-host-%g:1' "$1")" -n "$1" ./rank.sh "${@:2}"
}
# Of the doubles, each process has its own GPU memory, and one GPU is what the machine has.
if [ "$DOUBLES" = 1 ]; then export SLABLOAD_FAKE_GPUS=1; fi

# report_figure FILE KEY, phase_figure FILE PHASE: a number of a load's report, and how long a phase took
report_figure() { sed -n "s/^  \"$2\": \([-0-9.e+]*\),\{0,1\}$/\1/p" "$1" | grep . || echo null; }
phase_figure() { grep -A 3 "\"name\": \"$2\"" "$1" | sed -n 's/.*"max_s": \([-0-9.e+]*\).*/\1/p'; }
# The GB/s of BYTES in SECONDS
rate() { awk -v bytes="$1" -v seconds="$2" 'BEGIN {printf "%.4g", (seconds > 0 ? bytes / seconds / 1e9 : 0)}'; }
list_of_lines() { echo "[$(paste -sd,)]"; }

# ---- programs of tests

# tests N FILTER LEAST: on N ranks; LEAST tests or more are to pass, and none to fail
tests() {
  local out=tests-$1.out
  SLABLOAD_TEST_TIMEOUT=$((STEP_LIMIT - 5)) ranks "$1" gpu_tests --gtest_filter="$2" >"$out" 2>&1
  local status=$? summary
  cat "$out"
  summary=$(sed -n 's/^\([0-9]* passed, [0-9]* failed\) on .*/\1/p' "$out" | tail -n 1)
  local passed=${summary%% *}
  say_text tests "${summary:-ended with status $status}"
  [ $status = 0 ] || fail "gpu_tests on $1 ranks: exit status $status; $(grep -m 3 -E '^FAIL|VIOLATION|did not end|rror' "$out" | paste -sd';')"
  [ "${passed:-0}" -ge "$3" ] || fail "only ${passed:-0} tests passed: are they all in the bundle?"
}

step_contract_1_rank() {
  tests 1 '*DeviceContract*:CudaDevice*:CudaProbe*:*FabricContract*:NcclFabric*' 20
}
step_contract_2_ranks() { tests 2 '*FabricContract*:NcclFabric*' 15; }
step_contract_3_ranks() { tests 3 '*FabricContract*:NcclFabric*' 15; }
step_loader_1_rank() { tests 1 '*GpuLoader*' 5; }
step_loader_2_ranks() { tests 2 '*GpuLoader*-*Matrix*' 5; }
step_matrix_2_ranks() { tests 2 '*GpuLoader*Matrix*' 1; }

# ---- what there is

step_versions() {
  say_text glibc "$(getconf GNU_LIBC_VERSION 2>/dev/null)"
  say_text kernel "$(uname -r)"
  say_figure cores "$(nproc)"
  say_figure memory_mib "$(awk '/^MemAvailable/ {print int($2 / 1024)}' /proc/meminfo)"
  say_text data "$DATA, $(df -Pm "$DATA" | awk 'NR == 2 {print $4}') MiB free"
  say_text libraries "$(readlink -f "$WORK"/cuda/*)"
  if command -v nvidia-smi >/dev/null; then
    local fields=name,memory.total,driver_version,pcie.link.gen.max,pcie.link.width.max
    say_text nvidia_smi "$(nvidia-smi --query-gpu=$fields --format=csv,noheader 2>&1 | sed -n 1p)"
  fi
  say_text slabload "$(with_libs slabload version 2>&1)"
  local found
  found=$(with_libs versions) || fail "no GPU can be used: $found"
  say_figure cuda "$found"
}

# ---- loads

# table MIB: tensors of MIB together, of several types and shapes, some too small to be read alone
table() {
  local i rows=$(($1 * 1048576 / 4096 / 2 / 16))
  for i in 0 1 2 3 4 5 6 7 8 9 10 11; do printf 'block.%d.weight\tbf16\t%d,4096\n' $i $rows; done
  printf 'head\tf32\t%d,2048\nwide\tf16\t2048,%d\n' $((rows * 2)) $((rows * 2))
  for i in 0 1 2 3; do printf 'norm.%d\tf32\t1031\nbias.%d\tbf16\t77\n' $i $i; done
  printf 'ids\ti64\t999\n'
}
step_checkpoint() {
  local size mib cores
  cores=$(nproc)
  for size in small big; do
    mib=$SMALL_MIB
    [ $size = small ] || mib=$BIG_MIB
    table "$mib" >$size.tsv
    ranks $((cores < 8 ? cores : 8)) slabload generate --table $size.tsv --out "$DATA/$size.h5" || fail "generate failed"
    say_figure ${size}_bytes "$(stat -c %s "$DATA/$size.h5")"
  done
}

# load_well WHAT START N ARGUMENTS...: a load of the small checkpoint that must end well; START is ranks or hosts
load_well() {
  local what=$1
  "$2" "$3" slabload load "$DATA/small.h5" "${@:4}" >load.out 2>&1
  local status=$?
  cat load.out
  [ $status = 0 ] || fail "$what: exit status $status: $(grep -m 1 'slabload: error' load.out || grep -v '^#' load.out | sed -n 1,3p)"
}
# same_shards NAME N START ARGUMENTS...: a load onto GPUs and one into host memory; all bytes are to be the same
same_shards() {
  local name=$1 n=$2 start=$3 rank file
  shift 3
  rm -rf "$DATA/gpu" "$DATA/host"
  load_well "$name" "$start" "$n" --device cuda --stage-out "$DATA/gpu" --report load.json "$@"
  load_well "$name on the host" ranks "$n" --device host --stage-out "$DATA/host" "$@"
  for ((rank = 0; rank < n; ++rank)); do
    printf -v file 'rank-%05d.safetensors' $rank
    cmp "$DATA/gpu/$file" "$DATA/host/$file" || fail "$name: the shards of rank $rank are not what the host has"
  done
  rm -rf "$DATA/gpu" "$DATA/host"
  printf '{"load":"%s","total_s":%s,"fill_s":%s,"fill_bytes":%s,"nccl_bytes":%s}\n' "$name" "$(report_figure load.json total_s)" \
    "$(phase_figure load.json fill)" "$(report_figure load.json fill_bytes)" "$(report_figure load.json fabric_bytes_max)" >>same.list
}
say_same() { say_figure same_as_host "$(list_of_lines <same.list)"; }
step_load_1_rank() {
  same_shards plain 1 ranks --verify shards
  same_shards to_fp32 1 ranks --verify shards --cast fp32
  same_shards to_bf16 1 ranks --cast bf16 --io direct
  same_shards small_slots 1 ranks --slots 2 --slot-bytes 64KiB --verify shards
  say_same
}
step_load_2_hosts() {
  same_shards fsdp2 2 hosts --layout fsdp2 --verify shards
  same_shards replicate 2 hosts --layout replicate --verify shards
  same_shards hsdp 2 hosts --layout hsdp --mesh dp_replicate=2,dp_shard=1 --verify shards
  same_shards rank0_broadcast 2 hosts --strategy rank0-broadcast --layout fsdp2
  same_shards collective_cast 2 hosts --layout replicate --io collective --cast fp32
  say_same
}
step_load_3_hosts() {
  same_shards fsdp2 3 hosts --layout fsdp2 --verify shards
  same_shards replicate 3 hosts --layout replicate --verify shards --min-read 16MiB
  same_shards rank0_full 3 hosts --strategy rank0-full --layout fsdp2
  say_same
}

# load_figures FILE: of a load's report, its rates and what it hid
load_figures() {
  local key bytes
  printf '"total_s":%s,"startup_s":%s' "$(report_figure "$1" total_s)" "$(report_figure "$1" startup_s)"
  bytes=$(report_figure "$1" read_bytes)
  for key in read copy verify; do
    printf ',"%s_s":%s,"%s_gb_per_s":%s' $key "$(phase_figure "$1" $key)" $key "$(rate "$bytes" "$(phase_figure "$1" $key)")"
  done
  printf ',"wait_s":%s,"hidden_share":%s' "$(report_figure "$1" wait_s_max)" "$(report_figure "$1" hidden_share)"
}
step_load_rates() {
  # `words`: what the load is given besides
  local words status
  for words in --slots={1,2,4,8}\ --slot-bytes=16MiB --slot-bytes={1,4,8,64}MiB\ --slots=4 --io=direct --verify=none --verify=shards --cast=fp32; do
    # shellcheck disable=SC2086
    ranks 1 slabload load "$DATA/big.h5" --device cuda --staging 512MiB --report rates.json $words >rates.out 2>&1
    status=$?
    cat rates.out
    [ $status = 0 ] || fail "$words: exit status $status: $(grep -m 1 'slabload: error' rates.out)"
    echo "{\"load\":\"$words\",$(load_figures rates.json)}" >>rates.list
  done
  say_figure loads "$(list_of_lines <rates.list)"
}

# ---- a rank is killed

step_rank_killed() {
  # Outlives the rank, so that it is not mpirun that ends the job.
  cat >victim.sh <<'END'
#!/bin/bash
slabload "$@" &
echo $! >pid.$OMPI_COMM_WORLD_RANK
wait $!
status=$?
echo $status >status.$OMPI_COMM_WORLD_RANK
[ $status -lt 128 ] || sleep 60
exit $status
END
  chmod +x victim.sh
  SLABLOAD_FAKE_LEAKS=allow hosts 2 ./victim.sh load "$DATA/big.h5" --device cuda --layout replicate --slots 2 --slot-bytes 64KiB \
    --staging 2MiB --timeout 5s >killed.out 2>&1 &
  local job=$! threshold=$((BIG_MIB * 1048576 / 16)) victim='' read_bytes=0
  while kill -0 $job 2>/dev/null && [ "$read_bytes" -lt $threshold ]; do
    victim=$(cat pid.1 2>/dev/null) || victim=
    [ -z "$victim" ] || read_bytes=$(sed -n 's/^rchar: //p' "/proc/$victim/io" 2>/dev/null)
    read_bytes=${read_bytes:-0}
    sleep 0.01
  done
  [ -n "$victim" ] && kill -9 "$victim" || { cat killed.out; fail "rank 1 had ended before it was to be killed"; }
  local killed_at=$SECONDS
  wait $job
  cat killed.out
  say_figure read_before_death "$read_bytes"
  say_figure ended_after_s $((SECONDS - killed_at))
  say_text said "$(grep -m 1 '^slabload: error' killed.out)"
  [ "$(cat status.1)" = 137 ] || fail "rank 1 was not killed but ended with status $(cat status.1)"
  [ $((SECONDS - killed_at)) -le 30 ] || fail "the other rank ended only after $((SECONDS - killed_at)) s"
  grep -q '^slabload: error' killed.out || fail "no error was said"
  [ "$(cat status.0 2>/dev/null)" = 4 ] || fail "rank 0 ended with status $(cat status.0 2>/dev/null || echo none), not 4"
  ! kill -0 "$(cat pid.0)" 2>/dev/null || fail "rank 0 is still there"
}

# ---- memory that just suffices

# ballast_begin ARGUMENTS...: starts ballast and puts the bytes it says are free into $answer
ballast_begin() {
  rm -f ballast.in ballast.out
  mkfifo ballast.in ballast.out || fail "no pipes"
  with_libs ballast "$@" <ballast.in >ballast.out &
  exec 8>ballast.in 9<ballast.out
  answer=
  read -r -t 30 answer <&9 || fail "ballast $* does not answer"
  answer=${answer//[!0-9]/}
}
# Ends it; what it says then is in $answer.
ballast_end() {
  exec 8>&-
  answer=
  read -r -t 10 answer <&9
  exec 9<&-
  answer=${answer//[!0-9]/}
  wait
}
edge_load() { ranks 1 slabload load "$DATA/big.h5" --device cuda --verify shards --staging 64MiB >edge.out 2>edge.err; }
# with_free BYTES: the load where that much memory is free; ends as the load does
with_free() {
  local status
  if [ "$DOUBLES" = 1 ]; then
    SLABLOAD_FAKE_MEMORY=$1 edge_load
    return
  fi
  ballast_begin keep "$1"
  [ "$answer" -ge "$1" ] && [ "$answer" -le $(($1 + (16 << 20))) ] || fail "ballast leaves $answer bytes, not $1"
  edge_load
  status=$?
  ballast_end
  return $status
}
step_memory_edge() {
  local need before margin=$((64 << 20)) lack=$((256 << 20)) status
  if [ "$DOUBLES" = 1 ]; then
    # Each process has memory of its own there: ballast is tried, but what a load needs comes from the statistics.
    ballast_begin watch
    ballast_end
    ballast_begin keep $((1 << 30))
    [ "$answer" -ge $((1 << 30)) ] && [ "$answer" -lt $(((1 << 30) + (1 << 20))) ] || fail "ballast leaves $answer bytes"
    ballast_end
    SLABLOAD_FAKE_STATS=$PWD edge_load || fail "the load fails with all the memory there is"
    need=$(sed -n 's/.*"peak_device_bytes": *\([0-9]*\).*/\1/p' rank-0.json)
    margin=0 lack=1
  else
    ballast_begin watch
    before=$answer
    edge_load || fail "the load fails with all the memory there is: $(tail -n 1 edge.err)"
    ballast_end
    need=$((before - answer))
  fi
  say_figure needed_bytes "$need"
  with_free $((need + margin)) || fail "the load fails with $margin bytes more than it needs: $(grep -m 1 'slabload: error' edge.err)"
  with_free $((need - lack))
  status=$?
  say_text refusal "$(grep -m 1 'slabload: error' edge.err)"
  [ $status = 2 ] || fail "with $lack bytes less than it needs the load ends with status $status, not 2"
  [ "$(grep -c 'slabload: error' edge.err)" = 1 ] || fail "the refusal is not one line"
  grep -q 'slabload: error: .*GPU 0.*lack' edge.err || fail "the refusal does not say what is lacking"
}

# ---- figures of the GPU

# measured NAME COMMAND...: the lines of JSON that it prints are the figure NAME
measured() {
  with_libs "${@:2}" >"$1.out" 2>"$1.err"
  local status=$?
  cat "$1.out" "$1.err"
  say_figure "$1" "$(list_of_lines <"$1.out")"
  [ $status = 0 ] || fail "${*:2}: exit status $status: $(tail -n 3 "$1.err")"
}
step_casts() {
  local step=1
  [ "$DOUBLES" = 0 ] || step=65537
  measured casts kernels casts $step
}
step_kernel_rates() {
  local bytes=$((2 << 30))
  [ "$DOUBLES" = 0 ] || bytes=$((1 << 20))
  measured kernels kernels rates $bytes
}
step_bandwidth() {
  local bytes=$((2 << 30)) kind
  [ "$DOUBLES" = 0 ] || bytes=$((64 << 20))
  for kind in pinned pageable; do
    # The doubles refuse copies from memory that is not pinned, as the load must not make any.
    [ "$DOUBLES$kind" = 1pageable ] && continue
    measured $kind bandwidth $bytes $kind
  done
}

# ---- the memory checker of the toolkit

step_sanitizer() {
  local checker tool
  checker=$(command -v compute-sanitizer || ls "${CUDA_HOME:-/usr/local/cuda}"/{bin,compute-sanitizer}/compute-sanitizer 2>/dev/null | sed -n 1p)
  if [ -z "$checker" ] || [ "$DOUBLES" = 1 ]; then
    say_text without "there is no compute-sanitizer, or no GPU that it could look at"
    return
  fi
  for tool in memcheck racecheck synccheck; do
    local filter='*DeviceContract*'
    [ $tool = memcheck ] || filter='*DeviceContract*Checksums*:*DeviceContract*CastsFew*:*DeviceContract*Boxes*'
    SLABLOAD_TEST_TIMEOUT=80 ranks 1 timeout $((STEP_LIMIT / 3 - 2)) "$checker" --tool $tool --report-api-errors no --error-exitcode 9 \
      "$BUNDLE/bin/gpu_tests" --gtest_filter="$filter" >$tool.out 2>&1
    local status=$?
    cat $tool.out
    say_text $tool "exit status $status; $(grep -m 1 'SUMMARY' $tool.out); $(grep -m 1 ' passed, ' $tool.out)"
    [ $status = 0 ] || echo "$tool: exit status $status: $(grep -m 2 '=========' $tool.out | tail -n 1)" >>"$REASON"
  done
  [ ! -s "$REASON" ]
}

"step_$1"
