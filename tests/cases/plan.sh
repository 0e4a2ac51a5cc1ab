# Plan, seen from outside: what a rank holds, worked out by hand; names, notes and refusals; the picture; figures by node.
source "$(dirname "$0")/lib.sh"

printf '%s\t%s\t%s\n' \
  model.embed_tokens.weight bf16 10,4 \
  model.layers.0.self_attn.q_proj.weight bf16 8,4 \
  model.layers.0.self_attn.o_proj.weight bf16 4,8 \
  model.norm.weight bf16 7 \
  model.layers.0.mlp.up_proj.weight bf16 7,4 >small.tsv

# held NAME RANKS OPTION...: what each rank holds of a tensor, a line a rank; a line of plan's may be for several ranks.
held() {
  local name=$1 ranks=$2
  shift 2
  run plan --table small.tsv "$@" --explain "$name"
  expect_status 0
  "$PYTHON" - "$OUT" "$ranks" >held <<'PY'
import re, sys
held = {}
for line in open(sys.argv[1]):
    found = re.match(r' +ranks? (\d+)(?:-(\d+))? +holds (.*), (\d+) elements', line)
    if found:
        first, last, boxes, count = found.groups()
        size = 0
        for box in re.findall(r'\[([^]]*)\]', boxes):
            product = 1
            for begin, end in re.findall(r'(\d+):(\d+)', box):
                product *= int(end) - int(begin)
            size += product
        assert size == int(count), line
        for rank in range(int(first), int(last or first) + 1):
            held[rank] = boxes
assert sorted(held) == list(range(int(sys.argv[2]))), held
print('\n'.join(held[rank] for rank in sorted(held)))
PY
}
expect_held() { expect_equal "$(paste -sd';' held)" "$1" "${2:-boxes}"; }

# 10 rows on 4 ranks are 3, 3, 3, 1.
held model.embed_tokens.weight 4 --mesh dp_shard=4
expect_held '[0:3, 0:4];[3:6, 0:4];[6:9, 0:4];[9:10, 0:4]' fsdp2
expect_out '^  preset fsdp2: dp_shard=S\(0\)$'
expect_out '<- chosen$'
# Replicas hold the same.
held model.norm.weight 4 --mesh dp_replicate=2,dp_shard=2 --layout hsdp
expect_held '[0:4];[4:7];[0:4];[4:7]' hsdp
# An o_proj is cut by its inputs on tp; ranks are (dp_shard, tp), the last fastest.
held model.layers.0.self_attn.o_proj.weight 4 --mesh dp_shard=2,tp=2 --layout fsdp2+tp
expect_held '[0:2, 0:4];[0:2, 4:8];[2:4, 0:4];[2:4, 4:8]' fsdp2+tp
expect_out "tp rule '\*\.o_proj\.weight'"
# Flat: each tensor padded and cut for zero3, a block's tensors one after the other for fsdp1: q, o and up have 92
# elements, 31 a rank; o's are 32 to 64.
held model.norm.weight 3 --mesh dp_shard=3 --layout zero3
expect_held '[0:3];[3:6];[6:7]' zero3
held model.layers.0.self_attn.o_proj.weight 3 --mesh dp_shard=3 --layout fsdp1
expect_held '[4:4, 8:8];[0:3, 0:8] [3:4, 0:6];[3:4, 6:8]' fsdp1
expect_out 'flat with .*: elements 32\.\.64 of 92$'

# FSDP2 over TP stores 7 rows on (dp 3, tp 2) as 4 and 3, each cut in 3: row 6 lies on (2,1) and (2,0) has none. The
# placements that DTensor has for it put row 6 on (2,0). Both say that they differ.
up=model.layers.0.mlp.up_proj.weight
held $up 6 --mesh dp_shard=3,tp=2 --layout fsdp2+tp
expect_held '[0:2, 0:4];[4:5, 0:4];[2:4, 0:4];[5:6, 0:4];[7:7, 0:4];[6:7, 0:4]' storage
echo '{"mesh": "dp=3,tp=2", "rules": [{"match": "*up_proj*", "placements": {"dp": "SS(0,2)", "tp": "S(0)"}}], "default": {}}' >ss.json
held $up 6 --layout ss.json
expect_held '[0:2, 0:4];[4:5, 0:4];[2:4, 0:4];[5:6, 0:4];[6:7, 0:4];[7:7, 0:4]' formula
for layout in '--mesh dp_shard=3,tp=2 --layout fsdp2+tp' '--layout ss.json'; do
  # shellcheck disable=SC2086
  run plan --table small.tsv $layout
  expect_status 0
  expect_out "^# 1 tensor whose rows FSDP2 over TP stores elsewhere than the placements .*$up"
