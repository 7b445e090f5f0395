#!/bin/sh
# Runs a peer of "hippo bench" and prints its results as JSON lines:
#
#     bench/peer.sh gemm                        OpenBLAS
#     bench/peer.sh fftw                        FFTW, for "hippo bench conv"
#     bench/peer.sh chars [--threads N] FILE    nanoGPT's recipe in PyTorch
#     bench/peer.sh [--threads N] WHAT ARG...   PyTorch, for all others: train a, conv, kernel, mixer, decode, synth ind h3
#
# PEERS is the folder of the peers' programs (default ../shared/peers), PYTHON a Python that has torch, CC a C compiler.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
peers=${PEERS:-$root/../shared/peers}

# build SOURCE FLAG...: compiles one of the peers' programs into a folder that is removed at the end.
build() {
	tmp=$(mktemp -d)
	trap 'rm -rf "$tmp"' EXIT
	source=$1
	shift
	"${CC:-cc}" "$peers/$source" -o "$tmp/peer" "$@"
}

case ${1-} in
gemm) # lines "1024  1024  1024 NN 101.5", each the best of nine repetitions by the clock
	build gemm.c -O2 -lopenblas
	"$tmp/peer" | awk 'NF == 5 { printf "{\"peer\":\"openblas\",\"bench\":\"gemm\",\"m\":%d,\"n\":%d,\"k\":%d,\"op\":\"%s\",\"precision\":\"float32\",\"threads\":1,\"gflops_best\":%s}\n", $1, $2, $3, $4, $5 }'
	;;
fftw) # lines "FFTW L=1024: batched 3.1  one-at-a-time 3.4  channel-last strided 9.9 ns/elt", each the best of seven by the clock
	build fftw.c -O3 -march=native -ffast-math -lfftw3f -lm
	"$tmp/peer" | awk '{
		sub(/L=/, "", $2); sub(/:/, "", $2)
		split("batched one-at-a-time channel-last", how, " ")
		split($4 " " $6 " " $9, ns, " ")
		for (i = 1; i <= 3; i++)
			printf "{\"peer\":\"fftw\",\"bench\":\"conv\",\"b\":1,\"d\":16,\"l\":%d,\"how\":\"%s\",\"threads\":1,\"fwd_ns\":%s}\n", $2, how[i], ns[i]
	}'
	;;
chars)
	shift
	exec "${PYTHON:-python3}" "$root/bench/chars_torch.py" "$@"
	;;
*) # a GPT's rows come a second time, to be set beside H3 of that size; a line that is no JSON tells that PyTorch's program failed
	{ "${PYTHON:-python3}" "$peers/bench.py" "$@" || echo "$peers/bench.py: exit status $?"; } |
		sed '/"bench": "decode", "model": "GPT"/{p; s/"model": "GPT", "how": "/"model": "H3-hybrid", "how": "GPT /;}'
	;;
esac
