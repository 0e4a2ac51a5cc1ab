#!/usr/bin/env bash
# What `make install` leaves is enough for a C program: header, library and the line for pkg-config.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

prefix=$WORK/prefix
"${MAKE:-make}" -C "$top" --no-print-directory install SAN="${SAN:-}" PREFIX="$prefix" >"$OUT" 2>"$ERR" || { show; fail "make install"; }
for file in bin/slabload include/slabload/slabload.h include/slabload/slabload.hpp lib/libslabload.a lib/pkgconfig/slabload.pc; do
  [ -s "$prefix/$file" ] || fail "$file is not installed"
done

cat >user.c <<'END'
#include <mpi.h>
#include <slabload/slabload.h>
#include <stdio.h>

static int failed(const char* what, slabload_error* error) {
  fprintf(stderr, "%s: %d %s\n", what, (int)slabload_error_status(error), slabload_error_message(error));
  return 1;
}

int main(int argc, char** argv) {
  slabload_error* error = NULL;
  slabload_shards* shards = NULL;
  slabload_shard shard;
  unsigned long sum = 0;
  int comm, rank;
  if (argc != 2 || slabload_load(0, argv[1], NULL, 0, &shards, &error) != SLABLOAD_USAGE) return failed("early", error);
  printf("early: %s\n", slabload_error_message(error));
  if (slabload_prepare(&error) != SLABLOAD_OK) return failed("prepare", error);
  MPI_Init(&argc, &argv);
  comm = (int)MPI_Comm_c2f(MPI_COMM_WORLD);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (slabload_load(comm, argv[1], NULL, 0, &shards, &error) != SLABLOAD_OK) return failed("load", error);
  MPI_Finalize();
  /* The shards outlive MPI. */
  if (slabload_shards_get(shards, 1, &shard, &error) != SLABLOAD_OK) return failed("get", error);
  for (uint64_t i = 0; i < shard.bytes; ++i) sum += ((unsigned char*)shard.data)[i];
  printf("rank %d: %s %s %llu@%llu sum %lu\n", rank, shard.name, shard.dtype, (unsigned long long)shard.shape[0],
         (unsigned long long)shard.offset[0], sum);
  slabload_shards_free(shards);
  if (slabload_load(comm, argv[1], NULL, 0, &shards, &error) != SLABLOAD_USAGE) return failed("late", error);
  printf("late: %s\n", slabload_error_message(error));
  slabload_error_free(error);
  return 0;
}
END
export PKG_CONFIG_PATH=$prefix/lib/pkgconfig
mpicc=${MPICC:-mpicc}
"$mpicc" -std=c11 -Wall -Wextra -Werror $(pkg-config --cflags slabload) -o user user.c $(pkg-config --libs slabload) 2>"$ERR" ||
  { show; fail "the C program does not compile and link"; }

# Two tensors of known bytes, in the order of the file: "a" 0..9, "b" 10..15 as six rows.
"$PYTHON" - <<'END'
import json, struct
header = json.dumps({"a": {"dtype": "U8", "shape": [10], "data_offsets": [0, 10]},
                     "b": {"dtype": "U8", "shape": [6], "data_offsets": [10, 16]}}).encode()
open("m.safetensors", "wb").write(struct.pack("<Q", len(header)) + header + bytes(range(16)))
END

# What MPI keeps until the end is none of this test's business.
export ASAN_OPTIONS="${ASAN_OPTIONS:-}:detect_leaks=0"
run_user() {
  STATUS=0
  timeout -k 5 "$LIMIT" "$@" ./user m.safetensors >"$OUT" 2>"$ERR" || STATUS=$?
  expect_status 0
  expect_out '^early: MPI does not run'
  expect_out '^late: MPI does not run'
}
run_user
expect_out '^rank 0: b u8 6@0 sum 75$'
# 4, 2 and 0 rows would be an even split of another kind: chunks are of ceil(6/4) = 2.
run_user ${MPIRUN:-mpirun} -n 4
expect_out '^rank 0: b u8 2@0 sum 21$'
expect_out '^rank 1: b u8 2@2 sum 25$'
expect_out '^rank 2: b u8 2@4 sum 29$'
expect_out '^rank 3: b u8 0@6 sum 0$'
