package mixer

import (
	"slices"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// Handed holds results that layers of a call pass to later layers.
type Handed struct {
	Values *tensor.Tensor        // values of the first RWKV-7 (n, d_model)
	pruned [][]engine.SpAttenRow // for each layer of SpAtten, the state of each row; nil for other layers
}

// prunedBefore returns what the last SpAtten layer before the given one has pruned, or nil if there is none.
func (h *Handed) prunedBefore(layer int) []engine.SpAttenRow {
	if h == nil {
		return nil
	}
	for _, rows := range slices.Backward(h.pruned[:min(layer, len(h.pruned))]) {
		if rows != nil {
			return rows
		}
	}
	return nil
}

// layers returns the number of layers for which h may have results.
func (h *Handed) layers() int {
	if h == nil {
		return 0
	}
	return len(h.pruned)
}

// prunedOf returns what the first layers have pruned in a group of pieces.
func (r *Rows) prunedOf(group []piece, layers int) [][]engine.SpAttenRow {
	all := make([][]engine.SpAttenRow, layers)
	for l := range all {
		for _, p := range group {
			if rows := r.Handed.pruned[l]; rows != nil {
				all[l] = append(all[l], rows[p.i].Part(r.Start(p.i), p.at, p.n))
			}
		}
	}
	return all
}

// addPruned adds what the layers starting at from have pruned in a group of pieces, each of which continues its row.
func (r *Rows) addPruned(h *Handed, group []piece, from int) {
	for l := from; l < h.layers(); l++ {
		if h.pruned[l] == nil {
			continue
		}
		if l >= len(r.Handed.pruned) || r.Handed.pruned[l] == nil {
			r.Handed.prune(l, make([]engine.SpAttenRow, r.Count()))
		}
		for k, p := range group {
			if to := &r.Handed.pruned[l][p.i]; p.at == 0 {
				*to = h.pruned[l][k]
			} else {
				to.Cuts = append(to.Cuts, h.pruned[l][k].Cuts...)
			}
		}
	}
}

// prune stores what a layer has pruned.
func (h *Handed) prune(layer int, rows []engine.SpAttenRow) {
	for layer >= len(h.pruned) {
		h.pruned = append(h.pruned, nil)
	}
	h.pruned[layer] = rows
}

// Hands reports whether later layers need results of m.
func Hands(m Mixer) (some bool) {
	each(m, func(_ string, m Mixer) {
		if m, ok := m.(interface{ hands() bool }); ok && m.hands() {
			some = true
		}
	})
	return some
}

// Given returns m with a copy of what earlier layers have passed to it for one whole sequence. It can then compute any
// positions of that sequence without these layers.
func Given(m Mixer, h *Handed) Mixer {
	switch m := m.(type) {
	case interface{ given(h *Handed) Mixer }:
		return m.given(h)
	case scaled:
		return scaled{Given(m.Mixer, h), m.in, m.out, m.after}
	case *parallel:
		c := &parallel{m.names, slices.Clone(m.parts)}
		for i, part := range m.parts {
			c.parts[i] = Given(part, h)
		}
		return c
	}
	return m
}
