package cluster

import (
	"fmt"
	"net"
	"strconv"
	"strings"
)

// Launch describes the launch of this process, as the launcher's variables give it.
type Launch struct {
	By         string // name of the launcher's variable for the rank; "" if there is no launcher
	Rank, Size int
	Meet       string // host:port of the leader; "" if no variable gives it
	Job        string // name of the launch; "" if no variable gives it
	MPI        string // the kind of MPI: OpenMPI or MPICH; "" if the launcher starts no MPI processes
}

// The two kinds of MPI. Launchers of the first set variables of PMIx, launchers of the second those of PMI.
const (
	OpenMPI = "Open MPI"
	MPICH   = "MPICH"
)

// DefaultPort is the leader's port if a launcher's variables name only its host.
const DefaultPort = "7700"

// Variables of srun. mpirun starts its own helpers with srun, and their processes inherit these variables.
const (
	slurmRank  = "SLURM_PROCID"
	slurmTasks = "SLURM_STEP_NUM_TASKS"
)

// mpirun reports whether this process was started by mpirun of Open MPI, MPICH or Intel MPI.
func mpirun(getenv func(string) string) bool {
	return getenv("OMPI_COMM_WORLD_RANK") != "" || getenv("MPI_LOCALRANKID") != ""
}

// launchers lists the variables of launchers: the rank, the number of processes and the job. If needsSize is true, the
// rank is ignored without the number of processes: a batch script has SLURM_PROCID outside of srun, and other programs
// may set RANK.
var launchers = []struct {
	rank, size, job string
	needsSize       bool
}{
	{slurmRank, slurmTasks, "SLURM_JOB_ID", true},
	{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "PMIX_NAMESPACE", false},
	{"PMI_RANK", "PMI_SIZE", "PMI_JOBID", false},
	{"PALS_RANKID", "PMI_SIZE", "PALS_APID", false},
	{"RANK", "WORLD_SIZE", "TORCHELASTIC_RUN_ID", true},
	{"JOB_COMPLETION_INDEX", "WORLD_SIZE", "JOB_NAME", false},
	{"AWS_BATCH_JOB_NODE_INDEX", "AWS_BATCH_JOB_NUM_NODES", "AWS_BATCH_JOB_ID", false},
}

// Launched reads the variables of launchers. members, if above 0, is the number of processes that the user gave:
// indexed Jobs of Kubernetes have no variable for it. If no launcher started the process, By is "". Variables that
// disagree are an error, and so is a rank without a number of processes.
func Launched(getenv func(string) string, members int) (Launch, error) {
	var l Launch
	var sizeBy string
	if members > 0 {
		l.Size, sizeBy = members, "--members"
	}
	nested := mpirun(getenv)
	for _, v := range launchers {
		if getenv(v.rank) == "" || v.needsSize && getenv(v.size) == "" || v.rank == slurmRank && nested {
			continue
		}
		rank, err := number(getenv, v.rank)
		if err != nil {
			return l, err
		}
		if l.By != "" && rank != l.Rank {
			return l, fmt.Errorf("found %s=%d and %s=%d, want one rank: unset those of one launcher", l.By,
				l.Rank, v.rank, rank)
		}
		if l.By == "" {
			l.By, l.Rank, l.Job = v.rank, rank, getenv(v.job)
		}
		if getenv(v.size) == "" {
			continue
		}
		size, err := number(getenv, v.size)
		if err != nil {
			return l, err
		}
		if sizeBy != "" && size != l.Size {
			return l, fmt.Errorf("found %s=%d and %s=%d, want one number of processes: unset those of one launcher",
				sizeBy, l.Size, v.size, size)
		}
		l.Size, sizeBy = size, v.size
	}
	if by := getenv("PMIX_RANK"); l.By == "" && by != "" {
		return l, fmt.Errorf("found PMIX_RANK=%s, and no variable with the number of processes, want one: start it "+
			"by srun or mpirun, or set RANK and WORLD_SIZE", by)
	}
	switch {
	case l.By == "":
		return Launch{}, nil
	case sizeBy == "":
		return l, fmt.Errorf("found %s=%d, and no number of processes, want one: set WORLD_SIZE or --members", l.By,
			l.Rank)
	case l.Size < 1 || l.Rank >= l.Size:
		return l, fmt.Errorf("found %s=%d and %s=%d, want a rank below the number of processes", l.By, l.Rank, sizeBy,
			l.Size)
	}
	if tasks, err := strconv.Atoi(getenv(slurmTasks)); err == nil && nested && tasks > l.Size {
		return l, fmt.Errorf("found %s=%d and %s=%d, want no more tasks than processes: each task of srun has started "+
			"a launch of its own", slurmTasks, tasks, sizeBy, l.Size)
	}
	l.Meet = meetingPlace(getenv, nested)
	switch {
	case getenv("OMPI_COMM_WORLD_RANK") != "":
		l.MPI = OpenMPI
	case getenv("PMI_RANK") != "" || getenv("PALS_RANKID") != "":
		l.MPI = MPICH
	case getenv("PMIX_RANK") != "":
		l.MPI = OpenMPI
	}
	return l, nil
}

func number(getenv func(string) string, name string) (int, error) {
	n, err := strconv.Atoi(getenv(name))
	if err != nil || n < 0 {
		return 0, fmt.Errorf("%s: found %q, want a number from 0", name, getenv(name))
	}
	return n, nil
}

// meetingPlace returns where the leader listens according to the variables, or "". Under mpirun, where nested is true,
// it takes the hosts of the Slurm job, as those of the srun step belong to mpirun's helpers.
func meetingPlace(getenv func(string) string, nested bool) string {
	hosts := "SLURM_STEP_NODELIST"
	if nested {
		hosts = "SLURM_JOB_NODELIST"
	}
	port := DefaultPort
	if p := getenv("MASTER_PORT"); p != "" {
		port = p
	}
	for _, host := range []string{
		getenv("MASTER_ADDR"), getenv("AWS_BATCH_JOB_MAIN_NODE_PRIVATE_IPV4_ADDRESS"),
		firstHost(getenv(hosts)),
	} {
		if host != "" {
			return net.JoinHostPort(host, port)
		}
	}
	return ""
}

// firstHost returns the first host of a list in Slurm's notation: n[01-03,7],m2 gives n01.
func firstHost(list string) string {
	var host strings.Builder
	for list != "" && list[0] != ',' {
		if list[0] == '[' {
			number := list[1:]
			number = number[:len(number)-len(strings.TrimLeft(number, "0123456789"))]
			host.WriteString(number)
			_, list, _ = strings.Cut(list, "]")
			continue
		}
		host.WriteByte(list[0])
		list = list[1:]
	}
	return host.String()
}
