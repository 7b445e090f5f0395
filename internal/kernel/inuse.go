package kernel

import (
	"fmt"
	"strings"
)

// manyQueries is the work for which only some levels have their own code.
const manyQueries = "attention over int8, of 8 queries and more"

// work is the work of some kernels. One of them tells the code; those of products have shapes.
type work struct {
	name, kernel string
	shape        func(l level) string // the size of the piece computed at a time; nil if it is not reported
}

var works = []work{
	{"products float32", "gemm", level.tileShape},
	{"products bf16", "gemmTiles", func(level) string { return ", tiles of 32x32" }},
	{"products int8", "packedInt8", func(l level) string { return l.groupShape(Int8) }},
	{"products int4", "packedInt4", func(l level) string { return l.groupShape(Int4) }},
	{"attention over int8", "tileDots", nil},
	{manyQueries, "manyDots", nil},
	{"attention", "rowDots", nil},
	{"long convolution", "middle", nil},
	{"selective scan", "scan", nil},
	{"SSD", "ssdStep", nil},
	{"delta rule", "deltaStep", nil},
	{"norms", "layerNorm", nil},
	{"softmax", "softmaxExp", nil},
	{"exp, sigmoid, GELU", "gelu", nil},
}

// instructions names the instructions of the code for each feature.
var instructions = map[level]string{
	generic:      "portable Go",
	avx2:         "AVX2",
	avx512:       "AVX-512",
	avx512bf16:   "VDPBF16PS of AVX-512 BF16",
	avx512vnni:   "VPDPBUSD of AVX-512 VNNI, 512 bits",
	avx512vnnivl: "VPDPBUSD of AVX-512 VNNI, 256 bits",
	avxvnni:      "VPDPBUSD of AVX-VNNI, 256 bits",
	amxint8:      "TDPBSUD and TDPBUSD of AMX-INT8",
	amxbf16:      "TDPBF16PS of AMX-BF16",
	neon:         "NEON",
	dotprod:      "SDOT of FEAT_DotProd",
	i8mm:         "USDOT of FEAT_I8MM",
}

func (l level) tileShape() string { return fmt.Sprintf(", tiles of %dx%d", l.height(), l.panel()) }
func (l level) groupShape(p Precision) string {
	return fmt.Sprintf(", %d rows at a time", l.groupRows(p))
}

// code returns the feature whose code a kernel runs: the first that the level has, as in dispatch_amd64.s and
// dispatch_arm64.s.
func (l level) code(kernel string) level {
	for _, feature := range codes[kernel] {
		if l.has(feature) {
			return feature
		}
	}
	return generic
}

// InUse describes which code computes what at the level in use, one line for all work with the same code: "products
// int8, products int4: VPDPBUSD of AVX-512 VNNI, 512 bits, 8 rows at a time".
func InUse() []string { return cpu.inUse() }

func (l level) inUse() (lines []string) {
	last := ""
	for _, w := range works {
		if w.kernel == "gemmTiles" && !l.has(gemmTilesCode) {
			w.kernel, w.shape = "gemmPairs", level.tileShape
		}
		feature := l.code(w.kernel)
		code := instructions[feature]
		switch {
		case feature == generic && w.name == manyQueries:
			continue
		case l != generic && feature == generic && w.kernel == "gemmPairs": // GemmBF16, without VDPBF16PS
			code = "rounded, then as float32"
		case feature != generic && w.shape != nil:
			code += w.shape(l)
		}
		if code == last {
			end := len(lines) - 1
			works, _, _ := strings.Cut(lines[end], ": ")
			lines[end] = works + ", " + w.name + ": " + code
			continue
		}
		lines, last = append(lines, w.name+": "+code), code
	}
	return lines
}
