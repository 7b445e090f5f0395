package main

import (
	"fmt"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// TestWordsAreWhatTheySay checks that LLVM's assembler translates the comment behind each word to that word.
func TestWordsAreWhatTheySay(t *testing.T) {
	llvm := llvmTool("llvm-mc")
	if llvm == "" {
		t.Skip("LLVM's assembler, llvm-mc of Debian's llvm-19, is not here")
	}
	said := map[string]string{} // words by their comments
	for _, file := range generateArm(kernelsOfAMD64(t)) {
		for _, f := range file.functions {
			for _, l := range f.lines {
				if code, ok := strings.CutPrefix(l.code, "\tWORD $"); ok {
					word, what, _ := strings.Cut(code, " // ")
					said[what] = word
				}
			}
		}
	}
	var order []string
	for what := range said {
		order = append(order, what)
	}
	command := exec.Command(llvm, "-triple=aarch64", "-mattr=+neon,+dotprod,+i8mm,+bf16", "-show-encoding")
	command.Stdin = strings.NewReader(strings.Join(order, "\n"))
	out, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	encoded := regexp.MustCompile(`encoding: \[0x(..),0x(..),0x(..),0x(..)\]`).FindAllStringSubmatch(string(out), -1)
	if len(encoded) != len(order) || len(order) < 100 {
		t.Fatalf("%d of %d instructions are encoded", len(encoded), len(order))
	}
	for i, what := range order {
		if e := encoded[i]; said[what] != fmt.Sprintf("0x%s%s%s%s", e[4], e[3], e[2], e[1]) {
			t.Errorf("%s is written as %s, and is 0x%s%s%s%s", what, said[what], e[4], e[3], e[2], e[1])
		}
	}
}

// kernelsOfAMD64 returns the kernels that the files for amd64 declare.
func kernelsOfAMD64(t *testing.T) kernels {
	t.Helper()
	all, err := generateAMD64(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return all
}
