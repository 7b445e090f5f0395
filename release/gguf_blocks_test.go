package release

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/checkpoint"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/nn"
)

// blockTypes lists the quantized types of GGUF, with the positions of factors in their blocks, their precision in
// Stored, and the tolerance for it, relative to the largest number of a row.
var blockTypes = []struct {
	kind    checkpoint.DType
	factors []int
	becomes engine.Precision
	off     float64
}{
	{checkpoint.Q4_0, []int{0}, engine.Int4, 0},
	{checkpoint.Q4_1, []int{0, 2}, engine.Int4Min, 0},
	{checkpoint.Q5_0, []int{0}, engine.Int8, 0},
	{checkpoint.Q8_0, []int{0}, engine.Int8, 0},
	{checkpoint.Q4_K, []int{0, 2}, engine.Int4Min, 2. / (1 << 11)}, // factor and minimum keep 11 of 17 bits
	{checkpoint.Q5_1, []int{0, 2}, engine.Int8, 0.5 / 126},         // half a step of 8 bits
	{checkpoint.Q5_K, []int{0, 2}, engine.Int8, 0.5 / 126},
	{checkpoint.Q6_K, []int{208}, engine.Int8, 0.5 / 126},
	{checkpoint.Q2_K, []int{80, 82}, engine.Int8, 0.5 / 126},
	{checkpoint.Q3_K, []int{108}, engine.Int8, 0.5 / 126},
}

// randomBlocks returns a matrix of random integers, with factors that keep the numbers near 0.
func randomBlocks(rng *rand.Rand, name string, kind checkpoint.DType, factors []int, n, k int) checkpoint.Tensor {
	elements, size := kind.Block()
	data := make([]byte, n*k/elements*size)
	for i := range data {
		data[i] = byte(rng.Uint32())
	}
	for b := 0; b < len(data); b += size {
		if kind == checkpoint.Q6_K { // factors of 16 numbers each, which differ by less than this in real files
			for i := 192; i < 208; i++ {
				data[b+i] = byte(48 + rng.IntN(48))
			}
		}
		for i, at := range factors {
			bits := uint16(0x1400 + rng.IntN(0x400)) // from 2^-10 to 2^-9
			if elements == 256 {
				bits -= 0x1000 // reduced by a factor of 16 for factors of 6 bits
			}
			if i == 1 && elements == 32 {
				bits |= 0xb000 // a negative minimum, larger by a factor of 16
			}
			binary.LittleEndian.PutUint16(data[b+at:], bits)
		}
	}
	return checkpoint.Tensor{Name: name, DType: kind, Shape: []int{n, k}, Data: data}
}

// blocksPath writes a file whose matrices are random blocks, with types from kindOf, and returns its path.
func blocksPath(t *testing.T, kindOf func(i int) int) string {
	t.Helper()
	m := ggufModel(t, "mamba", func(c *model.Config) { c.DModel = 256 })
	values, _ := llamaFile(llamaModel(t, "mamba"), "mamba", checkpoint.F32)
	values["mamba.embedding_length"], values["mamba.ssm.inner_size"] = uint32(256), uint32(512)
	values["mamba.ssm.time_step_rank"] = uint32(16)
	own, tensors := tensorsOf(m), map[string]checkpoint.Tensor{}
	rng, count := rand.New(rand.NewPCG(3, 4)), 0
	put := func(name, param string, shape ...int) {
		x := own[param]
		v, err := x.Float32()
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(name, "ssm_a") {
			for i := range v {
				v[i] = float32(-math.Exp(float64(v[i])))
			}
		}
		if len(shape) == 0 {
			shape = x.Shape
		}
		if strings.HasSuffix(name, ".weight") && len(shape) == 2 && shape[1]%256 == 0 {
			b := blockTypes[kindOf(count)]
			tensors[name] = randomBlocks(rng, name, b.kind, b.factors, shape[0], shape[1])
			count++
			return
		}
		tensors[name] = checkpoint.NewTensor(name, shape, v)
	}
	put("token_embd.weight", "backbone.embedding.weight")
	put("output_norm.weight", "backbone.norm_f.weight")
	for i := range 2 {
		b, p := fmt.Sprintf("blk.%d.", i), fmt.Sprintf("backbone.layers.%d.", i)
		put(b+"attn_norm.weight", p+"norm.weight")
		for name, param := range map[string]string{
			"ssm_out.weight": "out_proj.weight", "ssm_in.weight": "in_proj.weight",
			"ssm_x.weight": "x_proj.weight", "ssm_dt.weight": "dt_proj.weight", "ssm_dt.bias": "dt_proj.bias",
			"ssm_a": "A_log", "ssm_d": "D", "ssm_conv1d.bias": "conv1d.bias"} {
			put(b+name, p+"mixer."+param)
		}
		put(b+"ssm_conv1d.weight", p+"mixer.conv1d.weight", 512, 4)
	}
	return llamaPath(t, values, tensors)
}

