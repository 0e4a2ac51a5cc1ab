"""Every CUDA and NCCL call of a load fails, hangs, or ends its process, on one rank: all ranks end, soon, with status 4 and the
first cause, and leave no process behind.

    faults.py [--all [--part 2/5]]      all calls (hours), or for each function the first, some in between and the last

Of calls of one function that follow each other directly, as where a hundred events are made, --all takes the first two, the
middle and the last; --every takes each. --part 2/5 runs the second fifth, so that a long run can be made in pieces, and JOBS
says how many loads at a time; --actions stick,stuck runs these alone, --again LOG those that failed in LOG, --skip 400 all but
the first 400. The doubles act the faults out (tests/fakes/cuda/fault.h). The last line is "N passed, M failed".
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
EVERY = "--every" in sys.argv[1:]
STARTED_IN = Path.cwd()
TIMEOUT_S = 3           # the product's --timeout
WITHIN_S = 40           # what a run may take at most on a busy machine: starting, the timeout, ending
UNKNOWN, LAUNCH_FAILURE, NCCL_ERROR = 999, 719, 3  # cudaErrorUnknown, cudaErrorLaunchFailure, ncclInternalError

# After the last use of what they free, the load is right and reported; a failure there changes nothing.
ENDING = {"cudaEventDestroy", "cudaStreamDestroy", "cudaFree", "cudaFreeHost", "ncclCommDestroy"}
# Asked while looking for a GPU, or for a text: a name less in a message is no failure.
TEXTS = {"cudaDeviceGetPCIBusId", "cudaGetErrorName", "cudaGetErrorString", "ncclGetErrorString", "ncclGetLastError",
         "cudaGetLastError", "cudaPeekAtLastError"}

# No calls of their own: an error that a communicator has, at any time or at a piece of work.
PSEUDO = {"async", "settle"}
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
ALWAYS = ["load", "t.h5", "--device", "cuda"]
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


def run(load, fault, patience=1):
    ranks, _, arguments = LOADS[load]
    with lock:
        number = next(counter)
    here = folder / f"run{number}"
    here.mkdir()
    env = dict(environment, SLABLOAD_FAKE_STATS=str(here), SLABLOAD_TEST_STATUS=str(here / "status"),
               SLABLOAD_FAULT_TEST=f"{os.getpid()}.{number}")
    if fault:
        env["SLABLOAD_FAKE_FAULT"] = fault
    command = ["timeout", "-k", "5", str(patience * WITHIN_S), *os.environ.get("MPIRUN", "mpirun").split(), "-n", str(ranks),
               str(folder / "rank.sh"), *ALWAYS, "--timeout", f"{patience * TIMEOUT_S}s", *arguments]
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


def calls_of(here, rank):
    return json.loads((here / f"rank-{rank}.json").read_text())["calls"]


def judge(load, function, nth, action, patience=1):
    """None if the run ended as it should, else what is wrong.

    The actions: "fail"; "stick", a failure that ends the GPU's context, so that every later call of CUDA fails as well, and NCCL
    says that it could not abort; "stuck", where it indeed does not abort; "hang"; "kill".
    """
    nccl = function.startswith("nccl") or function in PSEUDO
    code = NCCL_ERROR if nccl else LAUNCH_FAILURE if action in ("stick", "stuck") else UNKNOWN
    victim = LOADS[load][1]
    fault = f"{victim}:{function}:{nth}:{action if action in ('hang', 'kill') else code}"
    if action == "stuck":
        fault += f";{victim}:ncclCommAbort:*:{NCCL_ERROR}"
    status, text, seconds, here, mark = run(load, fault, patience)
    fails = action in ("fail", "stick", "stuck")
    # After an error that sticks, the first to say so may be the next call.
    named = function not in PSEUDO and not (function in ENDING and action != "fail")
    said = errors_of(text)
    wrong = None
    # On a machine that is busy with others' work a rank may stand still for long: then once more, with more patience.
    slow = status in (124, 137) or said and "no progress for" in said[0] and f"inside {function}" not in said[0]
    if patience == 1 and slow and not (status == 137 and action == "kill"):
        return judge(load, function, nth, action, 4)
    if "VIOLATION" in text:
        wrong = "the doubles found a broken rule"
    elif status == 124 or status == 137 and action != "kill":
        wrong = f"it did not end by itself within {patience * WITHIN_S} s"
    elif fails and function in TEXTS | ENDING and status == 0:
        pass
    elif action == "kill" and status == 0 and function in ENDING:
        wrong = "a killed rank went unnoticed"
    elif function in POLLS and status == 0 and calls_of(here, victim)[function] < nth:
        pass  # this time it was not asked so often
    elif status not in ((4,) if action != "kill" else (4, 137)):
        wrong = f"exit status {status}"
    elif not said:
        wrong = "no error was said"
    elif fails and (victim != 0 and f"rank {victim}" not in said[0] or named and function not in said[0]):
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


def chosen(function, count, everything, runs):
    if function in POLLS:
        return list(range(1, 21)) if everything else [1, 2, 5, 10]
    if everything:
        return sorted({nth for first, length in runs for nth in (range(first, first + length) if EVERY or length <= 4 else
                                                                 (first, first + 1, first + length // 2, first + length - 1))})
    if count <= 3:
        return list(range(1, count + 1))
    return sorted({1, 2, count // 2, count})


def runs_of(sequence):
    """{function: [(number of its first call, calls)]} for the calls of one function that follow each other directly."""
    runs, counts = {}, {}
    for function, length in sequence:
        first = counts.get(function, 0) + 1
        runs.setdefault(function, []).append((first, length))
        counts[function] = first + length - 1
    return runs


def option(name):
    return sys.argv[sys.argv.index(name) + 1] if name in sys.argv else ""


def main():
    everything = "--all" in sys.argv[1:] or EVERY
    jobs, called = [], 0
    for load, (_, victim, _) in LOADS.items():
        status, text, seconds, here, _ = run(load, "")
        if status != 0:
            print(text)
            lib.fail(f"{load}, without a fault: exit status {status}")
        figures = json.loads((here / f"rank-{victim}.json").read_text())
        calls, runs = figures["calls"], runs_of(figures["runs"])
        lib.check(len(calls) > 25, f"{load}: only {len(calls)} functions are called")
        called += sum(calls.values())
        for function, count in sorted(calls.items()):
            sample = chosen(function, count, everything, runs[function])
            if load != "one round" and not everything:
                sample = [sample[len(sample) // 2]]
            jobs += [(load, function, nth, "fail") for nth in sample]
            few = chosen(function, count, False, []) if everything else sample[len(sample) // 2:][:1]
            connects = load == "one round" and function == "ncclRecv"
            if everything or connects or load == "many rounds" and function in IN_ROUNDS:
                jobs += [(load, function, nth, action) for nth in few for action in ("stick", "stuck")
                         if action == "stuck" or function.startswith("cuda")]
            if function in PSEUDO:
                continue
            if not everything and (load == "read together" or load == "many rounds" and function not in IN_ROUNDS):
                continue
            middle = 10 if function in POLLS else (count + 1) // 2
            for nth in sample if everything else [middle]:
                jobs += [(load, function, nth, "hang"), (load, function, nth, "kill")]
    if part := option("--part"):
        number, parts = map(int, part.split("/"))
        jobs = jobs[number - 1::parts]
    if actions := option("--actions"):
        jobs = [job for job in jobs if job[3] in actions.split(",")]
    if log := option("--again"):
        failed = set(re.findall(r"^FAIL (.*): (\S+) call (\d+) (\w+):", (STARTED_IN / log).read_text(), re.M))
        jobs = [job for job in jobs if tuple(map(str, job)) in failed]
    jobs = jobs[int(option("--skip") or 0):]
    passed = 0
    start = time.monotonic()
    with ThreadPoolExecutor(int(os.environ.get("JOBS", "4"))) as pool:
        for done, outcome in enumerate(pool.map(lambda job: judge(*job), jobs), 1):
            if everything and done % 100 == 0:
                print(f"{done} of {len(jobs)} after {time.monotonic() - start:.0f} s", flush=True)
            if outcome:
                print(outcome, flush=True)
            else:
                passed += 1
    print(f"{called} calls in {len(LOADS)} loads, {len(jobs)} faults, {time.monotonic() - start:.0f} s")
    print(f"{passed} passed, {len(jobs) - passed} failed")
    sys.exit(passed != len(jobs))


main()
