"""--timeline: a file that a viewer of Trace Event Format takes, whose events are those of the load that the report tells of."""
import json
from collections import defaultdict

from lib import DTYPES, Run, check, work_folder

work = work_folder()
PHASES = {"open", "plan", "read", "copy", "fill", "verify"}

# ---- a checkpoint: a few large tensors, many small ones, names that JSON has to escape ------------------------------------
rows = [(f"layer.{i}.weight", "bf16", (701, 513)) for i in range(4)] + [(f"layer.{i}.bias", "f32", (513,)) for i in range(40)]
rows += [('quote"and\\back', "f64", (77, 3)), ("ä✓", "u8", (1000,)), ("empty", "f32", (0, 3)), ("scalar", "f32", ())]
(work / "table.tsv").write_text("".join(f"{n}\t{d}\t{','.join(map(str, s))}\n" for n, d, s in rows))
names = {name for name, _, _ in rows}
bytes_of = {name: DTYPES[dtype][1] for name, dtype, _ in rows}
for name, _, shape in rows:
    for length in shape:
        bytes_of[name] *= length
Run(2, ["generate", "--table", "table.tsv", "--out", "model.h5", "--seed", 3])


def strict(text):
    """json.loads, without what JSON does not have and without keys that come twice."""
    def once(pairs):
        check(len(dict(pairs)) == len(pairs), f"a key comes twice: {pairs}")
        return dict(pairs)

    def refuse(word):
        check(False, f"{word} is no JSON")
    return json.loads(text, object_pairs_hook=once, parse_constant=refuse)


def is_count(value):
    return type(value) is int and value >= 0


def timeline_of(path, ranks, total_s, what):
    """{rank: [complete event]}, the form of every event checked."""
    trace = strict((work / path).read_text(encoding="utf-8"))
    process_names, rows_of, events = {}, {}, defaultdict(list)
    for event in trace["traceEvents"]:
        check(is_count(event["pid"]) and is_count(event["tid"]), f"{what}: {event}")
        if event["ph"] == "M":
            if event["name"] == "process_name":
                process_names[event["pid"]] = event["args"]["name"]
            elif event["name"] == "thread_name":
                rows_of[event["pid"], event["tid"]] = event["args"]["name"]
            else:
                check(event["name"] in ("process_sort_index", "thread_sort_index"), f"{what}: {event}")
                check(is_count(event["args"]["sort_index"]), f"{what}: {event}")
            continue
        check(event["ph"] == "X" and event["cat"] in PHASES, f"{what}: {event}")
        check(is_count(event["args"]["bytes"]), f"{what}: {event}")
        tensor = event["args"].get("tensor")
        check(tensor is None or tensor in names, f"{what}: there is no tensor {tensor!r}")
        check(event["name"] == (tensor or event["cat"]), f"{what}: {event}")
        check(event["ts"] >= 0 and event["dur"] >= 0, f"{what}: a negative time: {event}")
        check(event["ts"] + event["dur"] <= (1.5 * total_s + 1) * 1e6, f"{what}: beyond the load's {total_s} s: {event}")
        events[event["pid"]].append(event)
    check(sorted(process_names) == list(range(ranks)), f"{what}: ranks {sorted(process_names)}")
    for rank in range(ranks):
        check(process_names[rank].startswith(f"rank {rank} "), f"{what}: rank {rank} is called {process_names[rank]!r}")
        check(events[rank], f"{what}: rank {rank} has no event")
    check({(e["pid"], e["tid"]) for some in events.values() for e in some} == set(rows_of), f"{what}: rows without a name or empty")
    for (rank, row), name in rows_of.items():
        inside = [e for e in events[rank] if e["tid"] == row]
        of_row = {"open", "plan"} if name.startswith("open, plan") else {name.split()[0]}
        check({e["cat"] for e in inside} <= of_row, f"{what}: other phases on the row {name!r} of rank {rank}")
        check_apart(inside, f"{what}: row {name!r} of rank {rank}")
    check(min(e["ts"] for some in events.values() for e in some) == 0, f"{what}: time does not begin at 0")
    return events


def nanoseconds(event):
    begin = round(event["ts"] * 1000)
    return begin, begin + round(event["dur"] * 1000)


def check_apart(events, what):
    times = sorted(map(nanoseconds, events))
    for (_, end), (begin, _) in zip(times, times[1:]):
        check(end <= begin, f"{what}: an event begins at {begin} ns, before the one before it ends, at {end} ns")


