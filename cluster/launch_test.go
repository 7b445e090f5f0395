package cluster

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"strings"
	"testing"
	"time"
)

// TestLaunched checks that each launcher's variables give the rank, the number of processes and the meeting place.
// Variables that disagree, and a rank without a number of processes, are errors that name the variables.
func TestLaunched(t *testing.T) {
	for _, c := range []struct {
		environment string
		members     int
		want        Launch
		err         string
	}{
		{"", 0, Launch{}, ""},
		{"", 4, Launch{}, ""},
		{"SLURM_PROCID=1 SLURM_STEP_NUM_TASKS=2 SLURM_STEP_NODELIST=n[07-09,12],m1 SLURM_JOB_ID=5", 0,
			Launch{"SLURM_PROCID", 1, 2, "n07:7700", "5", ""}, ""},
		{"SLURM_PROCID=0 SLURM_NTASKS=2 SLURM_JOB_ID=5", 0, Launch{}, ""}, // a batch script
		{"OMPI_COMM_WORLD_RANK=3 OMPI_COMM_WORLD_SIZE=4 PMIX_NAMESPACE=a.1 PMIX_RANK=3", 0,
			Launch{"OMPI_COMM_WORLD_RANK", 3, 4, "", "a.1", OpenMPI}, ""},
		{"PMI_RANK=0 PMI_SIZE=4", 0, Launch{"PMI_RANK", 0, 4, "", "", MPICH}, ""},
		{"PALS_RANKID=2 PMI_RANK=2 PMI_SIZE=4", 0, Launch{"PMI_RANK", 2, 4, "", "", MPICH}, ""},
		{"RANK=1 WORLD_SIZE=2 MASTER_ADDR=fe80::1 MASTER_PORT=99", 0, Launch{"RANK", 1, 2, "[fe80::1]:99", "", ""}, ""},
		{"SLURM_PROCID=1 SLURM_STEP_NUM_TASKS=2 PMIX_RANK=1", 0, Launch{"SLURM_PROCID", 1, 2, "", "", OpenMPI}, ""},
		{"RANK=1", 0, Launch{}, ""},
		{"JOB_COMPLETION_INDEX=1 MASTER_ADDR=job-0.svc", 3,
			Launch{"JOB_COMPLETION_INDEX", 1, 3, "job-0.svc:7700", "", ""}, ""},
		{"AWS_BATCH_JOB_NODE_INDEX=1 AWS_BATCH_JOB_NUM_NODES=2 " +
			"AWS_BATCH_JOB_MAIN_NODE_PRIVATE_IPV4_ADDRESS=10.0.0.7", 0,
			Launch{"AWS_BATCH_JOB_NODE_INDEX", 1, 2, "10.0.0.7:7700", "", ""}, ""},
		{"JOB_COMPLETION_INDEX=1", 0, Launch{}, "JOB_COMPLETION_INDEX=1, and no number of processes"},
		{"OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=4 RANK=0 WORLD_SIZE=1", 0, Launch{},
			"OMPI_COMM_WORLD_SIZE=4 and WORLD_SIZE=1"},
		// mpirun in a Slurm job, where srun has started its helper on the second node.
		{"SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=1 SLURM_STEP_NODELIST=n2 SLURM_JOB_NODELIST=n[1-2] " +
			"OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2", 0,
			Launch{"OMPI_COMM_WORLD_RANK", 1, 2, "n1:7700", "", OpenMPI}, ""},
		{"SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=1 PMI_RANK=1 PMI_SIZE=2 MPI_LOCALRANKID=0", 0,
			Launch{"PMI_RANK", 1, 2, "", "", MPICH}, ""},
		{"SLURM_PROCID=1 SLURM_STEP_NUM_TASKS=2 OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=1", 0, Launch{},
			"SLURM_STEP_NUM_TASKS=2 and OMPI_COMM_WORLD_SIZE=1, want no more"},
		{"SLURM_PROCID=1 SLURM_STEP_NUM_TASKS=2 PMI_RANK=0 PMI_SIZE=2", 0, Launch{},
			"SLURM_PROCID=1 and PMI_RANK=0"},
		{"OMPI_COMM_WORLD_RANK=3", 0, Launch{}, "OMPI_COMM_WORLD_RANK=3, and no number of processes"},
		{"SLURM_PROCID=1 SLURM_STEP_NUM_TASKS=2 RANK=1 WORLD_SIZE=4", 0, Launch{},
			"SLURM_STEP_NUM_TASKS=2 and WORLD_SIZE=4"},
		{"PMI_RANK=0 PMI_SIZE=4", 3, Launch{}, "--members=3 and PMI_SIZE=4"},
		{"PMI_RANK=4 PMI_SIZE=4", 0, Launch{}, "want a rank below"},
		{"PMI_RANK=x PMI_SIZE=4", 0, Launch{}, `PMI_RANK: found "x"`},
		{"PMIX_RANK=0", 0, Launch{}, "PMIX_RANK=0, and no variable"},
	} {
		env := map[string]string{}
		for _, v := range strings.Fields(c.environment) {
			name, value, _ := strings.Cut(v, "=")
			env[name] = value
		}
		got, err := Launched(func(name string) string { return env[name] }, c.members)
		if c.err != "" {
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%s: found %v, want %q", c.environment, err, c.err)
			}
			continue
		}
		if err != nil || got != c.want {
			t.Errorf("%s: found %+v, %v, want %+v", c.environment, got, err, c.want)
		}
	}
}

