"""The table and the picture of curve.sh's rows: curve.py ROWS.tsv BYTES TABLE.md PICTURE.svg"""
import csv
import statistics
import sys

rows_file, size, table_file, picture_file = sys.argv[1:]
runs = {}
for row in csv.DictReader(open(rows_file), delimiter="\t"):
    runs.setdefault((row["layout"], row["strategy"], int(row["hosts"])), []).append(row)
# Of each, the run with the median time (the lower one of two): numbers of one run stay together.
points = {}
for key, group in runs.items():
    middle = statistics.median_low([float(row["total_s"]) for row in group])
    points[key] = next(row for row in group if float(row["total_s"]) == middle)
if not points:
    sys.exit("curve.py: no runs")
layouts = list(dict.fromkeys(layout for layout, _, _ in points))
strategies = list(dict.fromkeys(strategy for _, strategy, _ in points))
hosts = sorted({number for _, _, number in points})

MB = 1e6
with open(table_file, "w") as out:
    print(f"Checkpoint {int(size) / 1e9:.2f} GB. From storage, between hosts: received by all hosts, and by the busiest one, "
          "as their interfaces counted.\n", file=out)
    print("| layout | strategy | hosts | planned (s) | time (s) | of it start-up (s) | from storage (MB) | busiest (MB) | between hosts (MB) |"
          " busiest (MB) | rank 0 (MB) | largest rank (MB) |", file=out)
    print("|---|---|" + "---:|" * 10, file=out)
    for (layout, strategy, number), row in sorted(points.items(), key=lambda item: (layouts.index(item[0][0]), item[0][2],
                                                                                   strategies.index(item[0][1]))):
        figures = [float(row[name]) / MB for name in ("eth1_sum", "eth1_max", "eth0_sum", "eth0_max", "rss_rank0", "rss_max")]
        print(f"| {layout} | {strategy} | {number} | {float(row['bound_s']):.2f} | {float(row['total_s']):.2f} | {float(row['startup_s']):.2f} | "
              + " | ".join(f"{figure:.0f}" for figure in figures) + " |", file=out)

# ---- the picture: a column a layout; above the time, below the memory of rank 0 -------------------------------------------
COLOURS = ["#c0392b", "#d68910", "#7d3c98", "#1f618d", "#117a65", "#444444"]
WIDE, HIGH, LEFT, TOP, GAP = 250, 190, 60, 58, 50
width = LEFT + len(layouts) * (WIDE + GAP)
height = TOP + 2 * (HIGH + 62)
lines = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12">',
         f'<rect width="{width}" height="{height}" fill="white"/>']


def text(x, y, words, anchor="middle", fill="#222", extra=""):
    lines.append(f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{fill}" {extra}>{words}</text>')


def nice(value):
    """The next round number above."""
    step = 10 ** (len(str(int(value))) - 1) if value >= 1 else 0.1
    return next(step * factor for factor in (1, 2, 3, 4, 5, 6, 8, 10, 20) if step * factor >= value)


for i, strategy in enumerate(strategies):
    x = LEFT + i * 150
    lines.append(f'<line x1="{x}" y1="20" x2="{x + 24}" y2="20" stroke="{COLOURS[i % 6]}" stroke-width="2.5"/>')
    text(x + 30, 24, strategy, "start")
for line, (title, of, unit) in enumerate((("time of a cold load (s)", lambda row: float(row["total_s"]), ""),
                                          ("peak memory of rank 0 (GB)", lambda row: float(row["rss_rank0"]) / 1e9, ""))):
    top = nice(max(of(row) for row in points.values()))
    for column, layout in enumerate(layouts):
        x0, y0 = LEFT + column * (WIDE + GAP), TOP + line * (HIGH + 62)
        at_x = {number: x0 + 14 + (WIDE - 28) * i / max(1, len(hosts) - 1) for i, number in enumerate(hosts)}
        text(x0 + WIDE / 2, y0 - 8, f"{layout}: {title}")
        for tick in range(5):
            y = y0 + HIGH - HIGH * tick / 4
            lines.append(f'<line x1="{x0}" y1="{y:.1f}" x2="{x0 + WIDE}" y2="{y:.1f}" stroke="#ddd"/>')
            text(x0 - 6, y + 4, f"{top * tick / 4:g}", "end")
        for number, x in at_x.items():
            text(x, y0 + HIGH + 16, number)
        text(x0 + WIDE / 2, y0 + HIGH + 32, "hosts")
        for i, strategy in enumerate(strategies):
            marks = [(at_x[n], y0 + HIGH * (1 - of(points[layout, strategy, n]) / top)) for n in hosts
                     if (layout, strategy, n) in points]
            lines.append(f'<polyline fill="none" stroke="{COLOURS[i % 6]}" stroke-width="2.5" points="'
                         + " ".join(f"{x:.1f},{y:.1f}" for x, y in marks) + '"/>')
            lines += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{COLOURS[i % 6]}"/>' for x, y in marks]
lines.append("</svg>")
with open(picture_file, "w") as out:
    print("\n".join(lines), file=out)
