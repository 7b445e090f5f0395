#!/usr/bin/env bash
# Measures a cluster between network namespaces with a limited rate: bash bench/cluster.sh OUT [RATE], as root
# It appends rows of hippo bench cluster to OUT, which measure:
#
#  - exchanges between two processes in namespaces of their own, with the given network rate (1gbit), by TLS and, if
#    Open MPI is installed, by MPI;
#  - members in one process;
#  - training by two processes of one core each at several rates, compared with the prediction of --dry-run --machines 2
#    on the slower core, before and after it;
#  - two processes that score a file, compared with one.
#
# The script needs Go, tc, two cores and, for MPI, openmpi-bin. HIPPO and HIPPO_MPI name existing programs to use.
set -euo pipefail
if [[ ${1-} != inside ]]; then
	out=$(realpath "$1")
	cd "$(dirname "$0")/.."
	tmp=$(mktemp -d)
	trap 'rm -rf "$tmp"' EXIT
	CGO_ENABLED=0
	export CGO_ENABLED
	[[ -n ${HIPPO-} ]] && cp "$HIPPO" "$tmp/hippo" || go build -o "$tmp/hippo" ./cmd/hippo
	if command -v mpirun.openmpi >"$tmp/found"; then
		[[ -n ${HIPPO_MPI-} ]] && cp "$HIPPO_MPI" "$tmp/hippo-mpi" || go build -tags mpi -o "$tmp/hippo-mpi" ./cmd/hippo
	fi
	cp bench/cluster.sh "$tmp/script"
	cd "$tmp"
	unset HIPPO HIPPO_MPI # they are not settings of the program
	unshare --mount --net --uts --ipc --pid --fork --mount-proc --kill-child bash ./script inside "$out" "${2-1gbit}"
	exit
fi
out=$2 rate=$3
mount -t tmpfs run /run
ip link set lo up
ip link add network type bridge
ip address add 10.0.0.1/24 dev network
ip link set network up
for i in 1 2; do
	ip netns add "m$i"
	ip link add "m$i" type veth peer name net netns "m$i"
	ip link set "m$i" master network up
	ip -n "m$i" address add "10.0.0.1$i/24" dev net
	ip -n "m$i" link set net up
	ip -n "m$i" link set lo up
	ip netns exec "m$i" tc qdisc add dev net root tbf rate "$rate" burst 128kb latency 50ms
	echo "10.0.0.1$i m$i"
done >hosts
echo '127.0.0.1 localhost node' >>hosts
mount --bind hosts /etc/hosts
hostname node
options=(bench cluster --threads 2 --json --network "${rate/gbit/Gbit}")
HIPPO_JOIN_KEY=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
export HIPPO_JOIN_KEY WORLD_SIZE=2 MASTER_ADDR=10.0.0.11
RANK=1 ip netns exec m2 "$PWD/hippo" "${options[@]}" &
RANK=0 ip netns exec m1 "$PWD/hippo" "${options[@]}" >>"$out"
wait
unset WORLD_SIZE MASTER_ADDR HIPPO_JOIN_KEY
if [[ -x hippo-mpi ]]; then
	cat >remotely <<-'END'
		#!/usr/bin/env bash
		host=$1
		shift
		exec ip netns exec "$host" unshare --uts bash -c "hostname $host; $*"
	END
	chmod +x remotely
	export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_mpi_yield_when_idle=1 OMPI_MCA_rmaps_base_oversubscribe=1
	mpirun.openmpi --bind-to none --mca plm rsh --mca plm_rsh_agent "$PWD/remotely" --mca oob_tcp_if_include 10.0.0.0/24 \
		--mca btl_tcp_if_include 10.0.0.0/24 --mca btl self,tcp --host m1,m2 -np 2 "$PWD/hippo-mpi" "${options[@]}" >>"$out"
fi
./hippo bench cluster --threads 2 --json >>"$out"

