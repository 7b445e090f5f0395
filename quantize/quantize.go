// Package quantize chooses the number of bits for each weight matrix of a model: the same for all, or by how much
// rounding each matrix changes the model's predictions for a text. It computes forward passes only.
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

// kinds are the precisions to choose from, the smallest first.
var kinds = []engine.Precision{engine.Int4, engine.Int4Min, engine.Int8, engine.BF16}

// Bits returns the bits of one number at a precision. A factor, which 32 integers share, adds half a bit to each.
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

// Uniform returns the precision of the given bits, for a model whose matrices all have it.
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
	KL    map[string]float64 `json:"kl,omitempty"`  // when only this matrix is rounded, by type
	Fine  bool               `json:"fine,omitzero"` // a matrix with at least 8 bits if all have the same
}

// Report describes a quantized model.
type Report struct {
	Matrices []Matrix `json:"matrices"`
	Numbers  int      `json:"numbers"` // of all matrices
	Bytes    int      `json:"bytes"`   // of all matrices, in the file
	Others   int      `json:"others"`  // bytes of all else, which is float32

	// Calibration holds the measurements, nil if there are none.
	Calibration *Calibration `json:"calibration,omitempty"`
}

// Calibration compares a model's predictions for a text before and after.
type Calibration struct {
	Tokens int     `json:"tokens"` // whose next token was predicted
	KL     float64 `json:"kl"`     // mean divergence of the quantized model's prediction, in nats
	Before float64 `json:"perplexity_before"`
	After  float64 `json:"perplexity_after"`
}

// BitsPerWeight is the average of all matrices, with factors.
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

// bytesOf is the size of a matrix in a file.
func bytesOf(p *nn.Param, at engine.Precision) int {
	switch at {
	case engine.Float32:
		return 4 * p.Len()
	case engine.BF16:
		return 2 * p.Len()
	}
	return p.Dim(0) * checkpoint.DType(at.String()).RowBytes(p.Dim(1))
}

// layerOf is the first layer whose result a parameter changes: -1 for what comes before all layers.
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

// byLayer sorts matrices so that one that changes an earlier layer comes first.
func byLayer(all []*candidate) {
	slices.SortStableFunc(all, func(a, b *candidate) int { return cmp.Compare(a.layer, b.layer) })
}
