# Bits flipped in a file. In the metadata, anywhere: an error, or tensors as they were, never other ones (the whole run, over
# every bit, is tests/soak/flips.sh). In the data: the command line names the tensor (tests/mpi/flips_test.cc does it a
# thousand times).
source "$(dirname "$0")/lib.sh"
[ -x "$BUILD/flips" ] || fail "$BUILD/flips is missing: make tests"
mkdir files damaged
"$PYTHON" "$top/tests/tools/flip_files.py" files
for file in plain odd; do
  STATUS=0
  timeout 120 "$BUILD/flips" files/$file.h5 damaged --count "${FLIPS:-2000}" --seed 11 >"$OUT" 2>"$ERR" || STATUS=$?
  expect_status 0
  echo "$file.h5: $(grep flips "$OUT")"
done

flip() {  # FILE BYTE BIT
  "$PYTHON" -c 'import sys
at = int(sys.argv[2])
with open(sys.argv[1], "r+b") as file:
    file.seek(at)
    value = file.read(1)[0]
    file.seek(at)
    file.write(bytes([value ^ (1 << int(sys.argv[3]))]))' "$@"
}

# From outside, where the damage is an exit status and a line.
"$PYTHON" - >flips.txt <<'END'
import random
import h5py
choose = random.Random(5)
with h5py.File("files/plain.h5") as file:
    names = [name for name in ("embed", "layers/0/weight", "layers/0/bias", "scale", "flags")]
    for i in range(6):
        item = file[names[i % len(names)]]
        print(item.name[1:], item.id.get_offset() + choose.randrange(item.id.get_storage_size()), choose.randrange(8))
END
while read -r name byte bit; do
  cp files/plain.h5 flipped.h5
  flip flipped.h5 "$byte" "$bit"
  for verb in "verify flipped.h5" "load flipped.h5 --layout replicate"; do
    # shellcheck disable=SC2086
    run_mpi 2 $verb
    expect_status 1
    expect_err "slabload: error: .*flipped.h5.*$name"
  done
done <flips.txt
echo "$(wc -l <flips.txt) flips in data: verify and load name the tensor"

# One bit each of a file kept in tests/data: HDF5 1.10.8 crashes at them, h5dump as well. Here a process apart does.
crashes=0
while read -r byte bit; do
  cp "$top/tests/data/format_1_1.h5" flipped.h5
  chmod u+w flipped.h5
  flip flipped.h5 "$byte" "$bit"
  for ranks in 0 3; do
    if [ $ranks = 0 ]; then run inspect flipped.h5; else run_mpi $ranks load flipped.h5; fi
    case $STATUS in 1 | 3) ;; *) show; fail "bit $bit of byte $byte: exit status $STATUS" ;; esac
    expect_equal "$(grep -c 'slabload: error: .*flipped.h5' "$ERR")" 1 "lines of error for bit $bit of byte $byte"
    [ $ranks != 0 ] || expect_equal "$(wc -l <"$ERR")" 1 "lines on stderr for bit $bit of byte $byte"
    ! grep -q 'crashed (signal [0-9]*, .*): the file is damaged or hostile' "$ERR" || crashes=$((crashes + 1))
  done
done <<'END'
4263 5
4264 7
5287 7
5289 4
9457 0
END
echo "crashes of the library that became errors: $crashes of 10"
