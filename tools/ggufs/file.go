package main

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/hippo-ssm/hippo/checkpoint"
	"github.com/hippo-ssm/hippo/release"
)

// fileTypes holds the values of general.file_type.
var fileTypes = map[checkpoint.DType]uint32{checkpoint.F32: 0, checkpoint.F16: 1, checkpoint.Q4_0: 2,
	checkpoint.Q8_0: 7, checkpoint.BF16: 32, release.Q4_K_M: 15}

// file is a GGUF file that is being made. Its matrices have the type kind, and all other tensors are float32, as in
// llama.cpp's conversion.
type file struct {
	kind    checkpoint.DType
	shrink  int
	arch    string
	random  *rand.Rand
	values  []checkpoint.GGUFValue
	tensors []checkpoint.Tensor
	numbers int                         // count of numbers in all tensors
	dry     bool                        // only count numbers and record names and shapes
	types   map[string]checkpoint.DType // types of the tensors of a mix
	err     error
}

func newFile(kind checkpoint.DType, shrink int) *file {
	return &file{kind: kind, shrink: shrink, random: rand.New(rand.NewPCG(1, 14))}
}

// begin writes the values and tensors that all architectures have, and returns the numbers of layers and tokens.
func (f *file) begin(arch string, d, layers, vocab int) (int, int) {
	f.arch = arch
	layers, vocab = max(2, layers/f.shrink), max(1000, vocab/f.shrink) // hybrids need two kinds of layers
	f.add("general.architecture", arch)
	f.add("general.name", arch+", random weights")
	f.add("general.file_type", fileTypes[f.kind])
	f.add("general.quantization_version", uint32(2))
	f.size("context_length", 16384)
	f.size("embedding_length", d)
	f.size("block_count", layers)
	f.tokens(vocab)
	f.matrix("token_embd", vocab, d)
	return layers, vocab
}

// tokens writes a tokenizer with n filler tokens.
func (f *file) tokens(n int) {
	texts, types := make([]string, n), make([]int32, n)
	for i := range texts {
		texts[i], types[i] = fmt.Sprintf("<filler %d>", i), 1
	}
	types[n-1] = 3 // control
	f.add("tokenizer.ggml.model", "gpt2")
	f.add("tokenizer.ggml.pre", "gpt-2")
	f.add("tokenizer.ggml.tokens", texts)
	f.add("tokenizer.ggml.token_type", types)
	f.add("tokenizer.ggml.merges", []string{"< f"})
	f.add("tokenizer.ggml.bos_token_id", uint32(n-1))
	f.add("tokenizer.ggml.eos_token_id", uint32(n-1))
}

func (f *file) add(key string, v any) {
	f.values = append(f.values, checkpoint.GGUFValue{Key: key, Value: v})
}

// size, number, truth and sizes add a value of the architecture.
func (f *file) size(key string, n int)        { f.add(f.arch+"."+key, uint32(n)) }
func (f *file) number(key string, x float32)  { f.add(f.arch+"."+key, x) }
func (f *file) truth(key string, yes bool)    { f.add(f.arch+"."+key, yes) }
func (f *file) sizes(key string, all []int32) { f.add(f.arch+"."+key, all) }

// matrix adds a random weight matrix of shape (n, k).
func (f *file) matrix(name string, n, k int) {
	kind := f.kind
	if block, _ := kind.Block(); block > 1 && k%block != 0 {
		kind = checkpoint.F16
	}
	f.tensor(name+".weight", kind, []int{n, k}, func(int) float64 { return 0.02 * f.random.NormFloat64() })
}

// vector adds a float32 tensor.
func (f *file) vector(name string, value func(i int) float64, shape ...int) {
	f.tensor(name, checkpoint.F32, shape, value)
}

func (f *file) tensor(name string, kind checkpoint.DType, shape []int, value func(i int) float64) {
	n := 1
	for _, length := range shape {
		n *= length
	}
	if f.numbers += n; f.dry {
		f.tensors = append(f.tensors, checkpoint.Tensor{Name: name, Shape: shape})
		return
	}
	if mixed, ok := f.types[name]; ok {
		kind = mixed
	}
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(value(i))
	}
	t, err := checkpoint.ConvertTensor(name, kind, shape, x)
	f.tensors, f.err = append(f.tensors, t), errors.Join(f.err, err)
}

func one(int) float64                { return 1 }
func (f *file) small(int) float64    { return 0.02 * f.random.NormFloat64() }
func (f *file) negative(int) float64 { return -1 - 15*f.random.Float64() }

// timeStep returns the inverse of softplus of a random time step from 0.001 to 0.1.
func (f *file) timeStep(int) float64 {
	t := math.Exp(math.Log(0.001) + f.random.Float64()*math.Log(100))
	return t + math.Log(-math.Expm1(-t))
}

// mamba2 adds a Mamba-2 mixer with the given number of heads.
func (f *file) mamba2(b string, d, inner, heads, state int, norm bool) {
	conv := inner + 2*state
	f.matrix(b+"ssm_in", inner+conv+heads, d)
	f.vector(b+"ssm_conv1d.weight", func(int) float64 { return 0.3 * f.random.NormFloat64() }, conv, 4)
	f.vector(b+"ssm_conv1d.bias", f.small, conv)
	f.vector(b+"ssm_dt.bias", f.timeStep, heads)
	f.vector(b+"ssm_a", f.negative, heads, 1)
	f.vector(b+"ssm_d", one, heads, 1)
	if norm {
		f.vector(b+"ssm_norm.weight", one, 1, inner)
	}
	f.matrix(b+"ssm_out", d, inner)
}

// mamba2Sizes adds the values of a Mamba-2 mixer.
func (f *file) mamba2Sizes(inner, heads, state int) {
	f.size("ssm.conv_kernel", 4)
	f.size("ssm.inner_size", inner)
	f.size("ssm.state_size", state)
	f.size("ssm.time_step_rank", heads)
	f.size("ssm.group_count", 1)
}

// attention adds an attention mixer with heads of size headDim.
func (f *file) attention(b string, d, heads, kv, headDim int) {
	f.matrix(b+"attn_q", heads*headDim, d)
	f.matrix(b+"attn_k", kv*headDim, d)
	f.matrix(b+"attn_v", kv*headDim, d)
	f.matrix(b+"attn_output", d, heads*headDim)
}

// mlp adds a gated MLP. ending is the ending of its norm's name.
func (f *file) mlp(b string, d, inner int, ending string) {
	f.vector(b+"ffn_norm"+ending, one, d)
	f.matrix(b+"ffn_gate", inner, d)
	f.matrix(b+"ffn_up", inner, d)
	f.matrix(b+"ffn_down", d, inner)
}
