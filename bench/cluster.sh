#!/usr/bin/env bash
# What members of a cluster reach, between network namespaces at a rate: bash bench/cluster.sh OUT [RATE], as root
# It appends rows of hippo bench cluster to OUT: exchanges between two processes in namespaces of their own, whose networks have a rate
# (1gbit), by TLS and, where Open MPI is, by MPI; then members in one process. It needs Go, tc and, for MPI, openmpi-bin.
# HIPPO and HIPPO_MPI name programs that are built already.
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
	mpirun.openmpi --mca plm rsh --mca plm_rsh_agent "$PWD/remotely" --mca oob_tcp_if_include 10.0.0.0/24 \
		--mca btl_tcp_if_include 10.0.0.0/24 --mca btl self,tcp --host m1,m2 -np 2 "$PWD/hippo-mpi" "${options[@]}" >>"$out"
fi
./hippo bench cluster --threads 2 --json >>"$out"
