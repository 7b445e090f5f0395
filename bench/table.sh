#!/bin/sh
# Measures everything beside its peers and prints it as tables, with FLAGS=--json as lines of JSON: about an hour. Arguments choose benchmarks by
# name: bench/table.sh gemm train. Further flags of "hippo bench" are in FLAGS: FLAGS='--rounds 1 --seconds 1' bench/table.sh conv. TEXT is
# the file with the characters of Shakespeare.
set -eu
cd "$(dirname "$0")/.."
go build -o hippo ./cmd/hippo

# chosen NAME: tells whether the name is chosen.
chosen() {
	case " $names " in
	*" $1 "*) ;;
	*) return 1 ;;
	esac
}

# row NAME PEER ARG...: runs "hippo bench ARG..." beside "peer.sh PEER" where the name is chosen and there is a peer.
row() {
	name=$1 peer=$2
	shift 2
	chosen "$name" || return 0
	printf '\n%s\n' "hippo bench $*${peer:+ --peer 'sh bench/peer.sh $peer'}" >&2
	# shellcheck disable=SC2086 # FLAGS is a list
	./hippo bench "$@" ${peer:+--peer "sh bench/peer.sh $peer"} ${FLAGS-}
}

names=${*:-gemm conv kernel mixer train synth chars decode sessions scale cores levels prompts}
text=${TEXT:-../shared/data/tinyshakespeare/input.txt}
./hippo version >&2
row gemm gemm gemm
row conv conv conv
row conv fftw conv
row kernel kernel kernel
row mixer mixer mixer
row train 'train a' train a
row train 'train b' train b
row train 'train c' train c
row synth 'synth ind h3 20' synth ind
row chars "chars $text" chars "$text"
row decode decode decode
row sessions '' sessions
row scale '' scale
row cores '' gemm --threads 2 --scaling
row cores '' train a b c --threads 2 --scaling
for what in gemm conv kernel mixer 'train a' synth; do # AVX2 beside AVX-512
	chosen levels || break
	printf '\n%s\n' "HIPPO_CPU=avx2 hippo bench $what --precision float32 --peer 'HIPPO_CPU=avx512 hippo bench $what --precision float32 --json'" >&2
	# shellcheck disable=SC2086 # both are lists
	HIPPO_CPU=avx2 ./hippo bench $what --precision float32 ${FLAGS-} --peer "HIPPO_CPU=avx512 ./hippo bench $what --precision float32 --json ${FLAGS-}"
done
for level in avx2 avx2+vnni avx512 avx512+vnni; do # prompts in int8 beside own float32, in a file each
	chosen prompts || break
	HIPPO_CPU=$level ./hippo version >/dev/null 2>&1 || continue
	printf '\n%s\n' "HIPPO_CPU=$level hippo bench prompt --precision int8 --out prompts-$level.json" >&2
	# shellcheck disable=SC2086 # FLAGS is a list
	HIPPO_CPU=$level ./hippo bench prompt --precision int8 --out "prompts-$level.json" ${FLAGS-}
done