def union(times):
    """Sorted, disjoint."""
    out = []
    for begin, end in sorted(times):
        if out and begin <= out[-1][1]:
            out[-1][1] = max(out[-1][1], end)
        else:
            out.append([begin, end])
    return out


def length(spans):
    return sum(end - begin for begin, end in spans)


def moving_and_hidden(events):
    """Nanoseconds in which copies or fills are under way, and those of them in which there is a read as well."""
    moving = union(nanoseconds(e) for e in events if e["cat"] in ("copy", "fill"))
    reads = union(nanoseconds(e) for e in events if e["cat"] == "read")
    return length(moving), length(moving) + length(reads) - length(union(moving + reads))


# ---- loads ------------------------------------------------------------------------------------------------------------
for ranks in (1, 4):
    for layout in ("fsdp2", "replicate"):
        mesh = f"dp_replicate={ranks}" if layout == "replicate" else f"dp_shard={ranks}"
        for more in ([], ["--staging", "128KiB", "--min-read", "4KiB"], ["--io", "direct", "--verify", "shards"]):
            what = " ".join([f"{layout} on {ranks}", *more])
            run = Run(ranks, ["load", "model.h5", "--layout", layout, "--mesh", mesh, "--timeline", "timeline.json",
                              "--report", "report.json", *more])
            report = strict((work / "report.json").read_text())
            events = timeline_of("timeline.json", ranks, report["total_s"], what)
            every = [e for some in events.values() for e in some]

            # The bytes: those that the report has, and of each tensor those that it has, once.
            reads = [e for e in every if e["cat"] == "read"]
            check(sum(e["args"]["bytes"] for e in reads) == report["read_bytes"],
                  f"{what}: the reads have {sum(e['args']['bytes'] for e in reads)} bytes, the report {report['read_bytes']}")
            check(report["read_bytes"] == sum(bytes_of.values()), f"{what}: {report['read_bytes']} bytes read")
            by_tensor = defaultdict(int)
            for event in reads:
                by_tensor[event["args"].get("tensor")] += event["args"]["bytes"]
            for name, read in by_tensor.items():
                check(name is not None and read == bytes_of[name], f"{what}: {read} bytes of {name} read")
            fills = sum(e["args"]["bytes"] for e in every if e["cat"] == "fill")
            check(fills == report["fill_bytes"], f"{what}: the fills have {fills} bytes, the report {report['fill_bytes']}")

            # A rank reads one thing after another, and all of it in the file's phases; every rank has planned and verified.
            for rank in range(ranks):
                check_apart([e for e in events[rank] if e["cat"] == "read"], f"{what}: reads of rank {rank}")
                check({"open", "plan"} <= {e["cat"] for e in events[rank]}, f"{what}: rank {rank} has not opened or planned")
            check("verify" in {e["cat"] for e in every}, f"{what}: nothing was verified")
            if layout == "replicate" and ranks > 1:
                for rank in range(ranks):
                    check("fill" in {e["cat"] for e in events[rank]}, f"{what}: rank {rank} was not filled")

            # The share of the report is the one that the events show.
            sums = [moving_and_hidden(some) for some in events.values()]
            moving, hidden = (sum(column) / 1e9 for column in zip(*sums))
            if report["hidden_share"] is None:
                check(moving == 0, f"{what}: no hidden share, though {moving} s of copies and fills")
            else:
                check(abs(hidden - report["hidden_share"] * moving) <= 1e-6 * len(every),
                      f"{what}: {hidden} of {moving} s hidden, the report says {report['hidden_share']}")
            check(abs(max(m for m, _ in sums) / 1e9 - report["moving_s_max"]) <= 1e-6 * len(every), f"{what}: other moving_s_max")
            check("copies and fills hidden" in run.out, run.out)
            print(f"{what}: {len(every)} events, {len(reads)} reads, moving {moving:.4f} s, of it behind reads {hidden:.4f} s")

# A file that cannot be written is an error that says so.
run = Run(2, ["load", "model.h5", "--timeline", "no/such/folder/t.json"], status=3)
check("no/such/folder/t.json" in run.err and run.err.count("slabload: error") == 1, run.err)

# No option, no file.
(work / "timeline.json").unlink()
Run(2, ["load", "model.h5"])
check(not (work / "timeline.json").exists(), "a timeline that nobody asked for")