func TestFirstHost(t *testing.T) {
	for list, want := range map[string]string{
		"n1": "n1", "n1,n2": "n1", "n[1-3]": "n1", "n[01,03-05]-ib,m2": "n01-ib", "a,n[1-2]": "a",
		"x[1-2]y[3,4]z": "x1y3z", "": "", "n[": "n", "[": "",
	} {
		if got := firstHost(list); got != want {
			t.Errorf("%s: found %q, want %q", list, got, want)
		}
	}
}

// TestMeeting checks that members find a leader by a file that only their user can read, even if an old file is there
// or the leader starts late.
func TestMeeting(t *testing.T) {
	dir := t.TempDir()
	if _, err := Invite(dir, "job/7", Meeting{Addresses: []string{"127.0.0.1:1"}, Key: NewKey()}); err != nil {
		t.Fatal(err)
	}
	if _, err := Find(dir, "another"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("another job: %v", err)
	}
	wire, _ := listen(t)
	found := make(chan error)
	go func() {
		where := func() (Meeting, error) { return Find(dir, "job/7") }
		m, err := Patiently(t.Context(), 10*time.Second, where, Greeting{})
		if err == nil {
			err = m.Close()
		}
		found <- err
	}()
	time.Sleep(20 * time.Millisecond)
	addresses := []string{"127.0.0.1:1", wire.Address().String()}
	remove, err := Invite(dir, "job/7", Meeting{Addresses: addresses, Key: wire.Key()})
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(meetingFile(dir, "job/7")); err != nil || info.Mode().Perm()&0o077 != 0 {
		t.Errorf("others may read the key: %v, %v", info.Mode(), err)
	}
	if err := <-found; err != nil {
		t.Error(err)
	}
	if err := remove(); err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	where := func() (Meeting, error) { return Find(dir, "job/7") }
	if _, err := Patiently(ctx, time.Hour, where, Greeting{}); !errors.Is(err, context.Canceled) {
		t.Errorf("stopped: %v", err)
	}
	if _, err := Patiently(t.Context(), 0, where, Greeting{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without a leader: %v", err)
	}
	wrong := func() (Meeting, error) {
		return Meeting{Addresses: []string{wire.Address().String()}, Key: NewKey(), Given: true}, nil
	}
	if _, err := Patiently(t.Context(), time.Hour, wrong, Greeting{}); !errors.Is(err, ErrKey) {
		t.Errorf("a wrong key: %v", err)
	}
}

// TestShares checks that share gives away all shards, that every member gets a run, that faster members get longer
// runs, and that runs have few nodes.
func TestShares(t *testing.T) {
	for _, c := range []struct {
		shards int
		speeds []float64
		want   []int
	}{
		{16, []float64{1}, []int{16}}, {16, []float64{1, 1}, []int{8, 8}}, {16, []float64{2, 1}, []int{11, 5}},
		{4, []float64{1e9, 1, 1, 1}, []int{1, 1, 1, 1}}, {256, []float64{1.1, 1}, []int{128, 128}},
		{3, []float64{1, 1}, []int{2, 1}},
		{5, []float64{1, 1000}, []int{1, 4}},
	} {
		got := share(c.shards, c.speeds)
		total := 0
		for i, n := range got {
			if total += n; n != c.want[i] {
				t.Errorf("%d shards at the speeds %v: found runs of %v, want %v", c.shards, c.speeds, got, c.want)
				break
			}
		}
		if total != c.shards {
			t.Errorf("%d shards: found runs of %v", c.shards, got)
		}
	}
}
