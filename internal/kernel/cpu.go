package kernel

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"

	features "golang.org/x/sys/cpu"
)

// level is a set of processor features for which kernels are written, one bit each. A kernel names the feature that it
// needs, and is used if the level has that feature; a kernel without code for any feature of a level is the portable
// one. Levels may round differently. At one level, results are the same on every machine that has it.
type level uint16

// The features. Each implies everything that is needed to use it: levels with AVX-512 have AVX2, too. Those of amd64
// are in the first byte, where the choice between kernels looks for them.
const (
	avx2         level = 1 << iota // AVX2, FMA and BMI2
	avx512                         // AVX-512 F, BW, DQ and VL
	avx512bf16                     // AVX-512 BF16, with those
	avx512vnni                     // AVX-512 VNNI, with those: on vectors of 512 bits
	avx512vnnivl                   // the same on vectors of 256 bits
	avxvnni                        // AVX-VNNI: on vectors of 256 bits
	amxint8                        // AMX-INT8, with AVX-512 VNNI: on tiles
	amxbf16                        // AMX-BF16, with AVX-512 BF16: the same

	generic level = 0 // portable Go
)

const (
	neon    level = 1 << (8 + iota) // Advanced SIMD of arm64
	dotprod                         // FEAT_DotProd: sums of four products of bytes
	i8mm                            // FEAT_I8MM: products of matrices of bytes, and of signed by unsigned ones
	armbf16                         // FEAT_BF16

	noCode level = 1 << 15 // no level has it: see the constants of dispatch_arm64.go
)

// levels lists all levels by name, from the lowest of each architecture. If a name occurs twice, one machine may have
// both: kernels then compute the same by other encodings of the same instructions, and the first is used.
var levels = []struct {
	name string
	level
}{
	{"generic", generic},
	{"avx2", avx2},
	{"avx2+vnni", avx2 | avxvnni},
	{"avx2+vnni", avx2 | avx512vnnivl},
	{"avx512", avx2 | avx512},
	{"avx512+bf16", avx2 | avx512 | avx512bf16},
	{"avx512+vnni", avx2 | avx512 | avx512vnni},
	{"avx512bf16", avx2 | avx512 | avx512bf16 | avx512vnni},
	{"avx512bf16+amx", avx2 | avx512 | avx512bf16 | avx512vnni | amxint8 | amxbf16},
	{"neon", neon},
	{"neon+dotprod", neon | dotprod},
	{"neon+i8mm+bf16", neon | dotprod | i8mm | armbf16},
}

func (l level) String() string {
	for _, known := range levels {
		if known.level == l {
			return known.name
		}
	}
	return fmt.Sprintf("level(%#x)", uint16(l))
}

// has reports whether the level has a feature.
func (l level) has(feature level) bool { return l&feature == feature }

// narrow reports whether the longest vectors have at most 256 bits.
func (l level) narrow() bool { return l != generic && !l.has(avx512) }

// cpu is the level in use. It changes in tests, and by Use before anything is computed. errCPU tells what was wrong
// with the level that was requested.
var cpu, errCPU = choose(os.Getenv("HIPPO_CPU"), machineLevels())

// CPULevel returns the name of the level of processor features that kernels use: the highest that the machine has, or
// the one that the environment variable HIPPO_CPU names. If the machine lacks that level, or no such level exists, the
// level is generic and the error lists the levels of the machine.
func CPULevel() (string, error) { return cpu.String(), errCPU }

// ofIntegers lists features that change no bit of a result: they are for products of integers, which are exact, and
// products of bf16 on arm64 are computed without armbf16.
const ofIntegers = avx512vnni | avx512vnnivl | avxvnni | amxint8 | dotprod | i8mm | armbf16

// Rounding returns the name of the lowest level whose results, with products in float32 and in p, are bit for bit those
// of the level in use.
func Rounding(p Precision) string { return cpu.rounding(p) }

func (l level) rounding(p Precision) string {
	same := ofIntegers
	if p != BF16 {
		same |= amxbf16
	}
	for _, known := range levels {
		if known.level&^same == l&^same {
			return known.name
		}
	}
	return l.String()
}

// choose returns the level to use on a machine with the levels has, in the order of levels. forced is the name of the
// level that the user requests, or empty.
func choose(forced string, has []level) (level, error) {
	if forced == "" {
		return has[len(has)-1], nil
	}
	var all []string
	for _, l := range has {
		if l.String() == forced {
			return l, nil
		}
	}
	for _, l := range levels {
		all = append(all, l.name)
	}
	found := "which this machine lacks"
	if !slices.Contains(all, forced) {
		found = "which is none of " + strings.Join(slices.Compact(all), ", ")
	}
	return generic, fmt.Errorf("HIPPO_CPU is %q, %s: want one of those it has: %s", forced,
		found, strings.Join(names(has), ", "))
}

// Levels returns the names of the levels that the machine has, from the lowest.
func Levels() []string { return names(machineLevels()) }

// LevelsBelow returns the names of the levels all of whose features the level in use has, from the lowest up to the
// level in use.
func LevelsBelow() []string {
	return names(slices.DeleteFunc(machineLevels(), func(l level) bool { return !cpu.has(l) }))
}

// Use lowers the level in use to the named one, so that several machines can compute with the same level. It must be
// called before anything is computed, because some results of kernels are stored in a form that depends on the level.
func Use(name string) error {
	for _, l := range machineLevels() {
		if l.String() == name && cpu.has(l) {
			if cpu != l { // otherwise do not write, because others may be computing already
				cpu = l
			}
			return nil
		}
	}
	return fmt.Errorf("found the level %q of processor features, want one of %s", name,
		strings.Join(LevelsBelow(), ", "))
}

// names returns the names of some of levels, each once.
func names(some []level) (names []string) {
	for _, l := range some {
		names = append(names, l.String())
	}
	return slices.Compact(names)
}

// machineLevels returns the levels that the processor and the operating system support and for which there is code, in
// the order of levels.
func machineLevels() []level {
	var has []level
	own := machine()
	for _, l := range levels {
		if own.has(l.level) {
			has = append(has, l.level)
		}
	}
	return has
}

// machine returns the features of the machine.
func machine() level {
	switch runtime.GOARCH {
	case "amd64":
		return amd64Features()
	case "arm64":
		return arm64Features()
	}
	return generic
}

func amd64Features() (has level) {
	f := &features.X86
	if !f.HasAVX2 || !f.HasFMA || !f.HasBMI2 {
		return generic
	}
	has = avx2
	if f.HasAVXVNNI {
		has |= avxvnni
	}
	if !f.HasAVX512F || !f.HasAVX512BW || !f.HasAVX512DQ || !f.HasAVX512VL {
		return has
	}
	has |= avx512
	if f.HasAVX512BF16 {
		has |= avx512bf16
	}
	if f.HasAVX512VNNI {
		has |= avx512vnni | avx512vnnivl
		if f.HasAMXTile && f.HasAMXInt8 && f.HasAMXBF16 && tilesAllowed() {
			has |= amxint8 | amxbf16
		}
	}
	return has
}

// arm64Features asks the system for the features that package cpu does not know everywhere.
func arm64Features() (has level) {
	has = neon
	if features.ARM64.HasASIMDDP {
		has |= dotprod
	}
	hasI8MM, hasBF16 := systemFeatures()
	if hasI8MM {
		has |= i8mm
	}
	if hasBF16 {
		has |= armbf16
	}
	return has
}