// TestBlocksStayAsTheyAre checks that the matrices of a GGUF file take as many bits in memory as in the file, or 8.
// They have the file's numbers, exactly if the packed forms can represent them, otherwise within the given error.
// Logits agree with float32 up to the error of 8-bit inputs.
func TestBlocksStayAsTheyAre(t *testing.T) {
	for i, b := range blockTypes {
		path := blocksPath(t, func(int) int { return i })
		wide := must(LoadDir(path))
		stored := must(LoadDirStored(path))
		if stored.Precision() != b.becomes {
			t.Errorf("%s: the precision is %s, want %s", b.kind, stored.Precision(), b.becomes)
		}
		values := tensorsOf(wide)
		stored.Params("", func(name string, p *nn.Param) {
			kept, ok := p.Packed().(engine.Rounding)
			if !ok || p.Dim(1)%256 != 0 {
				return
			}
			if kept.Stored() != b.becomes {
				t.Errorf("%s: %s is %s, want %s", b.kind, name, kept.Stored(), b.becomes)
			}
			want, row := values[name], make([]float32, p.Dim(1))
			all, err := want.Float32()
			if err != nil {
				t.Fatal(err)
			}
			for j := range p.Dim(0) {
				kept.ReadRow(row, j)
				rounded(t, fmt.Sprintf("%s: %s[%d]", b.kind, name, j), row, all[j*len(row):][:len(row)], b.off)
			}
		})
		const inputs = 0.1 // root mean square error of 8-bit inputs in two layers of random weights
		got, want := ggufLogits(stored), ggufLogits(wide)
		var off, all float64
		for i, v := range want {
			off, all = off+math.Pow(float64(got[i]-v), 2), all+float64(v)*float64(v)
		}
		if d := math.Sqrt(off / all); !(d <= inputs) {
			t.Errorf("%s: logits differ by %g of their size from those of float32, want at most %g", b.kind, d, inputs)
		}
		bits := map[engine.Precision]float64{engine.Int4: 4.5, engine.Int4Min: 5, engine.Int8: 8.5}[b.becomes]
		if got, most := float64(stored.Bytes())/float64(wide.Bytes()), 1.2*bits/32+0.08; got > most {
			t.Errorf("%s: stored takes %.3f of float32, want at most %.3f", b.kind, got, most)
		}
	}
}

// rounded compares a row in groups of 32. Errors are relative to the largest number of the group.
func rounded(t *testing.T, what string, got, want []float32, off float64) {
	t.Helper()
	for g := 0; g < len(want); g += 32 {
		top := 0.0
		for _, v := range want[g : g+32] {
			top = max(top, math.Abs(float64(v)))
		}
		for i, v := range want[g : g+32] {
			if d := math.Abs(float64(got[g+i] - v)); d > off*top*2 && d > 0 {
				t.Fatalf("%s: element %d is %g, want %g, off by at most %g of %g", what, g+i, got[g+i], v, off, top)
			}
		}
	}
}

// TestBlocksAtAPrecision checks that a precision that can represent the blocks of a file does not change them. Q4_0
// fits into 8 bits.
func TestBlocksAtAPrecision(t *testing.T) {
	at := func(kind checkpoint.DType) int {
		for i, b := range blockTypes {
			if b.kind == kind {
				return i
			}
		}
		t.Fatal(kind)
		return -1
	}
	for _, c := range []struct {
		kind checkpoint.DType
		p    engine.Precision
	}{{checkpoint.Q8_0, engine.Int8}, {checkpoint.Q4_0, engine.Int4}, {checkpoint.Q4_0, engine.Int8},
		{checkpoint.Q4_1, engine.Int4Min}} {
		path := blocksPath(t, func(int) int { return at(c.kind) })
		wide := tensorsOf(must(LoadDir(path)))
		m := must(LoadDirPacked(path, c.p))
		m.Params("", func(name string, p *nn.Param) {
			kept, ok := p.Packed().(engine.Rounding)
			if !ok || p.Dim(1)%256 != 0 || p.Fine && c.p != engine.Int8 {
				return
			}
			x, row := wide[name], make([]float32, p.Dim(1))
			all, err := x.Float32()
			if err != nil {
				t.Fatal(err)
			}
			for j := range p.Dim(0) {
				if kept.ReadRow(row, j); !slices.Equal(row, all[j*len(row):][:len(row)]) {
					t.Fatalf("%s as %s: row %d of %s is rounded", c.kind, c.p, j, name)
				}
			}
		})
	}
}
