package main

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/pass"
)

// declare adds a file with one function for each of some instruction sets, and returns the error of add.
func (ks *kernels) declare(t *testing.T, signature, contract string, isas ...isa) error {
	ctx := build.NewContext()
	for _, s := range isas {
		c := asm{ctx, s}
		c.function("sum", signature, contract)
		c.end()
	}
	file, err := ctx.Result()
	if err != nil {
		t.Fatal(err)
	}
	if err := pass.Compile.Execute(file); err != nil {
		t.Fatal(err)
	}
	return ks.add(file)
}

// TestJumpsGoToTheBestCode checks that a level that lacks the feature that code needs runs the next best code.
func TestJumpsGoToTheBestCode(t *testing.T) {
	for _, c := range []struct {
		isas []isa
		want string
	}{
		{[]isa{avx2}, "JMP ·sumAVX2(SB)"},
		{[]isa{avx2, pairs}, "TESTB $const_avx512bf16, ·cpu(SB) JEQ avx2 JMP ·sumAVX512BF16(SB) avx2: JMP ·sumAVX2(SB)"},
		{[]isa{avx512, avx2}, "TESTB $const_avx512, ·cpu(SB) JEQ avx2 JMP ·sumAVX512(SB) avx2: JMP ·sumAVX2(SB)"},
		{[]isa{avx2, vnniAVX2, vnni}, "TESTB $const_avx512vnni, ·cpu(SB) JEQ avxvnni JMP ·sumAVX512VNNI(SB) " +
			"avxvnni: TESTB $const_avxvnni, ·cpu(SB) JEQ avx2 JMP ·sumAVXVNNI(SB) avx2: JMP ·sumAVX2(SB)"},
	} {
		var ks kernels
		if err := ks.declare(t, "func(n int, x *float32) float32", "is Σ x.", c.isas...); err != nil {
			t.Fatal(err)
		}
		var text strings.Builder
		ks[0].jumps(&text, "amd64", ks[0].isas)
		_, code, _ := strings.Cut(text.String(), "$0-20\n")
		if got := strings.Join(strings.Fields(code), " "); got != c.want {
			t.Errorf("%v: the choice is\n%s\nwant\n%s", c.isas, got, c.want)
		}
	}
}

// TestVNNIIsForIntegers checks that only integer products need VNNI, so that levels that differ only in VNNI compute
// the same.
func TestVNNIIsForIntegers(t *testing.T) {
	text, err := os.ReadFile("../kernel/dispatch_amd64.s")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, code := range strings.Split(string(text), "\nTEXT ·")[1:] {
		name, _, _ := strings.Cut(code, "(")
		integers := slices.ContainsFunc(groupForms, func(f groupForm) bool { return chooser(f.name) == name }) ||
			slices.ContainsFunc(tileNames, func(tile string) bool { return chooser(tile) == name })
		if asks := strings.Contains(code, "vnni"); asks != integers {
			t.Errorf("%s: asks for VNNI: %v, multiplies integers: %v", name, asks, integers)
		}
		found++
	}
	if found == 0 {
		t.Error("no function found")
	}
}

// TestOneContractForAllInstructionSets checks that a kernel has the same contract for all instruction sets: what a
// caller relies on cannot depend on the processor.
func TestOneContractForAllInstructionSets(t *testing.T) {
	var ks kernels
	if err := ks.declare(t, "func(n int)", "does this.", avx2); err != nil {
		t.Fatal(err)
	}
	for _, other := range [][2]string{{"func(n, m int)", "does this."}, {"func(n int)", "does that."}} {
		err := ks.declare(t, other[0], other[1], avx512)
		if err == nil || !strings.Contains(err.Error(), "sumAVX512") || !strings.Contains(err.Error(), other[1]) {
			t.Errorf("%v: error %v, want one that names function and contract", other, err)
		}
	}
	if err := ks.declare(t, "func(n int)", "does this.", isa{name: "SSE"}); err == nil {
		t.Error("a function for an instruction set that is no level: no error")
	}
}
