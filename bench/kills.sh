#!/usr/bin/env bash
# Tests a run while real processes are killed: bash bench/kills.sh [KILLS] [SEED]
# Three members join a run. KILLS times (10), a random member is killed, terminated or stopped, or the leader is killed
# and resumed. At the end the script compares weights and moments with those of a single process, and prints a line of
# JSON. It needs Go. HIPPO names an existing program to use.
set -euo pipefail
kills=${1:-10} seed=${2:-1}
RANDOM=$seed
cd "$(dirname "$0")/.."
tmp=$(mktemp -d)
leader='' members=()
trap 'kill -KILL $leader "${members[@]}" 2>"$tmp/ended"; rm -rf "$tmp"' EXIT
[[ -n ${HIPPO-} ]] && cp "$HIPPO" "$tmp/hippo" || go build -o "$tmp/hippo" ./cmd/hippo
unset HIPPO # it is not a setting of the program
cp README.md "$tmp/text"
: >"$tmp/leader.log" >"$tmp/members.log"
cd "$tmp"
HIPPO_JOIN_KEY=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
export HIPPO_JOIN_KEY GOMAXPROCS=1
port=$((20000 + RANDOM % 20000))
settings=(--model.d_model 32 --model.layers 'h3,mamba' --data text --train.shards 6 --train.batch_size 1 --train.seq_len 128
	--train.eval_every 1000000 --train.sample_every 0 --optim.schedule constant)
leads() {
	./hippo train "$@" --listen "127.0.0.1:$port" >>leader.log 2>&1 &
	leader=$!
	disown # so that the shell does not report its end
}
joins() {
	./hippo join "127.0.0.1:$port" --wait 5m >>members.log 2>&1 &
	members+=($!)
	disown
}
# ended PID waits until a process has ended.
ended() {
	while kill -0 "$1" 2>ended; do
		sleep 0.05
	done
}
count() { grep -c -- "$2" "$1" || true; }
# until_more FILE TEXT N waits until more than N lines of a file contain a text.
until_more() {
	for _ in {1..1200}; do
		(($(count "$1" "$2") > $3)) && return
		sleep 0.1
	done
	tail -n 20 leader.log members.log >&2
	echo "found no \"$2\" in two minutes" >&2
	exit 1
}

leads "${settings[@]}" --train.steps 1000000 --train.save_every 20 --out run
until_more leader.log 'others join by' 0
for _ in 1 2 3; do joins; done
until_more leader.log ' from step ' 2
declare -A did=([kill]=0 [end]=0 [stop]=0 [leader]=0)
for ((k = 0; k < kills; k++)); do
	sleep "$(awk -v r=$RANDOM 'BEGIN { print 0.2 + r / 32768 }')"
	what=(kill kill kill end leader stop)
	what=${what[RANDOM % 6]}
	((did[$what] += 1))
	i=$((RANDOM % ${#members[@]})) gone=$(count leader.log ' gone at step ') came=$(count leader.log ' from step ')
	case $what in
	leader)
		kill -KILL "$leader"
		ended "$leader"
		leads --resume run
		until_more leader.log ' from step ' "$((came + 2))" # all three have joined again
		continue
		;;
	kill) kill -KILL "${members[i]}" ;;
	end) kill -TERM "${members[i]}" ;;
	stop) kill -STOP "${members[i]}" ;;
	esac
	until_more leader.log ' gone at step ' "$gone"
	[[ $what != stop ]] || kill -KILL "${members[i]}"
	ended "${members[i]}"
	unset "members[i]"
	members=("${members[@]}")
	joins
	until_more leader.log ' from step ' "$came"
done
kill -TERM "$leader"
ended "$leader"
step=$(sed -n 's/.*interrupted at step \([0-9]*\).*/\1/p' leader.log | tail -n 1)
again=$(sed -n 's/.*: \([0-9]*\) shards computed again.*/\1/p' leader.log | awk '{ s += $1 } END { print s + 0 }')
./hippo train "${settings[@]}" --train.steps "$step" --train.save_every 1000000 --out alone >alone.log 2>&1
bits=same
for file in model optimizer; do
	cmp -s "run/last/$file.safetensors" "alone/last/$file.safetensors" || bits=OTHERS
done
printf '{"bench":"kills","seed":%d,"killed":%d,"ended":%d,"stopped":%d,"leaders":%d,"steps":%d,"shards_again":%d,"bits":"%s"}\n' \
	"$seed" "${did[kill]}" "${did[end]}" "${did[stop]}" "${did[leader]}" "$step" "$again" "$bits"
[[ $bits == same ]]
