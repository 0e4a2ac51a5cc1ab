"""`save` is killed, stopped, or out of space: the target is the whole old checkpoint or the whole new one, and the next save
works. MOMENTS=N: how many random moments (default 16); SEED=N."""
import errno
import os
import random
import re
import signal
import subprocess
import time
from pathlib import Path

from lib import TOP, Run, check, environment, program, unmount, work_folder

work = work_folder()
moments = int(os.environ.get("MOMENTS", "16"))
random.seed(int(os.environ.get("SEED", "5")))
(work / "table.tsv").write_text("".join(f"w{i}\tbf16\t{400 + i},{300 + i}\n" for i in range(40)))
for name, seed in (("old", 1), ("new", 2)):
    Run(2, ["generate", "--table", "table.tsv", "--out", f"{name}.h5", "--seed", seed])
old_bytes = (work / "old.h5").read_bytes()


def is_old():
    return (work / "target.h5").read_bytes() == old_bytes


def is_new():
    return Run(1, ["verify", "target.h5", "--against", "new.h5"], status=None).status == 0


def leftovers():
    return sorted(p.name for p in work.iterdir() if ".slabload-tmp-" in p.name)


def start(ranks, more=()):
    """A save of the new checkpoint over the old one, and the processes of its ranks by and by."""
    (work / "target.h5").write_bytes(old_bytes)
    command = [*os.environ.get("MPIRUN", "mpirun").split(), "-n", str(ranks), program(), "save", "--from", "new.h5", "--out",
               "target.h5", "--force", *more]
    return subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def ranks_of(launcher):
    out = subprocess.run(["pgrep", "-P", str(launcher.pid)], capture_output=True, text=True).stdout
    return [int(pid) for pid in out.split()]


def timed():
    began = time.monotonic()
    run = start(2)
    check(run.wait(timeout=120) == 0, run.stderr.read())
    return time.monotonic() - began


