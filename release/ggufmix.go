package release

import (
	"slices"
	"strings"

	"github.com/hippo-ssm/hippo/checkpoint"
)

// Q4_K_M is the type of a file in which most matrices are Q4_K. The matrices of values, and half of the last matrices
// of feed-forward parts, are Q6_K.
const Q4_K_M checkpoint.DType = "Q4_K_M"

// ggufFileTypes contains the values of general.file_type (llama.h, llama_ftype).
var ggufFileTypes = map[checkpoint.DType]uint32{checkpoint.F32: 0, checkpoint.F16: 1, checkpoint.Q4_0: 2,
	checkpoint.Q8_0: 7, Q4_K_M: 15, checkpoint.Q6_K: 18, checkpoint.BF16: 32}

// GGUFTypes returns the types of files that WriteGGUF can write.
func GGUFTypes() []checkpoint.DType { return sortedKeys(ggufFileTypes) }

// GGUFTensorTypes returns the type of each tensor, by name, in a file of the given type. llama.cpp chooses the same
// types.
func GGUFTensorTypes(to checkpoint.DType, tensors []checkpoint.Tensor) map[string]checkpoint.DType {
	tensors = slices.Clone(tensors)
	slices.SortFunc(tensors, func(a, b checkpoint.Tensor) int { return byLayer(a.Name, b.Name) })
	mix, types := newGGUFMix(to, tensors), map[string]checkpoint.DType{}
	for _, x := range tensors {
		types[x.Name] = mix.of(x.Name, x.Shape)
	}
	return types
}

// ggufMix chooses the type of each tensor of a file, as llama.cpp does without an importance matrix
// (src/llama-quant.cpp, tensor_allows_quantization and llama_tensor_get_type).
type ggufMix struct {
	to                     checkpoint.DType
	tied                   bool // the head shares the embedding's weights
	layers, experts        int
	allValues, value, down int // matrices of values in all; of those, and of last ones of feed-forward parts, so far
}

// newGGUFMix returns the ggufMix for the tensors of a file. Its method of must be called in the order of layers.
func newGGUFMix(to checkpoint.DType, tensors []checkpoint.Tensor) *ggufMix {
	x := &ggufMix{to: to, tied: true}
	for _, t := range tensors {
		x.layers = max(x.layers, ggufLayer(t.Name)+1)
		x.tied = x.tied && t.Name != ggufHead
		if isValues(t.Name) {
			x.allValues++
		}
		if strings.HasSuffix(t.Name, "."+ggufRouter) {
			x.experts = t.Shape[0]
		}
	}
	return x
}

// ggufWhole lists parts of the names of matrices that stay float32 because they are small.
var ggufWhole = []string{"_norm.weight", ggufRouter, "ffn_gate_inp_shexp", "ssm_conv1d", "shortconv.conv.weight",
	"time_mix_lerp_fused", "time_mix_w1", "time_mix_w2", "time_mix_a1", "time_mix_a2", "time_mix_v1", "time_mix_v2",
	"time_mix_g1", "time_mix_g2", "time_mix_r_k"}

// of returns the type of the tensor with the given name and shape.
func (x *ggufMix) of(name string, shape []int) checkpoint.DType {
	in := func(part string) bool { return strings.Contains(name, part) }
	if len(shape) < 2 || !strings.HasSuffix(name, "weight") || slices.ContainsFunc(ggufWhole, in) {
		return checkpoint.F32
	}
	columns, kind := shape[len(shape)-1], x.to
	if kind == Q4_K_M {
		kind = checkpoint.Q4_K
	}
	if !kind.Quantized() {
		return kind
	}
	const eight = 8 // number of experts for which llama.cpp has special rules
	switch {
	case name == ggufHead, name == ggufTable && x.tied:
		if n, _ := kind.Block(); columns%n != 0 || kind == checkpoint.Q8_0 {
			kind = checkpoint.Q8_0
		} else {
			kind = checkpoint.Q6_K
		}
	case isValues(name):
		more := x.moreBits(x.value, x.allValues)
		if x.value++; x.to == Q4_K_M && more {
			kind = checkpoint.Q6_K
		}
		if x.experts == eight {
			kind = checkpoint.Q8_0
		}
	case in("attn_k.weight") && x.experts == eight:
		kind = checkpoint.Q8_0
	case in("ffn_down"):
		at := x.down
		if x.experts > 1 {
			at = ggufLayer(name)
		}
		if x.down++; x.to == Q4_K_M && x.moreBits(at, x.layers) {
			kind = checkpoint.Q6_K
		}
	case in("attn_output.weight") && x.experts == eight && x.to == Q4_K_M:
		kind = checkpoint.Q5_K
	}
	return fitting(kind, columns)
}

// isValues reports whether a matrix projects to values, alone or with queries and keys.
func isValues(name string) bool {
	return strings.Contains(name, "attn_v.weight") || strings.Contains(name, "attn_qkv.weight")
}

// moreBits reports whether the i-th of n matrices is in the half that gets more bits: the first and last eighth, and
// every third in between.
func (x *ggufMix) moreBits(i, n int) bool { return i < n/8 || i >= 7*n/8 || (i-n/8)%3 == 2 }

// smaller maps types with blocks of 256 elements to types with blocks of 32.
var smaller = map[checkpoint.DType]checkpoint.DType{checkpoint.Q4_K: checkpoint.Q5_0, checkpoint.Q5_K: checkpoint.Q5_1,
	checkpoint.Q6_K: checkpoint.Q8_0}

// fitting returns a type for rows of the given number of columns: kind, one with smaller blocks, or F16.
func fitting(kind checkpoint.DType, columns int) checkpoint.DType {
	for ; kind != ""; kind = smaller[kind] {
		if n, _ := kind.Block(); n > 0 && columns%n == 0 {
			return kind
		}
	}
	return checkpoint.F16
}
