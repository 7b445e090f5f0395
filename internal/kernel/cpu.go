package kernel

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"

	x86 "golang.org/x/sys/cpu"
)

// level is a set of processor features that kernels are written for. Each level has all that lower ones have; a kernel
// without code for a level uses the one below, at the bottom the portable one. Levels may round differently. At one
// level, results are the same on every machine that has it.
type level int

const (
	generic    level = iota // portable Go
	avx2                    // AVX2 and FMA
	avx512                  // AVX-512 F, BW, DQ and VL
	avx512bf16              // the same with BF16 and VNNI
)

var levelNames = []string{generic: "generic", avx2: "avx2", avx512: "avx512", avx512bf16: "avx512bf16"}

func (l level) String() string { return levelNames[l] }

// cpu is the level in use. It changes in tests only. errCPU says what was wrong with the level that was requested.
var cpu, errCPU = choose(os.Getenv("HIPPO_CPU"), machineLevels())

// CPULevel returns the name of the level of processor features that kernels use: the highest that the machine has, or
// the one that the environment variable HIPPO_CPU names. If the machine lacks that level, or no such level exists, the
// level is generic and the error lists the levels of the machine.
func CPULevel() (string, error) { return cpu.String(), errCPU }

// choose returns the level to use on a machine with the levels has, in ascending order. forced is the name of the level
// that the user requests, or empty.
func choose(forced string, has []level) (level, error) {
	if forced == "" {
		return has[len(has)-1], nil
	}
	var names []string
	for _, l := range has {
		if l.String() == forced {
			return l, nil
		}
		names = append(names, l.String())
	}
	found := "which this machine lacks"
	if !slices.Contains(levelNames, forced) {
		found = "which is none of " + strings.Join(levelNames, ", ")
	}
	return generic, fmt.Errorf("HIPPO_CPU is %q, %s: want one of those it has: %s", forced,
		found, strings.Join(names, ", "))
}

// machineLevels returns the levels that processor and operating system support and that there is code for, in ascending
// order.
func machineLevels() []level {
	has := []level{generic}
	f := &x86.X86
	if runtime.GOARCH != "amd64" || !f.HasAVX2 || !f.HasFMA || !f.HasBMI2 {
		return has
	}
	has = append(has, avx2)
	if !f.HasAVX512F || !f.HasAVX512BW || !f.HasAVX512DQ || !f.HasAVX512VL {
		return has
	}
	has = append(has, avx512)
	if f.HasAVX512BF16 && f.HasAVX512VNNI {
		has = append(has, avx512bf16)
	}
	return has
}
