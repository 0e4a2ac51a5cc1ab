# Every bit of the metadata of small files is flipped, one at a time (see tests/programs/flips.cc), and some of those of files
# that are not ours, which have no checksums: there only crashes and hangs of the library are counted.
source "$(dirname "$0")/../cases/lib.sh"
mkdir files damaged
"$PYTHON" "$top/tests/tools/flip_files.py" files foreign
for file in plain odd; do
  "$BUILD/flips" files/$file.h5 damaged
done
for file in foreign_earliest foreign_latest; do
  "$BUILD/flips" files/$file.h5 damaged --foreign
done
