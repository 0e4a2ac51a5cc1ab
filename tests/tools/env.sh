# Sourced by every test script.
source "$(dirname "${BASH_SOURCE[0]}")/../../jobs/one_machine.sh"

# A Python that has h5py: the first one found may be another than the distribution's, which has the package.
if [ -z "${PYTHON:-}" ]; then
  for PYTHON in python3 /usr/bin/python3; do
    "$PYTHON" -c 'import h5py, numpy' 2>/dev/null && break
  done
fi
export PYTHON
