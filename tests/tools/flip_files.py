"""Small files whose metadata bits are flipped: flip_files.py FOLDER [foreign]. Prints nothing."""
import os
import sys

import h5py
import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../cases"))
from lib import DTYPES, Run, synthetic, write_safetensors  # noqa: E402

folder = sys.argv[1]
os.chdir(folder)

rows = [("embed", "bf16", (9, 16)), ("layers/0/weight", "f32", (5, 7)), ("layers/0/bias", "f32", (5,)), ("scale", "f64", ()),
        ("flags", "bool", (3, 3)), ("empty", "i64", (0, 4))]
tensors = {name: (DTYPES[dtype][0], synthetic(3, name, dtype, shape)) for name, dtype, shape in rows}
write_safetensors("plain.safetensors", tensors)
Run(0, ["import", "plain.safetensors", "--out", "plain.h5"])
tensors |= {name: ("I16", np.arange(4, dtype="<u2")) for name in ("", "a//b", "layers")}
write_safetensors("odd.safetensors", tensors, {"format": "pt", "note": "x" * 50})
Run(0, ["import", "odd.safetensors", "--out", "odd.h5"])

if sys.argv[2:] == ["foreign"]:
    # Both layouts of HDF5, chunks, filters, links and attributes.
    for libver in ("earliest", "latest"):
        with h5py.File(f"foreign_{libver}.h5", "w", libver=libver) as file:
            file["a/b"] = np.arange(30, dtype="<f4").reshape(5, 6)
            file.create_dataset("chunked", data=np.arange(120, dtype="<i4").reshape(10, 12), chunks=(4, 5), compression="gzip",
                                shuffle=True, fletcher32=True)
            file.create_dataset("growing", data=np.arange(20, dtype="<i2"), maxshape=(None,), chunks=(8,))
            file.create_dataset("filled", (6, 6), "<f8", fillvalue=2.5)
            file["again"] = file["chunked"]
            file["soft"] = h5py.SoftLink("/a/b")
            file["outside"] = h5py.ExternalLink("other.h5", "/x")
            file["text"] = "words"
            file.attrs["who"] = "someone"
            file["a"].attrs["list"] = np.arange(5)