done
run plan --table small.tsv --mesh dp_shard=2,tp=2 --layout fsdp2+tp --select '*embed*'
expect_status 0
! grep -q 'stores elsewhere' "$OUT" || fail "10 rows on (2, 2) are said to lie elsewhere"

# Names: rules and --explain see the new ones, errors and reports give both; an alias is a further name of its tensor.
cat >names.json <<'JSON'
{"mesh": {"dp_shard": 2, "tp": 2},
 "rename": [{"match": "model.layers.*", "replace": "model.language_model.layers.$1"}],
 "alias": [{"name": "lm_head.weight", "of": "model.embed_tokens.weight"}],
 "rules": [{"match": "*embed_tokens*", "placements": {"tp": "S(0)", "dp_shard": "S(0)"}},
           {"match": "model.language_model.*.o_proj.weight", "placements": {"tp": "S(-1)", "dp_shard": "S(0)"}},
           {"match": "*.k_proj.weight", "placements": {"tp": "S(0)"}}],
 "default": {"dp_shard": "S(0)"}}
JSON
held model.language_model.layers.0.self_attn.o_proj.weight 4 --layout names.json
expect_held '[0:2, 0:4];[0:2, 4:8];[2:4, 0:4];[2:4, 4:8]' renamed
expect_out '^tensor model\.language_model\.layers\.0\.self_attn\.o_proj\.weight \(model\.layers\.0\.self_attn\.o_proj\.weight in the file\)$'
held lm_head.weight 4 --layout names.json
expect_held '[0:3, 0:4];[3:5, 0:4];[5:8, 0:4];[8:10, 0:4]' alias
run plan --table small.tsv --layout names.json
expect_status 0
expect_out "WARNING: rule '\*\.k_proj\.weight' .*matches no tensor"
expect_out '^# tensors 5 '
sed 's/"replace": "[^"]*"/"replace": "one"/' names.json >clash.json
run plan --table small.tsv --layout clash.json
expect_status 2
expect_err 'model\.layers\.0\.self_attn\.[qo]_proj\.weight.*one|one.*model\.layers\.0'

# An alias is said to be one, on both sides.
run plan --table small.tsv --layout names.json --explain lm_head.weight
expect_status 0
expect_out '^tensor model\.embed_tokens\.weight$'
expect_out '^  lm_head\.weight is an alias of it$'
run plan --table small.tsv --layout names.json --explain model.embed_tokens.weight
expect_status 0
expect_out '^  aliases: lm_head\.weight$'
run plan --table small.tsv --layout names.json --explain lm_head.weight --json
expect_status 0
expect_json "$OUT" '(r["tensor"], r["asked_name"], r["is_alias"], r["aliases"])' \
  "('model.embed_tokens.weight', 'lm_head.weight', True, ['lm_head.weight'])"
expect_json "$OUT" '[[(b["start"], b["extent"]) for b in e["boxes"]] for e in r["per_rank"]]' \
  '[[([0, 0], [3, 4])], [([3, 0], [2, 4])], [([5, 0], [3, 4])], [([8, 0], [2, 4])]]'
expect_json "$OUT" '(r["dtype"], r["shape"], r["tensor_bytes"], r["ranks"], r["placements"])' \
  "('bf16', [10, 4], 80, 4, {'dp_shard': 'S(0)', 'tp': 'S(0)'})"

# Whom a rank talks to: what one says it sends, the other says it gets; all ranks together read the tensor once. An
# embedding cut by columns comes in wide extents whose pieces are sent on.
printf 'wide.weight\tbf16\t4096,1024\n' >wide.tsv
echo '{"mesh": "a=4", "default": {"a": "S(1)"}}' >columns.json
run plan --table wide.tsv --layout columns.json --explain wide.weight --json
expect_status 0
"$PYTHON" - "$OUT" <<'PY'
import json, sys
r = json.load(open(sys.argv[1]))
assert r['way'] == 'exchange' and r['way'] in [w['way'] for w in r['ways']], r['ways']
sent, got, read, held = {}, {}, 0, 0
for e in r['per_rank']:
    for rank in range(e['first_rank'], e['last_rank'] + 1):
        read += e['read_bytes']
        held += e['shard_bytes']
        sent.update({(rank, p['rank']): (p['bytes'], p['messages']) for p in e['sent_to']})
        got.update({(p['rank'], rank): (p['bytes'], p['messages']) for p in e['received_from']})
