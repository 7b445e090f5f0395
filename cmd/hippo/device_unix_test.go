//go:build unix && !gpu

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// TestAnotherProgramComputes checks that a request for a graphics card replaces the program by the hippo-gpu beside it,
// with the same arguments, standard input and process, so that signals reach it. Without a hippo-gpu, the error tells
// how to get one.
func TestAnotherProgramComputes(t *testing.T) {
	_, err := openDevice(-1)
	if err == nil || !strings.Contains(err.Error(), "go build -tags gpu") {
		t.Errorf("without a hippo-gpu: %v, want how to get it", err)
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	other, told := filepath.Join(filepath.Dir(program), "hippo-gpu"), filepath.Join(t.TempDir(), "told")
	script := "#!/bin/sh\necho \"$$ $@\" >'" + told + "'\ncat >'" + told + ".in'\nexit 3\n"
	if err := os.WriteFile(other, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	defer os.Remove(other)
	dir := t.TempDir()
	for _, args := range [][]string{{"generate", dir}, {"run", dir}, {"train", "--data", "-"}, {"serve", dir},
		{"fit", "-"}, {"bench", "train", "a"}} {
		args = append(args, "--device", "gpu")
		cmd := exec.Command(program, args...)
		cmd.Args[0] = "hippo" // tells TestMain which program to run
		cmd.Stdin, cmd.Dir = strings.NewReader("The whale"), dir
		out, err := cmd.CombinedOutput()
		if status := cmd.ProcessState.ExitCode(); status != 3 {
			t.Fatalf("%s: status %d (%v), want 3; it said %s", args[0], status, err, out)
		}
		in, _ := os.ReadFile(told + ".in")
		if string(in) != "The whale" {
			t.Errorf("%s: the other program was given %q, want the whole standard input", args[0], in)
		}
		got, _ := os.ReadFile(told)
		pid, said, _ := strings.Cut(strings.TrimSpace(string(got)), " ")
		if want := strings.Join(args, " "); said != want || pid != strconv.Itoa(cmd.Process.Pid) {
			t.Errorf("process %s got the arguments %q, want process %d and %q", pid, said, cmd.Process.Pid, want)
		}
	}
}