# promised PRESET NETWORK prints the predicted seconds of a step on the slower core. Both cores are measured at the same
# time.
export GOMAXPROCS=1
settings=(--train.shards 4 --train.log_every 1 --train.eval_every 1000000)
promised() {
	for core in 0 1; do
		taskset -c "$core" ./hippo train --preset "$1" "${settings[@]}" --dry-run --machines 2 --network "$2" >"promise$core" 2>promise.log &
	done
	wait
	sed -n 's/^ *\([0-9.e-]*\) s a step, of it .*/\1/p' promise0 promise1 | sort -g | tail -n 1
}
while read -r preset network steps; do
	for i in 1 2; do
		ip netns exec "m$i" tc qdisc change dev net root tbf rate "${network,,}" burst 128kb latency 50ms
	done
	promised "$preset" "$network" >promises
	rm -rf run1 run2
	HIPPO_JOIN_KEY=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
	export HIPPO_JOIN_KEY WORLD_SIZE=2 MASTER_ADDR=10.0.0.11
	for i in 2 1; do
		RANK=$((i - 1)) taskset -c $((i - 1)) ip netns exec "m$i" "$PWD/hippo" train --preset "$preset" "${settings[@]}" \
			--train.steps "$steps" --train.sample_every 0 --out "run$i" >"run$i.log" 2>&1 &
	done
	wait
	unset WORLD_SIZE MASTER_ADDR HIPPO_JOIN_KEY
	[[ -f run1/metrics.jsonl ]] || { cat run1.log run2.log >&2 && exit 1; }
	promised "$preset" "$network" >>promises
	sed -n 's/.*"step":\([0-9]*\),"loss".*"elapsed_s":\([0-9.e-]*\).*/\1 \2/p' run1/metrics.jsonl >steps
	awk -v preset="$preset" -v network="$network" '
		FILENAME == "promises" { promised += $1; promises++; next }
		{ step = $1; at = $2 }
		!first { first = step; began = at }
		END {
			took = (at - began) / (step - first); promised /= promises
			printf "{\"peer\":\"hippo\",\"bench\":\"cluster\",\"mode\":\"promise\",\"preset\":\"%s\",\"network\":\"%s\",", preset, network
			printf "\"steps\":%d,\"promised_s\":%.3g,\"step_s\":%.3g,\"took\":%.2f}\n", step, promised, took, took / promised
		}' promises steps >>"$out"
done <<-END
	tiny 20Mbit 20
	tiny 100Mbit 40
	tiny 1Gbit 80
	small 100Mbit 12
	small 1Gbit 12
END

# Score the parts of a file with two processes of one core each. Before and after that, score the whole file with one
# process, on one core and then on the other. Measure the seconds of each.
for line in $(seq 3000); do
	echo "{\"text\": \"line $line of a file whose lines all have much the same length, so that its parts take as long\"}"
done >lines.jsonl
score() { taskset -c "$1" ./hippo score lines.jsonl --model run1 "${@:2}" >score.log 2>&1; }
seconds() { awk -v began="$1" -v ended="$EPOCHREALTIME" 'BEGIN { print ended - began }'; }
alone() {
	local began=$EPOCHREALTIME
	score "$1" -o "$2"
	seconds "$began"
}
before=$(alone 0 one.jsonl)
began=$EPOCHREALTIME
score 1 -o b.jsonl --shard 2/2 &
score 0 -o a.jsonl --shard 1/2
wait
two=$(seconds "$began")
after=$(alone 1 again.jsonl)
same=different
cat a.jsonl b.jsonl | cmp -s - one.jsonl && same=same
awk -v a="$before" -v b="$after" -v two="$two" -v same="$same" 'BEGIN {
	one = (a + b) / 2
	printf "{\"peer\":\"hippo\",\"bench\":\"cluster\",\"mode\":\"score\",\"one_s\":%.3g,\"two_s\":%.3g,\"times\":%.2f,\"results\":\"%s\"}\n",
		one, two, one / two, same
}' >>"$out"