assert sent == got, (sent, got)
# Every reader keeps a quarter of what it reads and sends the rest.
assert read == held == 4096 * 1024 * 2, (read, held)
assert sum(b for b, _ in sent.values()) == read * 3 // 4, sent
PY
run plan --table wide.tsv --layout columns.json --explain wide.weight
expect_status 0
expect_out '^  rank 1 .*receives 1\.573 MB in [0-9]+ messages from ranks 0, 2, 3; sends 1\.573 MB in [0-9]+ messages to ranks 0, 2, 3$'
expect_out '^    exchange +[0-9.]+ [mu]s = read [0-9.]+ [mu]s \+ fill [0-9.]+ [mu]s \+ copy [0-9.]+ [mu]s  <- chosen$'

# Nobody said how many ranks: that is noted, and only then.
echo '{"default": {}}' >meshless.json
run plan --table small.tsv --layout meshless.json
expect_status 0
expect_out '^# note: planned for 1 rank, since --ranks, --mesh and the mesh of meshless\.json are missing$'
for given in '--ranks 1' '--mesh a=1'; do
  # shellcheck disable=SC2086
  run plan --table small.tsv --layout meshless.json $given
  expect_status 0
  ! grep -q 'note: planned for 1 rank' "$OUT" || fail "a note on ranks that were given by $given"
done

# A fused tensor is left whole by tp, and named.
printf 'model.layers.0.self_attn.qkv_proj.weight\tbf16\t24,8\n' >fused.tsv
run plan --table fused.tsv --mesh tp=2 --layout tp
expect_status 0
expect_out '^# 1 tensor fused of q, k and v: replicated along tp, .*qkv_proj\.weight\)$'

# Refusals: one line, status 2.
refused() {  # PATTERN OPTION...
  local pattern=$1
  shift
  run plan --table small.tsv "$@"
  expect_status 2
  expect_err "$pattern"
  expect_equal "$(wc -l <"$ERR")" 1 "lines on stderr"
}
refused "'fsdp3' is not fsdp2, hsdp, tp, fsdp2\+tp, replicate, fsdp1, zero3" --layout fsdp3
for layout in tp fsdp2+tp; do refused 'needs a mesh axis tp; the mesh is dp_shard=4' --mesh dp_shard=4 --layout $layout; done
refused 'needs a mesh axis dp_replicate' --mesh dp_shard=4 --layout hsdp
echo '{"mesh": "a=2,b=2", "default": {"a": "F", "b": "S(0)"}}' >bad.json
refused 'the default: F on axis a does not fit tensor model\.embed_tokens\.weight of shape \(10, 4\)' --layout bad.json
echo '{"mesh": "a=2", "default": {"a": "P"}}' >bad.json
refused "default: axis a: placement 'P': .*Partial cannot be loaded" --layout bad.json
echo '{"mesh": "a=2", "default": {"a": "S(1)"}}' >bad.json
refused 'the default: S\(1\) on axis a does not fit tensor model\.norm\.weight of shape \(7\)' --layout bad.json
refused "there is no tensor nobody; 'slabload inspect --tensors' lists" --explain nobody
refused 'there is no tensor model\.norm\.wieght; near it: model\.norm\.weight$' --explain model.norm.wieght
refused 'near it: model\.layers\.0\.self_attn\.q_proj\.weight$' --explain q_proj
# An old name gets the new one; one that is not selected is told so.
refused 'there is no tensor model\.layers\.0\.self_attn\.q_proj\.weight: names\.json renames it to model\.language_model\.layers\.0\.self_attn\.q_proj\.weight$' \
  --layout names.json --explain model.layers.0.self_attn.q_proj.weight