# ---- kill -9 of one rank or of all ------------------------------------------------------------------------------------------
long = min(timed() for _ in range(2))
seen = {"old": 0, "new": 0, "temporary": 0}
for i in range(moments):
    run = start(2)
    if i % 4 < 3:  # somewhere in the writing, from when there is a file
        end = time.monotonic() + 30
        while not leftovers() and run.poll() is None and time.monotonic() < end:
            time.sleep(0.001)
        time.sleep(random.random() * 0.08 * long)
    else:
        time.sleep(random.random() * long)
    ranks = ranks_of(run)
    for pid in ranks if i % 2 else ranks[-1:]:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    try:
        run.wait(timeout=60)
    except subprocess.TimeoutExpired:
        # The launcher itself may wait for ever for a rank that died before it was connected; ranks may not.
        alive = [pid for pid in ranks_of(run) if "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()]
        run.kill()
        check(not alive, f"ranks {alive} are there a minute after {ranks} were killed")
    seen["temporary"] += len(leftovers()) != 0
    if is_old():
        seen["old"] += 1
    else:
        check(is_new(), f"moment {i}: the target is neither the old nor the new checkpoint")
        seen["new"] += 1
    stale = leftovers()
    # A rank that was not killed ends by itself; until then what it writes is not stale.
    for name in stale:
        pid = int(name.split(".slabload-tmp-")[1].split("-")[0])
        for _ in range(200):
            if not os.path.exists(f"/proc/{pid}"):
                break
            time.sleep(0.05)
        check(not os.path.exists(f"/proc/{pid}"), f"rank 0, process {pid}, outlives its job")
    if i % 8 == 0 or i + 1 == moments:  # the next save works, and names what it found
        out = Run(2, ["save", "--from", "new.h5", "--out", "target.h5", "--force"]).out
        check(is_new(), "the next save")
        for name in stale:
            check(name in out, f"{name} is not named: {out}")
    for name in stale:
        os.remove(name)
print(f"save_faults: {moments} kills in {long:.2f} s of a save: {seen['old']} left the old checkpoint, {seen['new']} the new one, "
      f"{seen['temporary']} a temporary file; the next save worked")

# ---- SIGTERM and SIGINT ------------------------------------------------------------------------------------------------------
for number, status in ((signal.SIGTERM, 143), (signal.SIGINT, 130)):
    caught = 0
    for wait in (0.5, 0.6, 0.7, 0.4, 0.8, 0.3, 0.65, 0.55):
        run = start(2)
        time.sleep(wait * long)
        for pid in ranks_of(run):
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                pass
        _, err = run.communicate(timeout=60)
        if run.returncode == status and f"stopped by {number.name}" in err:
            check(not leftovers(), f"{number.name}: left {leftovers()}")
            check(is_old(), f"{number.name}: the target was touched")
            caught += 1
        else:
            # Before the program was there, or after its last step.
            check(is_old() or is_new(), f"{number.name}: {run.returncode} {err}")
            for name in leftovers():
                os.remove(name)
        if caught == 1:
            break
    check(caught > 0, f"{number.name} was never noticed: {err}")
print("save_faults: SIGTERM and SIGINT end with 143 and 130, and leave nothing")

# ---- below the program: errors, short writes, flipped bits, a write that never returns, a folder that goes --------------------
PRELOAD = str((TOP / (os.environ.get("BUILD") or "build/release")).resolve() / "write_preload.so")
check(os.path.exists(PRELOAD), f"{PRELOAD} is missing: make tests")
sure = "verify_asan_link_order=0"


def start_with(ranks, fault, more=(), out="target.h5", **where):
    given = {"SLABLOAD_WRITE_FAULT": str(fault), "SLABLOAD_WRITE_PATH": ".slabload-tmp-", "SLABLOAD_WRITE_BYTES": "4096",
             **{f"SLABLOAD_WRITE_{key.upper()}": str(value) for key, value in where.items()}}
    command = [*os.environ.get("MPIRUN", "mpirun").split(), "-n", str(ranks), "env", f"LD_PRELOAD={PRELOAD}",
               f"ASAN_OPTIONS={os.environ.get('ASAN_OPTIONS', '')}:{sure}", *[f"{k}={v}" for k, v in given.items()],
               program(), "save", "--from", "new.h5", "--out", out, "--force", *more]
    return subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def save_with(*arguments, **named):
    run = start_with(*arguments, **named)
    out, err = run.communicate(timeout=100)
    return subprocess.CompletedProcess(run.args, run.returncode, out, err)


(work / "target.h5").write_bytes(old_bytes)
faults = 0
for code, words in ((errno.EIO, "Input/output error"), (errno.EDQUOT, "Disk quota exceeded"), (errno.ENOSPC, "No space left")):
    for where in ({"rank": 1, "after": 5}, {"rank": 0}, {"after": 3}):
        run = save_with(3, code, **where)
        named = re.search(r"target\.h5\.slabload-tmp\S*.*%s.*tensor w\d+, byte \d+" % words, run.stderr)
        check(run.returncode == 3 and named, f"{code} {where}: {run.returncode} {run.stderr}")
        check(where.get("rank") != 1 or "[rank 1 " in run.stderr, run.stderr)
        check(is_old() and not leftovers(), f"{code} {where}: {leftovers()}")
        faults += 1
    for where in ({"rank": 1}, {}):
        run = save_with(3, code, call="sync", **where)
        check(run.returncode == 3 and words in run.stderr, f"sync {code} {where}: {run.returncode} {run.stderr}")
        check(is_old() and not leftovers(), f"sync {code} {where}: {leftovers()}")
        faults += 1
run = save_with(3, "short", bytes=2)
check(run.returncode == 0 and is_new(), f"short writes: {run.returncode} {run.stderr}")
(work / "target.h5").write_bytes(old_bytes)
run = save_with(3, "flip", ["--verify", "shards"], rank=1, after=2)
check(run.returncode == 1 and re.search(r"tensor 'w\d+' was written, but reads back", run.stderr), f"flip: {run.returncode} {run.stderr}")
check(is_old() and not leftovers(), f"flip: {leftovers()}")
run = save_with(3, "flip", rank=1, after=2)  # not looked for: the checksums find it later
check(run.returncode == 0 and Run(1, ["verify", "target.h5"], status=None).status == 1, f"flip: {run.returncode}")
(work / "target.h5").write_bytes(old_bytes)
run = save_with(3, "hang", ["--timeout", "3s"], rank=1, after=2)
check(run.returncode == 4 and re.search(r"\[rank 1 .*no progress for .*write.*w\d+", run.stderr), f"hang: {run.returncode} {run.stderr}")
check(is_old(), "hang: the target was touched")
for name in leftovers():
    os.remove(name)
# A signal that a rank in a call which never returns can't heed: another thread of it does.
run = start_with(3, "hang", ["--timeout", "60s"], rank=1, after=2)
time.sleep(3)
for pid in ranks_of(run):
    os.kill(pid, signal.SIGTERM)
_, err = run.communicate(timeout=50)
check(run.returncode == 143 and re.search(r"\[rank 1 .*stopped by SIGTERM; no step has come to its end for 15 s, in phase .*write", err),
      f"SIGTERM in a hang: {run.returncode} {err}")
check(is_old(), "SIGTERM in a hang: the target was touched")
for name in leftovers():
    os.remove(name)
(work / "gone").mkdir()
run = save_with(3, "vanish", out="gone/target.h5", rank=0, after=2)
check(run.returncode == 3 and "gone/target.h5" in run.stderr, f"vanish: {run.returncode} {run.stderr}")
faults += 6
print(f"save_faults: {faults} faults below the program: said with file, tensor, byte and rank; the old checkpoint stays")

# ---- no space, no permission ---------------------------------------------------------------------------------------------------
small = work / "small"
small.mkdir()
if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=12m", "none", small], capture_output=True).returncode == 0:
    try:
        (small / "target.h5").write_bytes(old_bytes)  # leaves less than a second one needs
        for more in ([], ["--chunk", "64KiB"], ["--compress", "gzip", "--timeout", "20s"]):
            run = Run(3, ["save", "--from", "new.h5", "--out", "small/target.h5", "--force", *more], status=None)
            check(run.status == 3 and "No space left" in run.err, f"{more}: {run.status} {run.err}")
            check((small / "target.h5").read_bytes() == old_bytes, f"{more}: the old checkpoint was touched")
            check(os.listdir(small) == ["target.h5"], f"{more}: {os.listdir(small)}")
    finally:
        unmount(small)
    # No room for the metadata either: HDF5 then cannot close the file, and must not fall over it at the end.
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4k", "none", small], check=True)
    try:
        for ranks, more in ((1, []), (2, ["--compress", "gzip"])):
            run = Run(ranks, ["save", "--from", "new.h5", "--out", "small/target.h5", *more], status=None)
            check(run.status == 3 and "No space left" in run.err, f"{more}: {run.status} {run.err}")
            check(not os.listdir(small), f"{more}: {os.listdir(small)}")
    finally:
        unmount(small)
    small.rmdir()
    ro = work / "ro"
    ro.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "ro", "none", ro], check=True)
    try:
        run = Run(2, ["save", "--from", "new.h5", "--out", "ro/target.h5"], status=None)
        check(run.status == 3 and "Read-only file system" in run.err, run.err)
    finally:
        unmount(ro)
    print("save_faults: a full disk is said at once, and the old checkpoint stays")
else:
    print("save_faults: no tmpfs can be mounted here, so no full disk was tried")
