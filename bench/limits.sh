#!/bin/sh
# Measures how far hippo reaches the goals that were set for one core, and prints lines of JSON. It takes half an hour
# on an idle machine:
#
#     bench/limits.sh > docs/limits.jsonl
#     bench/limits.sh train copies            only some parts, see below
#
# hippo evidence run limits runs this script, adds the machine, and writes the page. A line contains what was measured,
# its value when the goal was set (on a Zen 4 core), the goal, the value reached, and the command. HIPPO names an
# existing program to use. FLAGS are the flags of each "hippo bench" (--rounds 3 --seconds 0.2). Peers are those of
# peer.sh (PYTHON with PyTorch 2, ORT, PEERS) and llama.sh (LLAMA). Rows that compare with a missing peer are left out,
# which the last line of standard error reports.
set -eu
cd "$(dirname "$0")/.."
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
if [ -n "${HIPPO-}" ]; then cp "$HIPPO" "$tmp/hippo"; else go build -o "$tmp/hippo" ./cmd/hippo; fi
unset HIPPO # it is not a setting of the program
PATH=$tmp:$PATH
flags=${FLAGS:---rounds 3 --seconds 0.2}
parts=${*:-prompts decode sessions attention products convolutions ort train llama copies}
left=''

# chosen PART reports whether a part is chosen.
chosen() {
	case " $parts " in
	*" $1 "*) ;;
	*) return 1 ;;
	esac
}

# rows COMMAND [FLAG...] runs a command that prints rows, from which limit then reads. FLAGs are not shown.
rows() {
	command=$1 from=$(date +%s)
	shift
	if ! eval "$command $*" >"$tmp/rows"; then
		left="$left; $command"
		: >"$tmp/rows"
	fi
	printf 'limits.sh: %s s: %s\n' "$(($(date +%s) - from))" "$command" >&2
}

# limit WHAT CASE BEFORE GOAL FIELD PART... prints a line with the value of FIELD in the row that contains all PARTs.
limit() {
	what=$1 case=$2 before=$3 goal=$4 field=$5
	shift 5
	cp "$tmp/rows" "$tmp/found"
	for part; do
		grep -F -- "$part" "$tmp/found" >"$tmp/next" || : # if no row is left, it is reported below
		mv "$tmp/next" "$tmp/found"
	done
	reached=$(sed -n "s/.*\"$field\":\([0-9.e+-]*\).*/\1/p" "$tmp/found" | head -n 1)
	[ -n "$reached" ] || { left="$left; $field of $what, $case" && return; }
	printf '{"bench":"limits","what":"%s","case":"%s","before":"%s","goal":%s,"reached":%s,"command":"%s"}\n' \
		"$what" "$case" "$before" "$goal" "$reached" "$(printf '%s' "$command" | sed 's/"/\\"/g')"
}

# copies WHAT CASE FUNCTION COMMAND measures the share of memmove in the time of a function.
copies() {
	rm -f "$tmp/cpu.pprof"
	rows "$4" --json --seconds 1 --profile "$tmp/cpu.pprof"
	[ ! -f "$tmp/cpu.pprof" ] || go tool pprof -top -nodefraction=0 -nodecount=10000 -focus="$3" -relative_percentages "$tmp/cpu.pprof" 2>/dev/null | awk '
		NF >= 6 && $2 ~ /%$/ { samples = 1 }
		$6 == "runtime.memmove" { share = $2 }
		END { if (samples) printf "{\"memmove\":%s}\n", share + 0 }' >"$tmp/rows"
	command="$command --profile cpu.pprof && go tool pprof -top -focus=$3 -relative_percentages cpu.pprof"
	limit "copies, memmove's % of time" "$1, $2" "5 to 8" 1 memmove
}

# fast_torch reports whether PyTorch multiplies with OpenBLAS or MKL. The reference BLAS, which Debian installs, is many
# times slower.
fast_torch() {
	${PYTHON:-python3} - <<-'END' >&2 || { left="$left; training beside PyTorch" && return 1; }
		import os, torch
		maps = open("/proc/self/maps").read() if os.path.exists("/proc/self/maps") else ""
		if not torch.backends.mkl.is_available() and "libblas.so" in maps and "openblas" not in maps:
		    raise SystemExit("limits.sh: found PyTorch with the reference BLAS, want OpenBLAS (on Debian libopenblas0-pthread)")
	END
}

if chosen prompts; then
	for level in avx2 avx2+vnni avx512 avx512+vnni; do
		HIPPO_CPU=$level hippo version >"$tmp/version" 2>&1 || continue
		goal=2.5
		[ $level != avx2 ] || goal=2
		rows "HIPPO_CPU=$level hippo bench prompt --precision int8 --only batch=1 --only context=-" --json "$flags"
		for model in Mamba-130M Mamba2-130M H3 GPT; do
			limit "prompt in int8, times own float32" "$model, $level" "0.81 to 0.90 without VNNI" $goal over_float32 "\"$model\""
		done
	done
	rows "hippo bench prompt --precision int8 --only model=Mamba2-130M --only batch=32" --json "$flags"
	limit "32 sessions in int8, states in bf16, times float32" "Mamba2-130M" "none" 1.5 states_bf16 '"prompt"'
fi