refused 'tensor model\.norm\.weight: --select and --exclude leave it out' --exclude '*norm*' --explain model.norm.weight
# Globs that are none, keys given twice, JSON that is none: what, and where.
refused "--select: '\[' is not a glob" --select '['
refused "--exclude: 'a\[\]' is not a glob" --exclude 'a[]'
refused "--cost: 'fs' is given twice" --cost fs=1GB/s,fs=2GB/s
echo '{"mesh": "a=2", "rules": [{"match": "*", "placements": {}}, {"match": "a[", "placements": {}}]}' >bad.json
refused "bad\.json: rule 2: 'a\[' is not a glob" --layout bad.json
printf '{"mesh": "a=2",\n "default": {},\n}\n' >bad.json
refused "bad\.json: not JSON: line 3, column 1: '}': a ',' stands before this" --layout bad.json
: >bad.json
refused 'bad\.json: not JSON: the file is empty' --layout bad.json
echo '{"mesh": "a=2", "rules": [{"match": "*"}]}' >bad.json
refused 'bad\.json: rule 1: expected .*"placements"' --layout bad.json
echo '{"mesh": "a=2,a=2", "default": {}}' >bad.json
refused 'bad\.json: "mesh": axis a is given twice' --layout bad.json
refused 'axis a is given twice' --mesh a=2,a=2
refused 'axis a has size 0' --mesh a=0
refused 'more than 2\^31 ranks' --mesh a=4294967296,b=4294967296,c=4294967296
# Too many ranks to plan for, said before any planning.
refused '1000000000 ranks are too many .* 1048576, or 16777216 with --statistics' --ranks 1000000000
refused '1000000000 ranks are too many .* 16777216; a smaller' --ranks 1000000000 --statistics

# Estimates: every strategy in the report, auto never above slab or linear; rates change them.
qwen="--table $TABLES/qwen2.5-0.5b.tsv"
for cost in '' 'request=5ms,fs=50GB/s' 'fabric=1GB/s,message=100us'; do
  for mesh in dp_replicate=4,dp_shard=2 dp_replicate=2,dp_shard=16; do
    # shellcheck disable=SC2086
    run plan $qwen --mesh $mesh --layout hsdp --json ${cost:+--cost "$cost"}
    expect_status 0
    expect_json "$OUT" '[e["strategy"] for e in r["estimates"]]' \
      "['slab', 'linear', 'auto', 'rank0-broadcast', 'rank0-full', 'every-rank']"
    expect_json_true "$OUT" '(lambda t: t["auto"] <= min(t["slab"], t["linear"]))({e["strategy"]: e["total_s"] for e in r["estimates"]})'
    expect_json_true "$OUT" 'r["validated"]'
    # Only where the fabric is said to be slow may a byte be read twice.
    case $cost in *fabric*) ;; *) expect_json "$OUT" 'r["read_amplification"]' 1.0 ;; esac
  done
done

# Nodes: rows of their own, and all that is read is read by some node. Two nodes of 4, two replicas: half each.
# shellcheck disable=SC2086
run plan $qwen --mesh dp_replicate=2,dp_shard=4 --layout hsdp --ranks-per-node 4 --statistics --report nodes.json
expect_status 0
expect_out '^  read by a node '
expect_out '^  received by a node '
expect_out '^# plan not validated$'
expect_json nodes.json '(r["nodes"], r["ranks_per_node"], r["validated"])' "(2, 4, False)"
expect_json_true nodes.json 'r["node_read_bytes"]["max"] <= 0.51 * r["selected_bytes"]'
# shellcheck disable=SC2086
run plan $qwen --mesh dp_replicate=2,dp_shard=4 --layout hsdp
expect_status 0
expect_out '^# plan valid: '
! grep -q 'by a node' "$OUT" || fail "figures of nodes without nodes"

# The picture: well-formed, and every rank's reads are a row of it.
for ranks in 4 512; do
  # shellcheck disable=SC2086
  run plan $qwen --mesh dp_replicate=2,dp_shard=$((ranks / 2)) --layout hsdp --statistics --svg who.svg
  expect_status 0
  rows=$("$PYTHON" - who.svg <<'PY'
import re, sys
import xml.etree.ElementTree as tree
root = tree.parse(sys.argv[1]).getroot()
space = '{http://www.w3.org/2000/svg}'
assert root.tag == space + 'svg', root.tag
assert any('read from the file' in (text.text or '') for text in root.iter(space + 'text'))
width, height = float(root.get('width')), float(root.get('height'))
rows = set()
for path in root.iter(space + 'path'):
    for x, y, length in re.findall(r'M([\d.]+) ([\d.]+)h(\d+)', path.get('d')):
        assert 0 <= float(x) <= width - float(length) + 1 and 0 <= float(y) <= height, (x, y, length)
        if path.get('stroke') == '#1f5fa8':
            rows.add(y)
print(len(rows))
PY
  )
  expect_equal "$rows" $ranks "rows of the picture that read"
done
echo "boxes by hand, names, refusals, estimates, nodes and pictures"
