// Package quantize chooses the number of bits for each weight matrix of a model. It is the same for all, or depends on
// how much rounding the matrix changes the model's predictions for a text. The package computes forward passes only.
package quantize

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/hippo-ssm/hippo/checkpoint"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/nn"
)

// kinds lists the precisions to choose from, the smallest first.
var kinds = []engine.Precision{engine.Int4, engine.Int4Min, engine.Int8, engine.BF16}

// Bits returns the number of bits of a matrix element at a precision. It does not count the scale that 32 integers
// share, which adds half a bit to each.
func Bits(p engine.Precision) float64 {
	switch p {
	case engine.Int4:
		return 4
	case engine.Int4Min:
		return 4.5
	case engine.Int8:
		return 8
	case engine.BF16:
		return 16
	}
	return 32
}

// Uniform returns the precision with the given bits, for a model whose matrices all have it.
func Uniform(bits float64) (engine.Precision, error) {
	for _, p := range kinds[:3] {
		if Bits(p) == bits {
			return p, nil
		}
	}
	return 0, fmt.Errorf("bits: found %g, want 4, 4.5 (with a least number for each 32 weights) or 8; with a text to "+
		"calibrate with, any average from 4 to 16", bits)
}

// Matrix is a weight matrix in a quantized model.
type Matrix struct {
	Name  string             `json:"name"`
	Shape []int              `json:"shape"`
	Type  string             `json:"type"`          // int4, int4min, int8, bf16
	Bytes int                `json:"bytes"`         // in the file
	KL    map[string]float64 `json:"kl,omitempty"`  // divergence if only this matrix is rounded, by type
	Fine  bool               `json:"fine,omitzero"` // has at least 8 bits if all matrices have the same precision
}

// Report describes a quantized model.
type Report struct {
	Matrices []Matrix `json:"matrices"`
	Numbers  int      `json:"numbers"` // number of elements of all matrices
	Bytes    int      `json:"bytes"`   // of all matrices, in the file
	Others   int      `json:"others"`  // bytes of everything else, which stays float32

	// Calibration holds the measurements, nil if there are none.
	Calibration *Calibration `json:"calibration,omitempty"`
}

// Calibration compares a model's predictions for a text before and after quantization.
type Calibration struct {
	Tokens int     `json:"tokens"` // number of predicted tokens
	KL     float64 `json:"kl"`     // mean divergence of the quantized model's prediction, in nats
	Before float64 `json:"perplexity_before"`
	After  float64 `json:"perplexity_after"`
}

// BitsPerWeight returns the average over all matrices, including scales.
func (r *Report) BitsPerWeight() float64 { return 8 * float64(r.Bytes) / float64(max(1, r.Numbers)) }

// Describe lists the matrices of a packed model.
func Describe(m *model.Model) *Report {
	r := &Report{}
	m.Params("", func(name string, p *nn.Param) {
		kept, ok := p.Packed().(engine.Rounding)
		if !ok {
			r.Others += 4 * p.Len()
			return
		}
		at := kept.Stored()
		x := Matrix{Name: name, Shape: p.Shape(), Type: at.String(), Bytes: bytesOf(p, at), Fine: p.Fine}
		r.Matrices = append(r.Matrices, x)
		r.Numbers += p.Len()
		r.Bytes += x.Bytes
	})
	return r
}

// bytesOf returns the size of a matrix in a file.
func bytesOf(p *nn.Param, at engine.Precision) int {
	switch at {
	case engine.Float32:
		return 4 * p.Len()
	case engine.BF16:
		return 2 * p.Len()
	}
	return p.Dim(0) * checkpoint.DType(at.String()).RowBytes(p.Dim(1))
}

// layerOf returns the first layer whose result depends on a parameter, -1 for parameters before all layers.
func layerOf(m *model.Model, name string, p *nn.Param) int {
	var layer int
	rest, ok := strings.CutPrefix(name, "backbone.layers.")
	if _, err := fmt.Sscanf(rest, "%d.", &layer); ok && err == nil {
		return layer
	}
	if m.Head != nil && p == m.Head.Weight {
		return len(m.Blocks)
	}
	return -1
}

// byLayer sorts matrices by the first layer that they affect.
func byLayer(all []*candidate) {
	slices.SortStableFunc(all, func(a, b *candidate) int { return cmp.Compare(a.layer, b.layer) })
}
