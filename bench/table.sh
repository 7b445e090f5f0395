#!/bin/sh
# Measures hippo and its peers and prints tables, or with FLAGS=--json lines of JSON. It takes about an hour. Arguments
# select benchmarks by name: bench/table.sh gemm train. FLAGS holds further flags of "hippo bench": FLAGS='--rounds 1
# --seconds 1' bench/table.sh conv. TEXT is the file with the characters of Shakespeare.
set -eu
cd "$(dirname "$0")/.."
go build -o hippo ./cmd/hippo

# chosen NAME reports whether the name is chosen.
chosen() {
	case " $names " in
	*" $1 "*) ;;
	*) return 1 ;;
	esac
}

# row NAME PEER ARG... runs "hippo bench ARG...", compared with "peer.sh PEER" if PEER is not empty, if the name is
# chosen.
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
for what in gemm conv kernel mixer 'train a' synth; do # compare AVX2 with AVX-512
	chosen levels || break
	printf '\n%s\n' "HIPPO_CPU=avx2 hippo bench $what --precision float32 --peer 'HIPPO_CPU=avx512 hippo bench $what --precision float32 --json'" >&2
	# shellcheck disable=SC2086 # both are lists
	HIPPO_CPU=avx2 ./hippo bench $what --precision float32 ${FLAGS-} --peer "HIPPO_CPU=avx512 ./hippo bench $what --precision float32 --json ${FLAGS-}"
done
for level in avx2 avx2+vnni avx512 avx512+vnni; do # prompts in int8, compared with hippo's float32; one file each
	chosen prompts || break
	HIPPO_CPU=$level ./hippo version >/dev/null 2>&1 || continue
	printf '\n%s\n' "HIPPO_CPU=$level hippo bench prompt --precision int8 --out prompts-$level.json" >&2
	# shellcheck disable=SC2086 # FLAGS is a list
	HIPPO_CPU=$level ./hippo bench prompt --precision int8 --out "prompts-$level.json" ${FLAGS-}
done