if chosen decode; then
	rows 'hippo bench decode --only model=H3-hybrid,GPT,Mamba-130M --only batch=1 --only context=1024' --json "$flags"
	for model in H3-hybrid GPT Mamba-130M; do
		limit "decoding at 1k, share of memory's speed" "$model, float32" "0.79 to 0.99" 0.95 dram_share "\"$model\"" '"float32"'
		limit "decoding at 1k, share of memory's speed" "$model, int8" "0.66 to 0.74" 0.85 dram_share "\"$model\"" '"int8"'
		limit "decoding at 1k, share of memory's speed" "$model, int4" "0.51 to 0.72" 0.85 dram_share "\"$model\"" '"int4"'
	done
fi

if chosen sessions; then
	rows 'hippo bench sessions --precision int8 --only sessions=16' --json "$flags"
	for model in H3-hybrid Mamba-130M GPT; do
		limit "16 sessions in int8, times one" "$model" "3.7 to 4.2" 5 over_one "\"$model\""
	done
fi

if chosen attention; then # keys and values are in int8
	rows 'hippo bench decode --precision int8 --only model=GPT --only context=8000' --json "$flags"
	limit "attention over a cache in int8, share of memory's speed" "GPT, 8k" "0.4" 0.8 cache_share '"decode"'
	rows 'hippo bench decode --precision int8 --only context=131072' --json "$flags"
	limit "attention over a cache in int8, share of memory's speed" "H3-hybrid, 128k" "0.4" 0.8 cache_share '"decode"'
	rows 'hippo bench prompt --precision int8 --only context=8192' --json "$flags"
	limit "512 tokens behind a cache in int8, times own float32" "GPT, 8k" "1" 2.5 over_float32 '"prompt"'
fi

if chosen products; then
	for precision in float32 bf16; do
		peer=gemm name=OpenBLAS before='0.98 to 1.11' field=ratio_gflops_best
		[ $precision != bf16 ] || peer=onednn name=oneDNN before='0.98 to 1.09' field=ratio_gflops
		rows "hippo bench gemm --precision $precision --peer 'sh bench/peer.sh $peer'" --json "$flags"
		for shape in 1024,1024,1024 4096,768,768; do
			mnk=$(echo "$shape" | sed 's/\(.*\),\(.*\),\(.*\)/"m":\1,"n":\2,"k":\3/')
			if [ $precision = float32 ]; then
				limit "products, float32, times $name" "$shape" "$before" 1.1 $field "$mnk" '"op":"NN"'
				continue
			fi
			limit "products, bf16, times $name" "$shape, rounding counted" "$before" 1.1 $field "$mnk" '"op":"NN"' '"rounded"'
			limit "products, bf16, times $name" "$shape, $name's operands rounded before" "$before" 1.1 $field "$mnk" '"op":"NN"' '"how":"bf16"'
		done
	done
fi

if chosen convolutions; then
	rows "hippo bench conv --only b=1 --only d=16 --only l=16384,65536 --peer 'sh bench/peer.sh fftw'" --json "$flags"
	limit "long convolution, times FFTW" "16k" "2.8" 3 ratio_fwd_ns '"l":16384' '"batched"'
	limit "long convolution, times FFTW" "64k" "2.4" 3 ratio_fwd_ns '"l":65536' '"batched"'
	rows "hippo bench conv --only b=1 --only d=256 --only l=65536 --peer 'sh bench/peer.sh conv'" --json "$flags"
	limit "long convolution with backward, times PyTorch" "64k, batch 1" "5.0" 8 ratio_fwd_bwd_ns '"l":65536'
fi

if chosen ort; then
	rows "hippo bench prompt --precision float32 --only model=GPT --only batch=1 --only context=- --peer 'sh bench/peer.sh ort'" --json "$flags"
	limit "prompt in float32, times ONNX Runtime" "GPT" "1.12" null ratio_tokens_per_s '"GPT"'
fi

if chosen train && fast_torch; then
	rows "hippo bench train a --peer 'sh bench/peer.sh train a'" --json "$flags"
	for row in H3,tuned H3-hybrid,tuned GPT,plain; do
		for precision in float32 bf16; do
			goal=1.8 before='1.55, 1.53, 1.53'
			[ $precision != bf16 ] || goal=2.5 before='1.82, 1.80, 1.55'
			limit "training, times PyTorch" "${row%,*}, $precision" "$before" $goal ratio_tokens_per_s \
				"\"${row%,*}\"" "\"${row#*,}\"" "\"$precision\""
		done
	done
fi

if chosen llama; then
	export LLAMA="${LLAMA:-../llama}"
	for model in granite-4.0-h-350m mamba2-130m lfm2-350m; do
		rows "ROUNDS=3 SECONDS_EACH=0.2 ONE=1 FLAGS=--json bench/llama.sh $model-q8_0"
		limit "one sequence in int8, times llama.cpp" "$model" "1.30 to 1.35" 1.5 ratio_tokens_per_s '"decode"' '"batch":1,'
	done
fi

if chosen copies; then
	for model in Mamba-130M Mamba2-130M H3 GPT; do
		copies "prompt in int8 and float32 in turn" $model Feed \
			"hippo bench prompt --precision int8 --only model=$model --only batch=1 --only context=-"
	done
	for model in H3-hybrid GPT Mamba-130M; do
		copies "decoding in int8" $model Feed "hippo bench decode --precision int8 --only model=$model --only batch=1 --only context=1024"
	done
	copies "32 sessions in int8" Mamba2-130M Feed "hippo bench prompt --precision int8 --only model=Mamba2-130M --only batch=32"
	for model in H3 H3-hybrid GPT; do
		copies "training in float32" $model stepper..step "hippo bench train a --precision float32 --only model=$model"
	done
fi
[ -z "$left" ] || echo "limits.sh: left out: ${left#; }" >&2
