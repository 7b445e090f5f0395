#!/bin/sh
# Compares hippo with llama.cpp, in turn, on the same files of random weights. It prints speeds and memory with their
# ratios: how many times faster hippo is, and how many times less memory it needs. It takes about two hours:
#
#     bench/llama.sh                          all models in all types
#     bench/llama.sh lfm2-350m-q8_0 ...       some of them, by NAME-TYPE
#
# NAMEs are mamba-130m, mamba2-130m, gpt2-124m, granite-4.0-h-350m, falcon-h1-0.5b, lfm2-350m and, only if named,
# qwen3.5-0.8b. TYPEs are f32 (float32), f16 and bf16 (both compared with bf16), q8_0 (with int8), q4_0 (with int4) and,
# only if named, q4_k_m. Each file is measured with one more token for one sequence and for 32 at once, and with a
# prompt of 512 tokens; the GPT also at a context of 8192, and Qwen3.5 also with a prompt of 8192. Each file is measured
# by a process of its own, so that its memory is that of the model.
#
# LLAMA is a folder in which npm has installed node-llama-cpp (npm install node-llama-cpp@3.22.1), which contains
# llama.cpp in compiled form. PEERS is the folder of the peers' programs (default ../shared/peers), which contains
# llama/bench.mjs. FILES is the folder for the models (6 GB in all; by default a temporary one). Defaults are THREADS=1,
# ROUNDS=3, SECONDS_EACH=2. SHRINK=8 is a quick try with fewer layers. ONE=1 measures only one more token for one
# sequence. FLAGS are further flags of hippo bench: FLAGS=--json prints lines of JSON.
set -eu
cd "$(dirname "$0")/.."
llama=${LLAMA:?is not set: want a folder in which npm has installed node-llama-cpp}
[ -d "$llama/node_modules/node-llama-cpp" ] || { echo "llama.sh: $llama has no node_modules/node-llama-cpp" >&2 && exit 1; }
threads=${THREADS:-1} seconds=${SECONDS_EACH:-2} rounds=${ROUNDS:-3} shrink=${SHRINK:-1}
tmp=$(mktemp -d)
peer=$(mktemp "$llama/bench-XXXXXX.mjs") # node looks for packages in the folder of the program
trap 'rm -rf "$tmp" "$peer"' EXIT
cp "${PEERS:-../shared/peers}/llama/bench.mjs" "$peer"
cat >"$tmp/peer.sh" <<'END' # node's own memory is not part of the model's
node "$@" | node -e 'require("readline").createInterface({input: process.stdin}).on("line", (line) => {
	const row = JSON.parse(line);
	console.log(JSON.stringify({...row, used_mb: Number((row.rss_mb - row.rss_start_mb).toPrecision(4))}));
})'
END
files=${FILES:-$tmp}
mkdir -p "$files"

names=$*
if [ -z "$names" ]; then
	for model in mamba-130m mamba2-130m gpt2-124m granite-4.0-h-350m falcon-h1-0.5b lfm2-350m; do
		names="$names $model-f32 $model-f16 $model-bf16 $model-q8_0 $model-q4_0"
	done
fi
go build -o "$tmp/hippo" ./cmd/hippo
"$tmp/hippo" version >&2
for name in $names; do
	go run ./tools/ggufs -shrink "$shrink" "$files" "$name"
	decode=1x$((1024 / shrink)),32x$((64 / shrink)) prefill=$((512 / shrink))
	case $name in
	gpt2-*) decode=$decode,1x$((8192 / shrink)) ;;
	qwen3.5-*) prefill=$prefill,$((8192 / shrink)) ;;
	esac
	only=''
	[ -z "${ONE-}" ] || decode=${decode%%,*} prefill='' only='--only bench=decode --only batch=1'
	printf '\n%s\n' "$name" >&2
	"$tmp/hippo" bench files "$files/$name.gguf" --threads "$threads" --seconds "$seconds" --rounds "$rounds" --shrink "$shrink" $only ${FLAGS-} \
		--peer "sh $tmp/peer.sh $peer --threads $threads --seconds $seconds --decode $decode ${prefill:+--prefill $prefill} $files/$name.gguf"
	[ "$files" != "$tmp" ] || rm "$files/$name.gguf"
done
