#!/usr/bin/env bash
# Runs the commands of docs/evidence.md unchanged, and fills the page's tables with their results:
#
#     bash docs/evidence.sh                  all, from the root of the repository: most of a day on one core
#     bash docs/evidence.sh table ecg        those that write runs/evidence/table and runs/evidence/ecg
#                                            on several machines that share runs/evidence: each takes runs that no other has
#     bash docs/evidence.sh --short [...]    a few updates each, in a temporary folder, on synthetic data if DATA has none
#
# DATA is the folder that the page calls runs/data, if runs/data does not exist. HIPPO is the program (default: built here).
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD page=$root/docs/evidence.md

short=
if [[ ${1-} == --short ]]; then
	short=yes
	shift
fi
chosen=("$@")

tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
hippo=${HIPPO:-$tmp/hippo}
[[ -n ${HIPPO-} ]] || go build -o "$hippo" ./cmd/hippo
hippo=$(realpath "$hippo")
data=$(realpath -m "${DATA:-runs/data}")

# commands prints the commands of the page, one a line: lines of its shell blocks that begin with "hippo " or "for ". A \ continues a line.
commands() {
	awk '/^```sh/ { on = 1; next } /^```/ { on = 0 }
		on { sub(/ +# .*/, ""); if (sub(/\\$/, "")) { part = part $0; next } if ((part $0) ~ /^(hippo|for) /) print part $0; part = "" }' "$page"
}

# wanted COMMAND reports whether it is chosen.
wanted() {
	((${#chosen[@]})) || return 0
	local name
	for name in "${chosen[@]}"; do
		[[ $1 =~ runs/evidence/$name([\ /.\'\"]|$) ]] && return 0
	done
	return 1
}

# shortened COMMAND prints it with a few updates: the last of two equal flags wins.
shortened() {
	local c=$1
	case $c in
	"hippo task run "*) c+=' --epochs 1 --time 200ms --clock wall --eval_limit 5' ;;
	"hippo task table "*) c+=' --seeds 1 --set epochs=1 --set time=200ms --set eval_limit=5 --jobs 0' ;;
	"hippo compare "*) c+=' --time 300ms --seeds 1' ;;
	"hippo bench "*) c+=' --shrink 32 --rounds 1 --seconds 0' ;;
	"hippo train "*) c+=' --train.steps 2 --train.sample_every 0 --valid_fraction 0.005' ;;
	*"hippo forecast "*) # in loops: the first item of each
		c=$(sed -E 's/(for [a-z]+ in [^ ;]+)[^;]*;/\1;/g; s/--rows [0-9]+//; s/--split [0-9,]+/--split 900,100,100/
			s/hippo forecast/& --time 200ms --epochs 1 --model.d_model 8 --eval_limit 5/' <<<"$c") ;;
	esac
	# Tasks with much data of their own get less.
	c=${c/ smnist / \'smnist(valid=50)\' }
	c=${c/ listops / \'listops(train=100,valid=20,test=20)\' }
	echo "$c"
}

if [[ $short ]]; then
	mkdir -p "$tmp/runs/data"
	[[ ! -d $data ]] || for folder in "$data"/*/; do ln -s "${folder%/}" "$tmp/runs/data/"; done
	go run ./tools/evidence -made-up "$tmp/runs/data"
	cd "$tmp"
fi
mkdir -p runs/evidence docs
[[ -e runs/data ]] || ln -s "$data" runs/data

# hippo is the program as the page calls it. What another process is doing, here or on a machine that shares runs/evidence, is left to it.
hippo() {
	local ended=0
	"$hippo" "$@" 2>"$tmp/said" || ended=$?
	cat "$tmp/said" >&2
	((ended)) || return 0
	if grep -q ' is in use by process ' "$tmp/said"; then held=yes; else failed=yes; fi
}

machine="$("$hippo" version | sed 's/.*, \(.*\) kernels/\1/'), $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo 2>/dev/null | head -n 1), 1 of $(nproc) cores"
n=0
while IFS= read -r command; do
	wanted "$command" || continue
	[[ ! $short ]] || command=$(shortened "$command")
	n=$((n + 1)) from=$SECONDS
	echo "\$ $command"
	failed='' held=''
	eval "$command" </dev/null >"$tmp/log" 2>&1 || [[ $held ]] || failed=yes
	if [[ $failed ]]; then
		cat "$tmp/log"
		echo "FAILED: $command"
		exit 1
	fi
	if [[ $command =~ \>\ (.*\.jsonl)$ ]]; then # store where it was measured, with the measurements
		printf '{"bench":"origin","commit":"%s","date":"%s","machine":"%s"}\n' "$(git -C "$root" rev-parse HEAD)" \
			"$(date -u +%FT%TZ)" "$machine" >>"${BASH_REMATCH[1]}"
	fi
	tail -n 2 "$tmp/log"
	echo "   $((SECONDS - from)) s"
done < <(commands)
((n)) || {
	echo "no command of $page writes runs/evidence/${chosen[*]}"
	exit 1
}
if [[ $short ]]; then
	echo "$n commands of the page ran"
else
	(cd "$root" && go run ./tools/evidence runs/evidence)
fi
