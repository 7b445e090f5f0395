package release

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hippo-ssm/hippo/checkpoint"
	"github.com/hippo-ssm/hippo/internal/disk"
	"github.com/hippo-ssm/hippo/model"
)

// peftPart is a change of some rows of a module: B (rows, rank) from row at on, and A (rank, k).
type peftPart struct {
	a, b     []float32
	rank, at int
	scale    float64
}

// WritePEFT writes the adapter of m, whose base is the model at a path, into a folder with the modules of that model's
// files, as the PEFT library has them. A matrix that is several tensors there becomes a change of each, one that is a
// part of a tensor a change of some of its rows. a describes the base.
func WritePEFT(dir string, m *model.Model, a *Adapter, path string) error {
	modules, names, rows, width := map[string][]peftPart{}, []string{}, map[string]int{}, map[string]int{}
	_, _, err := withModel(path, func(_ *model.Model, w model.Weights) error {
		for _, c := range m.Adapter().Changes {
			values := [2][]float32{make([]float32, c.A.Len()), make([]float32, c.B.Len())}
			c.A.CopyTo(values[0])
			c.B.CopyTo(values[1])
			rank, n := c.A.Dim(0), c.B.Dim(0)
			sources, shares, at := sourcesOf(w, c.Name), 0, 0
			for _, s := range sources {
				shares += max(1, s.Share)
			}
			for _, s := range sources {
				key, ok := w.Keys[s.Name]
				if s.Stack > 0 || !ok {
					return fmt.Errorf("%s: found a change of experts that are stacked in one tensor, which the PEFT "+
						"library's LoRA of linear layers does not have", c.Name)
				}
				size, module := n/shares*max(1, s.Share), strings.TrimSuffix(key, ".weight")
				if rows[module] == 0 {
					names = append(names, module)
				}
				part := peftPart{values[0], values[1][at*rank:][:size*rank], rank, s.Part * size, c.Scale}
				modules[module] = append(modules[module], part.small())
				rows[module], width[module] = size*max(1, s.Of), c.A.Dim(1)
				at += size
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	config := adapterConfig{
		Type: "LORA", Task: "CAUSAL_LM", Base: &a.Name, R: a.Rank, Alpha: a.Alpha, Dropout: a.Dropout, Targets: names,
		Bias: "none", Inference: true, InitWeights: true, RankPattern: map[string]int{},
		AlphaPattern: map[string]float64{},
	}
	var tensors []checkpoint.Tensor
	for _, module := range names {
		rank, scale, values := joinPEFT(modules[module], rows[module])
		if rank != config.R {
			config.RankPattern[module] = rank
		}
		if alpha := scale * float64(rank); alpha != config.Alpha {
			config.AlphaPattern[module] = alpha
		}
		tensors = append(tensors,
			checkpoint.NewTensor(peftPrefix+module+".lora_A.weight", []int{rank, width[module]}, values[0]),
			checkpoint.NewTensor(peftPrefix+module+".lora_B.weight", []int{rows[module], rank}, values[1]))
	}
	text, err := json.MarshalIndent(config, "", "  ")
	return errors.Join(err, disk.WriteFile(filepath.Join(dir, AdapterWeightsFile), func(w io.Writer) error {
		return checkpoint.WriteSafetensors(w, tensors, map[string]string{"format": "pt"})
	}), disk.WriteBytes(filepath.Join(dir, AdapterConfigFile), append(text, '\n')))
}

// small returns the part without the ranks at which B is zero in all of its rows.
func (p peftPart) small() peftPart {
	k, out := len(p.a)/p.rank, p
	var used []int
	for r := range p.rank {
		for j := r; j < len(p.b); j += p.rank {
			if p.b[j] != 0 {
				used = append(used, r)
				break
			}
		}
	}
	if len(used) == 0 || len(used) == p.rank {
		return p
	}
	out.a, out.b, out.rank = nil, nil, len(used)
	for _, r := range used {
		out.a = append(out.a, p.a[r*k:][:k]...)
	}
	for row := range slices.Chunk(p.b, p.rank) {
		for _, r := range used {
			out.b = append(out.b, row[r])
		}
	}
	return out
}

// joinPEFT joins parts of a module: each has its own rows of A and columns of B. Scales that differ go into B.
func joinPEFT(parts []peftPart, rows int) (rank int, scale float64, values [2][]float32) {
	scale = parts[0].scale
	for _, p := range parts {
		rank += p.rank
		if p.scale != scale {
			scale = 1
		}
	}
	values[1] = make([]float32, rows*rank)
	from := 0
	for _, p := range parts {
		values[0] = append(values[0], p.a...)
		for j := range len(p.b) / p.rank {
			for r := range p.rank {
				x := float64(p.b[j*p.rank+r])
				if p.scale != scale {
					x *= p.scale
				}
				values[1][(p.at+j)*rank+from+r] = float32(x)
			}
		}
		from += p.rank
	}
	return rank, scale, values
}
