package model

import (
	"encoding/binary"
	"io"
	"math"
	"path/filepath"

	"github.com/hippo-ssm/hippo/checkpoint"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/internal/disk"
	"github.com/hippo-ssm/hippo/nn"
)

// SavePacked is Save for a packed model. It writes the rounded weights at their bit width. LoadStored restores the same
// model. Rows are converted as they are written.
func (m *Model) SavePacked(dir string) error {
	if m.adapter != nil {
		return errAdapter
	}
	err := disk.WriteFile(filepath.Join(dir, WeightsFile), func(w io.Writer) error {
		return checkpoint.WriteSafetensors(w, m.packedTensors(), savedAs)
	})
	if err != nil {
		return err
	}
	return m.saveConfig(dir)
}

// packedTensors returns the parameters in the types that they have in memory.
func (m *Model) packedTensors() (out []checkpoint.Tensor) {
	m.Params("", func(name string, p *nn.Param) {
		kept, ok := p.Packed().(engine.Rounding)
		if !ok {
			values := p.Floats()
			out = append(out, checkpoint.NewTensor(name, p.Shape(), values))
			return
		}
		out = append(out, packedTensor(name, p, kept))
	})
	return out
}

// packedTensor returns a matrix in the type that it was rounded to.
func packedTensor(name string, p *nn.Param, w engine.Rounding) checkpoint.Tensor {
	k := p.Dim(1)
	if at := w.Stored(); at >= engine.Int8 {
		kind := checkpoint.DType(at.String())
		groups := (k + engine.GroupTerms - 1) / engine.GroupTerms
		q, factor, least := make([]int8, k), make([]uint16, groups), make([]uint16, groups)
		return checkpoint.Streamed(name, kind, p.Shape(), func(b []byte, j int) []byte {
			scale := w.ReadGroups(j, q, factor, least)
			return checkpoint.AppendGroups(b, kind, scale, q, factor, least)
		})
	}
	values := make([]float32, k)
	if w.Stored() == engine.BF16 {
		return checkpoint.Streamed(name, checkpoint.BF16, p.Shape(), func(b []byte, j int) []byte {
			w.ReadRow(values, j)
			for _, v := range values { // values are bfloat16 numbers
				b = binary.LittleEndian.AppendUint16(b, uint16(math.Float32bits(v)>>16))
			}
			return b
		})
	}
	return checkpoint.Streamed(name, checkpoint.F32, p.Shape(), func(b []byte, j int) []byte {
		w.ReadRow(values, j)
		for _, v := range values {
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
		}
		return b
	})
}
