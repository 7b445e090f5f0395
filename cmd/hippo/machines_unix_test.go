//go:build unix

package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// TestMachines checks that a run that a second process joins, and a third that is killed, writes the same files as one
// process alone. SIGTERM saves a checkpoint and ends all processes with the status that asks to start them again.
// Resumed by two processes of a launcher, of which only the second gets SIGTERM, the run ends with the same files.
func TestMachines(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := setUp(dir); err != nil {
		t.Fatal(err)
	}
	settings := []string{"train", "--config", "tiny.yaml", "--train.steps", "400", "--train.save_every", "1000",
		"--train.eval_every", "100", "--train.shards", "6", "--train.batch_size", "1"}
	if out, err := command(dir, append(settings, "--out", "alone")...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	says := func(p *process, text string) func() bool {
		return func() bool { return strings.Contains(p.said.String(), text) }
	}

	leader := background(t, dir, append(settings, "--out", "run", "--listen", "127.0.0.1:0")...)
	leader.waitFor("the key", says(leader, "--key"))
	line := regexp.MustCompile(`hippo (join \S+ --key \S+)\n`).FindStringSubmatch(leader.said.String())
	if line == nil {
		t.Fatalf("it said no command:\n%s", &leader.said)
	}
	leader.signal(syscall.SIGSTOP) // so that it does not end before the others have joined
	first := background(t, dir, strings.Fields(line[1])...)
	second := background(t, dir, strings.Fields(line[1])...)
	leader.signal(syscall.SIGCONT)
	waitFor(t, "both to take part", func() bool {
		return says(first, "takes part")() && says(second, "takes part")()
	}, leader, first, second)
	first.signal(syscall.SIGKILL)
	waitFor(t, "the loss of one", says(leader, " gone at step "), leader, second)
	leader.signal(syscall.SIGTERM)
	log := leader.wantEnd(75)
	if !strings.Contains(log, "interrupted at step ") {
		t.Errorf("it said\n%s", log)
	}
	waitFor(t, "the other to wait", says(second, "waiting 2m"), second)
	second.signal(syscall.SIGTERM)
	second.wantEnd(75)

	var all []*process
	for _, rank := range []string{"0", "1"} {
		cmd := command(dir, "train", "--resume", "run")
		cmd.Env = append(cmd.Env, "OMPI_COMM_WORLD_SIZE=2", "OMPI_COMM_WORLD_RANK="+rank)
		all = append(all, start(t, cmd))
	}
	waitFor(t, "the other to take part", says(all[1], "takes part"), all[1])
	// A follower leaves the reaction to the leader. Sending the signal fails if the run has already ended.
	_ = all[1].cmd.Process.Signal(syscall.SIGTERM)
	for _, p := range all {
		p.wantEnd(0)
	}
	for _, name := range []string{"last/model.safetensors", "last/optimizer.safetensors", "best/model.safetensors"} {
		sameFile(t, filepath.Join(dir, "run", name), filepath.Join(dir, "alone", name))
	}
	if got, want := losses(t, filepath.Join(dir, "run")), losses(t, filepath.Join(dir, "alone")); got != want {
		t.Errorf("the curve is\n%s\nwant\n%s", got, want)
	}
	if _, err := os.Stat(filepath.Join(dir, "run", ".meet")); err == nil {
		t.Error("the file with the key is left behind")
	}
}

// TestInterruptedRound checks that Ctrl-C within a round of islands in which others take part reports at once how much
// of the round is left. A second Ctrl-C ends the program, and the run can be resumed from its last checkpoint.
func TestInterruptedRound(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := setUp(dir); err != nil {
		t.Fatal(err)
	}
	settings := []string{"train", "--config", "tiny.yaml", "--train.shards", "2", "--train.islands", "2",
		"--train.every", "3", "--train.batch_size", "1", "--out", "run"}
	if out, err := command(dir, settings...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var all []*process
	for _, rank := range []string{"0", "1"} {
		cmd := command(dir, "train", "--resume", "run", "--train.steps", "100000", "--train.every", "50000")
		cmd.Env = append(cmd.Env, "WORLD_SIZE=2", "RANK="+rank)
		all = append(all, start(t, cmd))
	}
	takesPart := func() bool { return strings.Contains(all[1].said.String(), "takes part") }
	waitFor(t, "the other to take part", takesPart, all...)
	leader := all[0]
	leader.signal(syscall.SIGINT)
	said := regexp.MustCompile(`interrupted: the round of islands ends first, as others take part: \d{5} updates are ` +
		`left here\. Ctrl-C again stops now: the last checkpoint is of step 6\n`)
	leader.waitFor("its answer", func() bool { return said.MatchString(leader.said.String()) })
	if leader.hasEnded() {
		t.Errorf("it has ended:\n%s", &leader.said)
	}
	leader.signal(syscall.SIGINT)
	leader.wantEnd(130)
	all[1].signal(syscall.SIGKILL)
	out, err := command(dir, "train", "--resume", "run", "--train.steps", "9", "--train.every", "3").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "resuming from step 6") {
		t.Errorf("%v\n%s", err, out)
	}
}
