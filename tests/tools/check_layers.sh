#!/usr/bin/env bash
# Looks at every #include under src/ and include/: layers include only what lies below them, exec and report name no
# concrete backend, and the headers of MPI, HDF5 and CUDA stay in the backends that wrap them. Prints each breach.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

mapfile -t files < <(find src include -name '*.h' -o -name '*.hpp' -o -name '*.cc' -o -name '*.cu' -o -name '*.c' | sort)
[ ${#files[@]} -gt 0 ] || { echo "check_layers: no sources found" >&2; exit 1; }

awk '
BEGIN {
  # What a layer may include besides itself. "backend" is the interfaces in src/backend/*.h.
  pure["base"] = ""
  pure["tensor"] = "base"
  pure["index"] = "base tensor"
  pure["layout"] = "base tensor index"
  pure["plan"] = "base tensor index layout"
  below = "base tensor index layout plan"
  for (layer in pure) may[layer] = pure[layer]
  may["backend"] = below
  n = split("hdf5 safetensors mpi host cuda nccl", backend, " ")
  for (i = 1; i <= n; ++i) may["backend/" backend[i]] = below " backend"
  # The exceptions between siblings. File handles and descriptors (backend/host/file.h) serve every file format.
  may["backend/nccl"] = may["backend/nccl"] " backend/cuda"
  may["backend/hdf5"] = may["backend/hdf5"] " backend/mpi"
  # A chunk is decoded as bytes, without the library that stored it.
  shared["backend/host/file.h"] = "backend/hdf5 backend/safetensors"
  shared["backend/host/temporary_file.h"] = "backend/safetensors"
  shared["backend/host/chunk_filters.h"] = "backend/hdf5"
  may["exec"] = below " backend"
  may["report"] = below " exec"
  may["app"] = below " backend backend/hdf5 backend/safetensors backend/mpi backend/host backend/cuda backend/nccl exec report"
  may["capi"] = may["app"] " app include"
  may["cli"] = may["app"] " app"
  may["include"] = ""
  # Where the headers of other systems may appear.
  outside["mpi"] = "backend/mpi backend/hdf5 app"
  outside["hdf5"] = "backend/hdf5"
  outside["cuda"] = "backend/cuda backend/nccl"
}
function has(list, word) { return index(" " list " ", " " word " ") > 0 }
function layer_of(path,   parts, count) {
  sub(/^src\//, "", path)
  count = split(path, parts, "/")
  if (parts[1] == "backend" && count > 2) return "backend/" parts[2]
  return parts[1]
}
function breach(text) { printf "%s:%d: %s\n", FILENAME, FNR, text; ++bad }
FNR == 1 { layer = layer_of(FILENAME); if (!(layer in may)) { breach("folder " layer " is no layer known here"); nextfile } }
/^[ \t]*#[ \t]*include/ {
  if (!match($0, /[<"][^>"]+[>"]/)) next
  quoted = substr($0, RSTART, 1) == "\""
  target = substr($0, RSTART + 1, RLENGTH - 2)
  system_name = ""
  if (target ~ /^(mpi|mpio|pmix|mpi-ext)\.h/) system_name = "mpi"
  else if (target ~ /^(hdf5|hdf5_hl|H5[A-Za-z]+)\.h/) system_name = "hdf5"
  else if (target ~ /^(cuda|cublas|nccl|cufile)/) system_name = "cuda"
  if (system_name != "") {
    if (!has(outside[system_name], layer)) breach(layer " includes <" target ">, which only " outside[system_name] " may")
    next
  }
  if (target ~ /^slabload\//) {
    if (layer != "include" && layer != "capi" && layer != "cli") breach(layer " includes the public header " target)
    next
  }
  if (!quoted) next
  if (target ~ /\.\./) { breach("a path with .. hides the layer: " target); next }
  to = layer_of(target)
  if (to == layer || has(may[layer], to)) next
  if (target in shared && has(shared[target], layer)) next
  breach(layer " may not include " target)
}
END { if (bad) { printf "%d includes against the layers (see src/README.md)\n", bad; exit 1 } }
' "${files[@]}"
echo "${#files[@]} files: includes go downward only"
