#!/bin/sh
# Measures the peak memory of "hippo generate" with weights as they are stored, in int8 and in float32, for files of
# published shapes with random weights, and prints rows as lines of JSON. It takes about five minutes:
#
#     bench/memory.sh                           Granite-4.0-H-350M, LFM2-350M and Falcon-H1-0.5B, each as bf16
#     bench/memory.sh mamba-130m-q8_0 ...       others, by NAME-TYPE as in llama.sh
#
# FILES is the folder for the models (3 GB; by default a temporary one). SHRINK=8 is a quick try with fewer layers.
set -eu
cd "$(dirname "$0")/.."
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
files=${FILES:-$tmp}
mkdir -p "$files"
go build -o "$tmp/hippo" ./cmd/hippo
[ $# -gt 0 ] || set -- granite-4.0-h-350m-bf16 lfm2-350m-bf16 falcon-h1-0.5b-bf16
for name; do
	go run ./tools/ggufs -shrink "${SHRINK:-1}" "$files" "$name" >&2
	file=$files/$name.gguf
	params=$("$tmp/hippo" info "$file" --json | sed 's/.*"numbers":\([0-9]*\).*/\1/')
	for precision in stored int8 float32; do
		/usr/bin/time -f %M -o "$tmp/kb" "$tmp/hippo" generate "$file" '1 2 3 4' --ids --max_tokens 4 --ignore_end --precision "$precision" >&2
		awk -v bytes="$(wc -c <"$file")" -v name="$name" -v params="$params" -v precision="$precision" '{
			printf "{\"bench\":\"memory\",\"model\":\"%s\",\"params\":\"%.0fM\",\"file_mb\":%.0f,\"precision\":\"%s\",\"peak_mb\":%.0f}\n",
				name, params / 1e6, bytes / 1e6, precision, $1 * 1024 / 1e6 }' "$tmp/kb"
	done
	[ "$files" != "$tmp" ] || rm "$file"
done
