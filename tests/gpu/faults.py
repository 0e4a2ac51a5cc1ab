"""Every CUDA and NCCL call of a load fails, hangs, or ends its process, on one rank: all ranks end, soon, with status 4 and the
first cause, and leave no process behind.

    faults.py [--all]      all calls (many minutes), or for each function the first, some in between and the last

The doubles act the faults out (tests/fakes/cuda/fault.h). The last line is "N passed, M failed".
"""
import json
import os
import re
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "cases"))
import lib  # noqa: E402

BUILD = (lib.TOP / (os.environ.get("BUILD") or "build/release")).resolve()
GPUS = 4
TIMEOUT_S = 3           # the product's --timeout
WITHIN_S = 40           # what a run may take at most on a busy machine: starting, the timeout, ending
UNKNOWN, NCCL_ERROR = 999, 3  # cudaErrorUnknown, ncclInternalError

# After the last use of what they free, the load is right and reported; a failure there changes nothing.
ENDING = {"cudaEventDestroy", "cudaStreamDestroy", "cudaFree", "cudaFreeHost", "ncclCommDestroy"}
# Asked while looking for a GPU, or for a text: a name less in a message is no failure.
TEXTS = {"cudaDeviceGetPCIBusId", "cudaGetErrorName", "cudaGetErrorString", "ncclGetErrorString", "ncclGetLastError",
         "cudaGetLastError", "cudaPeekAtLastError"}

# Asked again and again until something has ended: how often differs from run to run.
POLLS = {"async", "cudaEventQuery", "ncclCommGetAsyncError"}

# What a load does in every round, and what only a load with groups of ranks does: without --all only these also hang and die in
# the second load, where one round is read while another is filled.
IN_ROUNDS = {"cudaMemcpyAsync", "cudaMemcpy2DAsync", "cudaStreamWaitEvent", "cudaEventRecord", "cudaEventQuery", "ncclAllGather",
             "ncclBroadcast", "ncclSend", "ncclRecv", "ncclGroupEnd", "ncclCommSplit", "ncclGetUniqueId"}

folder = lib.work_folder()
environment = lib.environment()
environment["LD_LIBRARY_PATH"] = f"{BUILD}/fakes"
environment["SLABLOAD_FAKE_GPUS"] = str(GPUS)
environment["SLABLOAD_FAKE_DEADLOCK_S"] = "60"  # the product is to notice by itself
environment["SLABLOAD_FAKE_LEAKS"] = "allow"  # a job that is ended by force frees nothing
# A wrapper outlives its rank, so that mpirun does not end the job for us when a rank is killed.
Path("rank.sh").write_text(f"""#!/bin/sh
"{lib.program()}" "$@" &
child=$!
wait $child
status=$?
echo $status >"$SLABLOAD_TEST_STATUS.$OMPI_COMM_WORLD_RANK"
[ $status -lt 128 ] || sleep 60
exit $status
""")
os.chmod("rank.sh", 0o755)
Path("t.tsv").write_text("big\tbf16\t96,512\nwide\tf32\t64,40\nsmall\tbf16\t77\n")
lib.Run(2, ["generate", "--table", "t.tsv", "--out", "t.h5"])
ALWAYS = ["load", "t.h5", "--device", "cuda", "--timeout", f"{TIMEOUT_S}s"]
# One round, converted and checked on the GPU; then many rounds with two communicators, so that one is read while another is
# filled, by each rank alone and by all together.
LOADS = {
    "one round": (3, 1, ["--layout", "replicate", "--verify", "shards", "--min-read", "16KiB", "--cast", "fp32", "--staging",
                         "2MiB", "--slot-bytes", "64KiB"]),
    "many rounds": (4, 0, ["--layout", "hsdp", "--mesh", "dp_replicate=2,dp_shard=2", "--staging", "128KiB", "--slots", "2",
                           "--slot-bytes", "8KiB"]),
    "read together": (4, 1, ["--layout", "hsdp", "--mesh", "dp_replicate=2,dp_shard=2", "--staging", "256KiB", "--io",
                             "collective"]),
}
counter = iter(range(1 << 30))
lock = threading.Lock()


