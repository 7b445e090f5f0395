package bench

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// keys are the fields that identify what was measured. Rows of hippo and of a peer are joined by them.
var keys = []string{
	"bench", "config", "task", "loss", "model", "mixer", "mode", "b", "d", "l", "modes", "batch", "sessions",
	"context", "position", "op", "m", "n", "k",
	"measure", "precision", "threads", "bytes", "members", "wire",
}

// direction returns +1 for a measurement that is better if larger (tokens_per_s, gflops), -1 for one that is better if
// smaller (fwd_ns, ms_per_step, s_to_loss, used_mb), and 0 for any other field.
func direction(field string) int {
	words := strings.Split(strings.TrimSuffix(field, "_wall"), "_")
	switch {
	case field == "used_mb":
		return -1
	case slices.Contains(words, "gflops") || strings.HasSuffix(strings.Join(words, "_"), "_per_s"):
		return 1
	case words[0] == "s", slices.Contains(words, "ns"), slices.Contains(words, "us"), slices.Contains(words, "ms"):
		return -1
	}
	return 0
}

// isRatio reports whether a field compares measurements: over_one, wall_over_cpu, dram_share, times_faster.
func isRatio(field string) bool {
	words := strings.Split(field, "_")
	return slices.Contains(words, "over") || slices.Contains(words, "share") || words[0] == "times" ||
		field == states16
}

// Pair is a row of hippo and one of a peer that measured the same work.
type Pair struct {
	Ours, Theirs Row
	Ratios       []Ratio
}

// Ratio compares a measurement. Its Ratio is how many times faster hippo is, or how many times less it needs.
type Ratio struct {
	Field               string
	Ours, Theirs, Ratio float64
}

// Join pairs rows that measured the same work: rows that agree in every key that both have. Every row of hippo is
// paired with each matching row of the peer, in the order of ours. It returns an error if no two rows match.
func Join(ours, theirs []Row) ([]Pair, error) {
	var pairs []Pair
	for _, a := range ours {
		for _, b := range theirs {
			if !sameWork(a, b) {
				continue
			}
			p := Pair{Ours: a, Theirs: b}
			for _, f := range a {
				x, ok := f.Value.(float64)
				y, there := b.Number(f.Name)
				if d := direction(f.Name); d != 0 && ok && there && x > 0 && y > 0 {
					r := Ratio{f.Name, x, y, rounded(x / y)}
					if d < 0 {
						r.Ratio = rounded(y / x)
					}
					p.Ratios = append(p.Ratios, r)
				}
			}
			if len(p.Ratios) > 0 {
				pairs = append(pairs, p)
			}
		}
	}
	if len(pairs) == 0 {
		return nil, fmt.Errorf("peer: found %d rows, of which none measures what one of hippo's %d does; "+
			"want rows that agree in %s", len(theirs), len(ours), strings.Join(keys, ", "))
	}
	return pairs, nil
}

func sameWork(a, b Row) bool {
	if _, ok := b.Get("bench"); !ok {
		return false
	}
	for _, key := range keys {
		x, ok := a.Get(key)
		if y, there := b.Get(key); ok && there && !reflect.DeepEqual(x, y) {
			return false
		}
	}
	return true
}

// Label returns the fields that distinguish a pair: the keys of hippo's row, the peer, and how the peer was run.
func (p Pair) Label() Row {
	label := identity(p.Ours)
	label = slices.DeleteFunc(label, func(f Field) bool { return f.Name == "peer" })
	for _, name := range [2]string{"peer", "how"} {
		if v, ok := p.Theirs.Get(name); ok {
			label = append(label, Field{name, v})
		}
	}
	return label
}

// Row returns the pair as a row of both measurements and their ratio, in fields such as hippo_tokens_per_s,
// peer_tokens_per_s and ratio_tokens_per_s.
func (p Pair) Row() Row {
	row := p.Label()
	for i, f := range row {
		if f.Name == "peer" {
			row[i].Value = "hippo/" + Text(f.Value)
		}
	}
	for _, r := range p.Ratios {
		row = append(row, Field{"hippo_" + r.Field, r.Ours}, Field{"peer_" + r.Field, r.Theirs},
			Field{"ratio_" + r.Field, r.Ratio})
	}
	return row
}

// identity returns the fields of a row that identify what was measured, the program, and how it was run.
func identity(r Row) Row {
	return slices.DeleteFunc(slices.Clone(r), func(f Field) bool {
		return f.Name != "peer" && f.Name != "how" && !slices.Contains(keys, f.Name)
	})
}

// medians merges rows that measured the same work into one row with the medians of their measurements, in the order of
// their first occurrence. Other fields are those of the last row.
func medians(rows []Row) []Row {
	var out []Row
	at := map[string]int{}
	values := map[string][]float64{} // by row and field
	for _, row := range rows {
		id := identity(row).String()
		i, known := at[id]
		if !known {
			i = len(out)
			at[id], out = i, append(out, nil)
		}
		out[i] = slices.Clone(row)
		for j, f := range out[i] {
			if x, ok := f.Value.(float64); ok && (direction(f.Name) != 0 || isRatio(f.Name)) {
				name := id + " " + f.Name
				values[name] = append(values[name], x)
				out[i][j].Value = median(slices.Clone(values[name]))
			}
		}
	}
	return out
}
