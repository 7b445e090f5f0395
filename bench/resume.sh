#!/bin/sh
# Measures how long hippo and llama.cpp take to continue a text that is new (cold), saved by another process (restored),
# in memory (warm), or in memory with another end (edited), on the same files of random weights. It takes about ten
# minutes:
#
#     bench/resume.sh                           Mamba-130M, the hybrid Granite-4.0-H-350M and a GPT, each as q8_0
#     bench/resume.sh mamba-130m-f32 ...        others, by NAME-TYPE as in llama.sh
#
# TOKENS is the length of the text, 4096. LLAMA, FILES, THREADS, ROUNDS (1), SHRINK and FLAGS are as in llama.sh. Each
# phase of each model runs in a process of its own. SHRINK=8 TOKENS=2048 is a quick try.
set -eu
cd "$(dirname "$0")/.."
llama=${LLAMA:?is not set: want a folder in which npm has installed node-llama-cpp}
[ -d "$llama/node_modules/node-llama-cpp" ] || { echo "resume.sh: $llama has no node_modules/node-llama-cpp" >&2 && exit 1; }
threads=${THREADS:-1} rounds=${ROUNDS:-1} shrink=${SHRINK:-1} tokens=${TOKENS:-4096}
tmp=$(mktemp -d)
peer=$(mktemp "$llama/resume-XXXXXX.mjs") # node looks for packages in the folder of the program
trap 'rm -rf "$tmp" "$peer"' EXIT
cp bench/resume.mjs "$peer"
files=${FILES:-$tmp}
mkdir -p "$files"
go build -o "$tmp/hippo" ./cmd/hippo
"$tmp/hippo" version >&2
[ $# -gt 0 ] || set -- mamba-130m-q8_0 granite-4.0-h-350m-q8_0 gpt2-124m-q8_0
for name; do
	go run ./tools/ggufs -shrink "$shrink" "$files" "$name"
	file=$files/$name.gguf
	for phase in cold restored; do
		printf '\n%s\n' "$name, $phase" >&2
		"$tmp/hippo" bench resume "$phase" "$tmp" "$tokens" "$file" --threads "$threads" --rounds "$rounds" --shrink "$shrink" ${FLAGS-} \
			--peer "node $peer --threads $threads $phase $tmp $((tokens / shrink)) $file"
	done
	rm -f "$tmp/$name"-*.session "$tmp/$name"-*.llama
	[ "$files" != "$tmp" ] || rm "$file"
done
