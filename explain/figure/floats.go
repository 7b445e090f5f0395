package figure

import (
	"encoding/json"
	"math"
	"strconv"
)

// Floats are numbers of a figure. JSON has them as numbers, and as null where they are not finite.
type Floats []float64

// MarshalJSON writes numbers with the digits that float32 needs, so that pages stay small, and in full where float32
// ends.
func (f Floats) MarshalJSON() ([]byte, error) {
	out := make([]byte, 0, 2+8*len(f))
	out = append(out, '[')
	for i, x := range f {
		if i > 0 {
			out = append(out, ',')
		}
		if math.IsNaN(x) || math.IsInf(x, 0) {
			out = append(out, "null"...)
			continue
		}
		bits := 32
		if math.Abs(x) > math.MaxFloat32 || math.Abs(x) < 1e-30 {
			bits = 64
		}
		out = strconv.AppendFloat(out, x, 'g', -1, bits)
	}
	return append(out, ']'), nil
}

// UnmarshalJSON reads null as NaN.
func (f *Floats) UnmarshalJSON(data []byte) error {
	var all []*float64
	if err := json.Unmarshal(data, &all); err != nil {
		return err
	}
	*f = make(Floats, len(all))
	for i, x := range all {
		(*f)[i] = math.NaN()
		if x != nil {
			(*f)[i] = *x
		}
	}
	return nil
}
