//go:build todo

package autograd_test

import (
	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine"
)

// crossRows cover attention to another sequence, and rotations by themselves.
func crossRows() []row {
	cross := func(name string, b, l, m, heads, hd int) row {
		d := heads * hd
		return row{
			name: "CrossAttention/" + name,
			in:   [][]int{{b, l, d}, {b, m, 2 * d}}, big: [][]int{{4, 256, 128}, {4, 64, 256}},
			op: func(t *autograd.Tape, in ts) ts { return ts{t.CrossAttention(in[0], in[1], heads)} },
		}
	}
	rotate := func(name string, b, l, heads, hd, dim, start, step int) row {
		d := heads * hd
		return row{
			name: name, in: [][]int{{b, l, d}}, big: [][]int{{4, 256, 32 * heads}},
			op: func(t *autograd.Tape, in ts) ts {
				if step == 0 {
					return ts{t.RotateState(in[0], engine.Rotary{Dim: dim}, start)}
				}
				return ts{t.Rotate(in[0], heads, engine.Rotary{Dim: dim}, start)}
			},
		}
	}
	return []row{
		cross("plain", 2, 5, 3, 2, 3),
		cross("one_key", 1, 4, 1, 1, 2),
		cross("two_tiles", 1, 64+3, 4, 2, 2),
		rotate("Rotate/whole", 2, 5, 2, 4, 4, 0, 1),
		rotate("Rotate/part_later", 1, 5, 2, 6, 2, 7, 1),
		rotate("RotateState/back", 2, 4, 1, 4, 4, -9, 0),
	}
}

func init() {
	register(crossRows)
}
