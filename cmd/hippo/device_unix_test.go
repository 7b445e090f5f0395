//go:build unix && !gpu

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestAnotherProgramComputes: asked for a graphics card, the program runs the hippo-gpu beside it with its own
// arguments and ends with its status. Without one it says how to get it.
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
	script := "#!/bin/sh\necho \"$@\" >'" + told + "'\nexit 3\n"
	if err := os.WriteFile(other, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	defer os.Remove(other)
	_, err = openDevice(1)
	if status, ok := exitStatus(err); !ok || status != 3 {
		t.Errorf("found the error %v, want status 3", err)
	}
	got, err := os.ReadFile(told)
	if want := strings.Join(os.Args[1:], " "); err != nil || strings.TrimSpace(string(got)) != want {
		t.Errorf("it got the arguments %q (%v), want %q", got, err, want)
	}
}
