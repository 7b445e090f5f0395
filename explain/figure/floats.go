package figure

import (
	"encoding/json"
	"math"
	"strconv"
)

// Floats holds numbers of a figure. In JSON, numbers that are not finite are null.
type Floats []float64

// MarshalJSON writes each number with the fewest digits that give the same number when read.
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
		out = strconv.AppendFloat(out, x, 'g', -1, 64)
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
