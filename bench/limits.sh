#!/bin/sh
# Measures what hippo reaches of the goals that were set for one core, in lines of JSON, half an hour on a machine that does nothing else:
#
#     LLAMA=../llama bench/limits.sh > docs/limits.jsonl
#
# A line has what was measured, what it was when the goal was set (on a Zen 4 core), the goal, what is reached, and the command.
# HIPPO is a program that is built already. FLAGS are those of each "hippo bench" (--rounds 3 --seconds 0.2). Without LLAMA
# (see llama.sh), without PyTorch in PYTHON, without OpenBLAS or FFTW the rows beside them are left out, and standard error
# says so.
set -eu
cd "$(dirname "$0")/.."
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
if [ -n "${HIPPO-}" ]; then cp "$HIPPO" "$tmp/hippo"; else go build -o "$tmp/hippo" ./cmd/hippo; fi
unset HIPPO # no setting of the program
PATH=$tmp:$PATH
flags=${FLAGS:---rounds 3 --seconds 0.2}

# rows COMMAND [FLAG...] measures by a command, of which limit then reads the rows. FLAGs are not shown.
rows() {
	command=$1
	shift
	printf '%s\n' "$command" >&2
	if ! eval "$command $*" >"$tmp/rows"; then
		echo "limits.sh: left out: $command" >&2
		: >"$tmp/rows"
	fi
}

# limit WHAT CASE BEFORE GOAL FIELD PART... prints a line: of the row that has all PARTs, the FIELD.
limit() {
	what=$1 case=$2 before=$3 goal=$4 field=$5
	shift 5
	cp "$tmp/rows" "$tmp/found"
	for part; do
		grep -F -- "$part" "$tmp/found" >"$tmp/next" || : # none is left out below
		mv "$tmp/next" "$tmp/found"
	done
	reached=$(sed -n "s/.*\"$field\":\([0-9.e+-]*\).*/\1/p" "$tmp/found" | head -n 1)
	[ -n "$reached" ] || { echo "limits.sh: no $field for $what, $case" >&2 && return; }
	printf '{"bench":"limits","what":"%s","case":"%s","before":"%s","goal":%s,"reached":%s,"command":"%s"}\n' \
		"$what" "$case" "$before" "$goal" "$reached" "$(printf '%s' "$command" | sed 's/"/\\"/g')"
}

for level in avx2 avx2+vnni avx512 avx512+vnni; do
	HIPPO_CPU=$level hippo version >"$tmp/version" 2>&1 || continue
	goal=2.5
	[ $level != avx2 ] || goal=2
	rows "HIPPO_CPU=$level hippo bench prompt --precision int8" --json "$flags"
	for model in Mamba-130M Mamba2-130M H3 GPT; do
		limit "prompt in int8, times own float32" "$model, $level" "0.81 to 0.90 without VNNI" $goal over_float32 \
			"\"$model\"" '"batch":1,'
	done
done
# at the last of these levels
limit "32 sessions in int8, states in bf16, times float32" "Mamba2-130M" "none" 1.5 states_bf16 '"Mamba2-130M"' '"batch":32'

rows 'hippo bench decode' --json "$flags"
for model in H3-hybrid GPT Mamba-130M; do
	limit "decoding at 1k, share of memory's speed" "$model, float32" "0.79 to 0.99" 0.95 dram_share "\"$model\"" '"float32"' '"batch":1,' '"context":1024'
	limit "decoding at 1k, share of memory's speed" "$model, int8" "0.66 to 0.74" 0.85 dram_share "\"$model\"" '"int8"' '"batch":1,' '"context":1024'
	limit "decoding at 1k, share of memory's speed" "$model, int4" "0.51 to 0.72" 0.85 dram_share "\"$model\"" '"int4"' '"batch":1,' '"context":1024'
done

rows 'hippo bench sessions --precision int8' --json "$flags"
for model in H3-hybrid Mamba-130M GPT; do
	limit "16 sessions in int8, times one" "$model" "3.7 to 4.2" 5 over_one "\"$model" '"sessions":16,'
done

rows "hippo bench gemm --precision float32 --peer 'sh bench/peer.sh gemm'" --json "$flags"
for shape in 1024,1024,1024 4096,768,768; do
	limit "products, float32, times OpenBLAS" "$shape" "0.98 to 1.11" 1.1 ratio_gflops_best \
		"$(echo "$shape" | sed 's/\(.*\),\(.*\),\(.*\)/"m":\1,"n":\2,"k":\3/')" '"op":"NN"'
done
rows "hippo bench conv --peer 'sh bench/peer.sh fftw'" --json "$flags"
limit "long convolution, times FFTW" "16k" "2.8" 3 ratio_fwd_ns '"l":16384' '"batched"'
limit "long convolution, times FFTW" "64k" "2.4" 3 ratio_fwd_ns '"l":65536' '"batched"'
rows "hippo bench conv --peer 'sh bench/peer.sh conv'" --json "$flags"
limit "long convolution with backward, times PyTorch" "64k, batch 1" "5.0" 8 ratio_fwd_bwd_ns '"l":65536' '"b":1,'
rows "hippo bench train a --peer 'sh bench/peer.sh train a'" --json "$flags" # a quarter of an hour
for row in H3,tuned H3-hybrid,tuned GPT,plain; do
	for precision in float32 bf16; do
		goal=1.8 before='1.55, 1.53, 1.53'
		[ $precision != bf16 ] || goal=2.5 before='1.82, 1.80, 1.55'
		limit "training, times PyTorch" "${row%,*}, $precision" "$before" $goal ratio_tokens_per_s \
			"\"${row%,*}\"" "\"${row#*,}\"" "\"$precision\""
	done
done

if [ -n "${LLAMA-}" ]; then
	for model in granite-4.0-h-350m mamba2-130m lfm2-350m; do
		rows "ROUNDS=3 SECONDS_EACH=0.2 FLAGS=--json bench/llama.sh $model-q8_0"
		limit "one sequence in int8, times llama.cpp" "$model" "1.30 to 1.35" 1.5 ratio_tokens_per_s '"decode"' '"batch":1,'
	done
else
	echo "limits.sh: left out: llama.cpp, as LLAMA is not set" >&2
fi
