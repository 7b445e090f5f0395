//go:build unix && !gpu

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestAnotherProgramComputes: asked for a graphics card, the program runs the hippo-gpu beside it with its own
// arguments and its standard input, and ends with its status. Without one it says how to get it.
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
	script := "#!/bin/sh\necho \"$@\" >'" + told + "'\ncat >'" + told + ".in'\nexit 3\n"
	if err := os.WriteFile(other, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	defer os.Remove(other)
	prompt := filepath.Join(t.TempDir(), "prompt")
	if err := os.WriteFile(prompt, []byte("The whale"), 0o600); err != nil {
		t.Fatal(err)
	}
	before := os.Stdin
	defer func() { os.Stdin = before }()
	for _, command := range []string{"generate", "run"} {
		if os.Stdin, err = os.Open(prompt); err != nil {
			t.Fatal(err)
		}
		defer os.Stdin.Close()
		status := run([]string{command, t.TempDir(), "--device", "gpu"})
		if got, err := os.ReadFile(told + ".in"); status != 3 || string(got) != "The whale" {
			t.Errorf("%s: status %d, and the other program was given %q (%v), want 3 and the prompt", command, status,
				got, err)
		}
	}
	_, err = openDevice(1)
	if status, ok := exitStatus(err); !ok || status != 3 {
		t.Errorf("found the error %v, want status 3", err)
	}
	got, err := os.ReadFile(told)
	if want := strings.Join(os.Args[1:], " "); err != nil || strings.TrimSpace(string(got)) != want {
		t.Errorf("it got the arguments %q (%v), want %q", got, err, want)
	}
}
