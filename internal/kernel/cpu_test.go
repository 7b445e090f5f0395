package kernel

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// atLevels runs f as a subtest at every level of this machine, from generic up. If HIPPO_CPU is set or with -short, it
// uses only generic and the level in use.
func atLevels(t *testing.T, f func(t *testing.T)) {
	has := machineLevels()
	if os.Getenv("HIPPO_CPU") != "" || testing.Short() {
		has = slices.Compact([]level{generic, cpu})
	}
	for _, l := range has {
		t.Run(l.String(), func(t *testing.T) {
			defer func(old level, pay func() bool) { cpu, pairsPay = old, pay }(cpu, pairsPay)
			cpu, pairsPay = l, func() bool { return true }
			f(t)
		})
	}
}

func TestChoose(t *testing.T) {
	old, all, arms := []level{generic}, []level{}, []level{generic}
	for _, l := range levels {
		if l.has(neon) {
			arms = append(arms, l.level)
		} else {
			all = append(all, l.level)
		}
	}
	haswell, cascade := all[:2], []level{generic, avx2, avx2 | avx512vnnivl, avx2 | avx512, avx2 | avx512 | avx512vnni}
	for _, c := range []struct {
		forced string
		has    []level
		want   level
		says   string // part of the error; none if empty
	}{
		{"", old, generic, ""},
		{"", haswell, avx2, ""},
		{"", cascade, avx2 | avx512 | avx512vnni, ""},
		{"", all, avx2 | avx512 | avx512bf16 | avx512vnni | amxint8 | amxbf16, ""},
		{"avx512bf16", all, avx2 | avx512 | avx512bf16 | avx512vnni, ""},
		{"generic", all, generic, ""},
		{"avx2", all, avx2, ""},
		{"avx2", old, generic, `HIPPO_CPU is "avx2", which this machine lacks: want one of those it has: generic`},
		{"avx2+vnni", all, avx2 | avxvnni, ""},
		{"avx2+vnni", cascade, avx2 | avx512vnnivl, ""},
		{"avx512+bf16", all, avx2 | avx512 | avx512bf16, ""},
		{"avx512bf16", cascade, generic,
			"which this machine lacks: want one of those it has: generic, avx2, avx2+vnni, avx512, avx512+vnni"},
		{"AVX2", all, generic, `HIPPO_CPU is "AVX2", which is none of generic, avx2, avx2+vnni, avx512, avx512+bf16, ` +
			`avx512+vnni, avx512bf16, avx512bf16+amx, neon, neon+dotprod, neon+i8mm+bf16: ` +
			`want one of those it has: generic, avx2, avx2+vnni, avx512, `},
		{"", arms[:2], neon, ""},
		{"", arms, neon | dotprod | i8mm | armbf16, ""},
		{"neon+dotprod", arms, neon | dotprod, ""},
		{"neon+dotprod", arms[:2], generic, "which this machine lacks: want one of those it has: generic, neon"},
		{"avx2", arms, generic,
			"which this machine lacks: want one of those it has: generic, neon, neon+dotprod, neon+i8mm+bf16"},
	} {
		got, err := choose(c.forced, c.has)
		if got != c.want {
			t.Errorf("choose(%q, %v) = %v, want %v", c.forced, c.has, got, c.want)
		}
		if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("choose(%q, %v): error %v, want %q", c.forced, c.has, err, c.says)
		}
	}
}

// TestRounding checks that levels that differ only in integer products have the same bits and so the same name, and
// that other levels and architectures do not. Products of bf16 by tiles have their own bits.
func TestRounding(t *testing.T) {
	defer func(old level) { cpu = old }(cpu)
	want := map[string]string{
		"generic": "generic", "avx2": "avx2", "avx2+vnni": "avx2", "avx512": "avx512", "avx512+vnni": "avx512",
		"avx512+bf16": "avx512+bf16", "avx512bf16": "avx512+bf16", "avx512bf16+amx": "avx512+bf16",
		"neon": "neon", "neon+dotprod": "neon", "neon+i8mm+bf16": "neon",
	}
	for _, p := range []Precision{Float32, Int8, Int4, Int4Min, BF16} {
		if p == BF16 {
			want["avx512bf16+amx"] = "avx512bf16+amx"
		}
		for _, l := range levels {
			if cpu = l.level; Rounding(p) != want[l.name] {
				t.Errorf("%s rounds %v as %s, want %q", l.name, p, Rounding(p), want[l.name])
			}
		}
	}
}

// TestCPULevel checks that the level in use is one that the machine has, and the requested one.
func TestCPULevel(t *testing.T) {
	name, err := CPULevel()
	if err != nil {
		t.Fatal(err)
	}
	if forced := os.Getenv("HIPPO_CPU"); forced != "" && name != forced {
		t.Errorf("the level is %s with HIPPO_CPU=%s", name, forced)
	}
	if !slices.ContainsFunc(machineLevels(), func(l level) bool { return l.String() == name }) {
		t.Errorf("the level is %s, which is none of %v", name, machineLevels())
	}
}