def run(load, fault):
    ranks, _, arguments = LOADS[load]
    with lock:
        number = next(counter)
    here = folder / f"run{number}"
    here.mkdir()
    env = dict(environment, SLABLOAD_FAKE_STATS=str(here), SLABLOAD_TEST_STATUS=str(here / "status"),
               SLABLOAD_FAULT_TEST=f"{os.getpid()}.{number}")
    if fault:
        env["SLABLOAD_FAKE_FAULT"] = fault
    command = ["timeout", "-k", "5", str(WITHIN_S), *os.environ.get("MPIRUN", "mpirun").split(), "-n", str(ranks),
               str(folder / "rank.sh"), *ALWAYS, *arguments]
    start = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", env=env, cwd=folder)
    return done.returncode, done.stderr, time.monotonic() - start, here, f"{os.getpid()}.{number}"


def left_behind(mark):
    """Processes of the program that still carry the run's mark in their environment."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if f"SLABLOAD_FAULT_TEST={mark}".encode() in (process / "environ").read_bytes().split(b"\0"):
                name = (process / "comm").read_text().strip()
                if name == "slabload":
                    found.append(process.name)
        except OSError:
            continue
    return found


def errors_of(text):
    return [line for line in text.splitlines() if line.startswith("slabload: error:")]


def judge(load, function, nth, action):
    """None if the run ended as it should, else what is wrong."""
    code = NCCL_ERROR if function.startswith("nccl") or function == "async" else UNKNOWN
    victim = LOADS[load][1]
    status, text, seconds, here, mark = run(load, f"{victim}:{function}:{nth}:{action if action != 'fail' else code}")
    said = errors_of(text)
    wrong = None
    if "VIOLATION" in text:
        wrong = "the doubles found a broken rule"
    elif status == 124 or status == 137 and action != "kill":
        wrong = f"it did not end by itself within {WITHIN_S} s"
    elif action == "fail" and function in TEXTS | ENDING and status == 0:
        pass
    elif action == "kill" and status == 0 and function in ENDING:
        wrong = "a killed rank went unnoticed"
    elif status not in ((4,) if action != "kill" else (4, 137)):
        wrong = f"exit status {status}"
    elif not said:
        wrong = "no error was said"
    elif action == "fail" and (victim != 0 and f"rank {victim}" not in said[0]
                               or function not in said[0] and function != "async"):
        wrong = f"the first error does not name rank {victim} and {function}"
    elif action == "hang" and (f"rank {victim}" not in said[0] or f"inside {function}" not in said[0]):
        wrong = f"the first error does not say that rank {victim} is inside {function}"
    elif action == "kill" and not re.search(rf"rank {victim} .*ended without a word", said[0]):
        wrong = f"the first error does not say that rank {victim} died"
    left = []
    for _ in range(20):
        left = left_behind(mark)
        if not left:
            break
        time.sleep(0.25)
    if left and not wrong:
        wrong = f"processes are left: {' '.join(left)}"
    if not wrong:
        return None
    return f"FAIL {load}: {function} call {nth} {action}: {wrong} ({seconds:.1f} s)\n  " + "\n  ".join(text.splitlines()[-12:])


def chosen(function, count, everything):
    if function in POLLS:
        return list(range(1, 21)) if everything else [1, 2, 5, 10]
    if everything or count <= 3:
        return list(range(1, count + 1))
    return sorted({1, 2, count // 2, count})


def main():
    everything = "--all" in sys.argv[1:]
    jobs, called = [], 0
    for load, (_, victim, _) in LOADS.items():
        status, text, seconds, here, _ = run(load, "")
        if status != 0:
            print(text)
            lib.fail(f"{load}, without a fault: exit status {status}")
        calls = json.loads((here / f"rank-{victim}.json").read_text())["calls"]
        lib.check(len(calls) > 25, f"{load}: only {len(calls)} functions are called")
        called += sum(calls.values())
        for function, count in sorted(calls.items()):
            sample = chosen(function, count, everything)
            if load != "one round" and not everything:
                sample = [sample[len(sample) // 2]]
            jobs += [(load, function, nth, "fail") for nth in sample]
            if function == "async":
                continue  # no call of its own
            if not everything and (load == "read together" or load == "many rounds" and function not in IN_ROUNDS):
                continue
            middle = 10 if function in POLLS else (count + 1) // 2
            for nth in sample if everything else [middle]:
                jobs += [(load, function, nth, "hang"), (load, function, nth, "kill")]
    passed = 0
    with ThreadPoolExecutor(int(os.environ.get("JOBS", "4"))) as pool:
        for outcome in pool.map(lambda job: judge(*job), jobs):
            if outcome:
                print(outcome, flush=True)
            else:
                passed += 1
    print(f"{called} calls in {len(LOADS)} loads, {len(jobs)} faults")
    print(f"{passed} passed, {len(jobs) - passed} failed")
    sys.exit(passed != len(jobs))


main()
