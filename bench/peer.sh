#!/bin/sh
# Runs a peer of "hippo bench" and prints its results as JSON lines:
#
#     bench/peer.sh gemm                        OpenBLAS
#     bench/peer.sh onednn [--threads N]        oneDNN in PyTorch 2, for "hippo bench gemm --precision bf16"
#     bench/peer.sh fftw                        FFTW, for "hippo bench conv"
#     bench/peer.sh ort                         ONNX Runtime, for "hippo bench prompt --only model=GPT"
#     bench/peer.sh chars [--threads N] FILE    nanoGPT's recipe in PyTorch
#     bench/peer.sh mixers [--threads N] NAME...  mamba, linear-attention, hyena, s4, gated-deltanet and kda in PyTorch
#     bench/peer.sh [--threads N] WHAT ARG...   PyTorch, for all others: train a, conv, kernel, mixer, decode, synth ind h3
#
# PEERS is the folder of the peers' programs (default ../shared/peers), PYTHON a Python with torch, CC a C compiler. ORT
# is a folder in which npm has installed onnxruntime-node. It must contain the graphs that PEERS/ort/export.py, run by
# PYTHON, writes there.
#
# OpenBLAS treats an unknown processor as a Haswell, which halves its speed on one with AVX-512. So OPENBLAS_CORETYPE is
# set to match the processor, unless it is already set; standard error and the rows name it. Peers run on one thread, or
# on N.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
peers=${PEERS:-$root/../shared/peers}

# coretype prints the name of OpenBLAS's fastest kernels for the processor. OpenBLAS's kernels for bf16 have the same
# float32 products.
coretype() {
	case " $(grep -m 1 '^flags' /proc/cpuinfo 2>/dev/null) " in
	*" avx512f "*) echo SkylakeX ;;
	*" avx2 "*) echo Haswell ;;
	esac
}

# threads prints the argument after --threads, or 1 if there is none.
threads() {
	while [ $# -gt 1 ]; do
		[ "$1" != --threads ] || { echo "$2" && return; }
		shift
	done
	echo 1
}

core=${OPENBLAS_CORETYPE-$(coretype)}
[ -z "$core" ] || export OPENBLAS_CORETYPE="$core"
n=$(threads "$@")
export OMP_NUM_THREADS="$n" OPENBLAS_NUM_THREADS="$n" MKL_NUM_THREADS="$n"
echo "peer.sh: OPENBLAS_CORETYPE=${core:-(as OpenBLAS picks)}, threads $n" >&2

# named adds the kernels of the BLAS to rows of JSON.
named() { sed "/^{.*}\$/s/}\$/,\"blas_core\":\"$core\"}/"; }

# build SOURCE FLAG... compiles one of the peers' programs into a temporary folder.
build() {
	tmp=$(mktemp -d)
	trap 'rm -rf "$tmp"' EXIT
	source=$1
	shift
	"${CC:-cc}" "$peers/$source" -o "$tmp/peer" "$@"
}

case ${1-} in
gemm) # lines "core SkylakeX", the kernels used, and "1024  1024  1024 NN 101.5", the best of nine by the clock
	build gemm.c -O2 -lopenblas
	"$tmp/peer" | awk '
		$1 == "core" { core = $2 }
		NF == 5 { printf "{\"peer\":\"openblas\",\"bench\":\"gemm\",\"m\":%d,\"n\":%d,\"k\":%d,\"op\":\"%s\",\"precision\":\"float32\",\"threads\":1,\"gflops_best\":%s,\"blas_core\":\"%s\"}\n", $1, $2, $3, $4, $5, core }'
	;;
fftw) # lines "FFTW L=1024: batched 3.1  one-at-a-time 3.4  channel-last strided 9.9 ns/elt", the best of seven by the clock
	build fftw.c -O3 -march=native -ffast-math -lfftw3f -lm
	"$tmp/peer" | awk '{
		sub(/L=/, "", $2); sub(/:/, "", $2)
		split("batched one-at-a-time channel-last", how, " ")
		split($4 " " $6 " " $9, ns, " ")
		for (i = 1; i <= 3; i++)
			printf "{\"peer\":\"fftw\",\"bench\":\"conv\",\"b\":1,\"d\":16,\"l\":%d,\"how\":\"%s\",\"threads\":1,\"fwd_ns\":%s}\n", $2, how[i], ns[i]
	}'
	;;
onednn)
	shift
	"${PYTHON:-python3}" "$root/bench/gemm_torch.py" "$@" || echo "gemm_torch.py: exit status $?"
	;;
ort) # lines "onnxruntime VERSION gpt512.onnx 447.0 tok/s cpu"
	[ -f "${ORT:-}/gpt512.onnx" ] || { echo "peer.sh: ORT: found no gpt512.onnx in '${ORT:-}', want a folder with it" >&2 && exit 1; }
	tmp=$(mktemp "$ORT/run-XXXXXX.mjs") # node looks for packages in the folder of the program
	trap 'rm -f "$tmp"' EXIT
	cp "$peers/ort/run.mjs" "$tmp"
	(cd "$ORT" && node "$tmp") | awk '$3 == "gpt512.onnx" {
		printf "{\"peer\":\"onnxruntime\",\"bench\":\"prompt\",\"model\":\"GPT\",\"precision\":\"float32\",\"batch\":1,\"tokens\":512,\"context\":0,\"threads\":1,\"tokens_per_s\":%s}\n", $4 }'
	;;
chars | mixers)
	program=$root/bench/$1_torch.py
	shift
	{ "${PYTHON:-python3}" "$program" "$@" || echo "$program: exit status $?"; } | named
	;;
*) # a GPT's rows are printed twice, to compare with H3, too; a line that is not JSON reports that PyTorch failed
	{ "${PYTHON:-python3}" "$peers/bench.py" "$@" || echo "$peers/bench.py: exit status $?"; } |
		sed '/"bench": "decode", "model": "GPT"/{p; s/"model": "GPT", "how": "/"model": "H3-hybrid", "how": "GPT /;}' | named
	;;
esac
