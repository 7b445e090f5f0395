package kernel

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestInUse checks the description of each level.
func TestInUse(t *testing.T) {
	const (
		float, wide = "products float32: AVX2, tiles of 6x16; ", "products float32: AVX-512, tiles of 8x48; "
		rounded     = "products bf16: rounded, then as float32; "
		pairs       = "products bf16: VDPBF16PS of AVX-512 BF16, tiles of 8x48; "
		ints        = "products int8, products int4: "
		tiles       = "attention over int8"
		plain       = "products int8: AVX2, 8 rows at a time; products int4: AVX2, 4 rows at a time; " + tiles + ", "
		plainWide   = ints + "AVX-512, 8 rows at a time; " + tiles + ": AVX2; "
		vex         = "VPDPBUSD of AVX-VNNI, 256 bits"
		short       = "VPDPBUSD of AVX-512 VNNI, 256 bits"
		long        = "VPDPBUSD of AVX-512 VNNI, 512 bits"
		vnni        = ints + long + ", 8 rows at a time; " + tiles + ": " + long + "; "
		others      = "attention, long convolution, selective scan, SSD, delta rule, norms, softmax, " +
			"exp, sigmoid, GELU: "
	)
	narrow := func(code string) string {
		return float + rounded + ints + code + ", 4 rows at a time; " + tiles + ": " + code + "; " + others + "AVX2"
	}
	want := map[level]string{
		generic: "products float32, products bf16, products int8, products int4, " + tiles + ", " + others +
			"portable Go",
		avx2:                                    float + rounded + plain + others + "AVX2",
		avx2 | avxvnni:                          narrow(vex),
		avx2 | avx512vnnivl:                     narrow(short),
		avx2 | avx512:                           wide + rounded + plainWide + others + "AVX-512",
		avx2 | avx512 | avx512bf16:              wide + pairs + plainWide + others + "AVX-512",
		avx2 | avx512 | avx512vnni:              wide + rounded + vnni + others + "AVX-512",
		avx2 | avx512 | avx512bf16 | avx512vnni: wide + pairs + vnni + others + "AVX-512",
		avx2 | avx512 | avx512bf16 | avx512vnni | amxint8 | amxbf16: wide +
			"products bf16: TDPBF16PS of AMX-BF16, tiles of 32x32; " + vnni +
			"attention over int8, of 8 queries and more: TDPBSUD and TDPBUSD of AMX-INT8; " + others + "AVX-512",
	}
	for _, l := range levels {
		if l.has(neon) {
			continue
		}
		if got := strings.Join(l.inUse(), "; "); got != want[l.level] {
			t.Errorf("%s has\n%s\nwant\n%s", l.name, got, want[l.level])
		}
	}
}

// TestCodesAreThoseOfTheJumps checks, at every level, that the code that is reported to run is the jump target in
// dispatch_amd64.s.
func TestCodesAreThoseOfTheJumps(t *testing.T) {
	text, err := os.ReadFile("dispatch_amd64.s")
	if err != nil {
		t.Fatal(err)
	}
	word := regexp.MustCompile(`TESTB \$const_(\w+)|JEQ +(\w+)|JMP +·\w+?(AVX\w+|AMX\w+)\(SB\)|(\w+):`)
	features := map[string]level{"avx2": avx2, "avx512": avx512, "avx512bf16": avx512bf16, "avx512vnni": avx512vnni,
		"avx512vnnivl": avx512vnnivl, "avxvnni": avxvnni, "amxint8": amxint8, "amxbf16": amxbf16}
	functions := strings.Split(string(text), "\nTEXT ·vec")[1:]
	if len(functions) != len(codes) {
		t.Errorf("%d functions, want %d", len(codes), len(functions))
	}
	for _, code := range functions {
		name, body, _ := strings.Cut(code, "(")
		name = strings.ToLower(name[:1]) + name[1:]
		for _, l := range levels[1:] {
			tested, to, target := generic, "", generic
			for _, m := range word.FindAllStringSubmatch(strings.ReplaceAll(body, "\t", " "), -1) {
				switch {
				case to != "" && m[4] != to: // jumped over
				case m[1] != "":
					tested = features[m[1]]
				case m[2] != "" && !l.has(tested):
					to = m[2]
				case m[4] != "":
					to = ""
				case m[3] != "" && target == generic:
					target = features[strings.ToLower(m[3])]
				}
			}
			want := l.code(name)
			if want == generic { // it is not called
				continue
			}
			if want != target {
				t.Errorf("%s at level %s: said to run the code of %v, runs that of %v", name, l.name, want, target)
			}
		}
	}
}

// TestWorksCoverFeatures checks that code that needs more than AVX-512 belongs to one of the listed works, or prepares
// for it.
func TestWorksCoverFeatures(t *testing.T) {
	for name, features := range codes {
		special := slices.ContainsFunc(features, func(f level) bool { return f != avx2 && f != avx512 })
		products := append([]work{{kernel: "gemmPairs"}}, works[:6]...)
		listed := slices.ContainsFunc(products, func(w work) bool {
			return !slices.ContainsFunc(features, func(f level) bool { return !slices.Contains(codes[w.kernel], f) })
		})
		if special && !listed {
			t.Errorf("%s has code for %v, which no work that is listed has", name, features)
		}
	}
}
