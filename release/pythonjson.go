package release

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
)

// pythonJSON converts the numbers that Python adds to JSON (Infinity, -Infinity, NaN) to the form of transformers 5,
// {"__float__": "Infinity"}. Strings stay unchanged.
func pythonJSON(data []byte) []byte {
	if json.Valid(data) {
		return data
	}
	var out []byte
	inText := false
	for i := 0; i < len(data); i++ {
		switch c := data[i]; {
		case c == '\\' && inText && i+1 < len(data):
			out = append(out, c, data[i+1])
			i++
			continue
		case c == '"':
			inText = !inText
		case !inText:
			if word := constantAt(data[i:]); word != "" {
				out = fmt.Appendf(out, `{"__float__": %q}`, word)
				i += len(word) - 1
				continue
			}
		}
		out = append(out, data[i])
	}
	return out
}

// constantAt returns the number at the start of a text that is valid in Python but not in JSON, "" for none.
func constantAt(text []byte) string {
	for _, word := range []string{"-Infinity", "Infinity", "NaN"} {
		if bytes.HasPrefix(text, []byte(word)) {
			return word
		}
	}
	return ""
}

// number is a number of a configuration, which may be infinite.
type number float64

func (n *number) UnmarshalJSON(data []byte) error {
	var special struct {
		Float string `json:"__float__"`
	}
	if json.Unmarshal(data, &special) == nil && special.Float != "" {
		v, err := strconv.ParseFloat(special.Float, 64)
		*n = number(v)
		return err
	}
	var v float64
	err := json.Unmarshal(data, &v)
	*n = number(v)
	return err
}

// auto is an integer, or 0 for "auto".
type auto int

func (a *auto) UnmarshalJSON(data []byte) error {
	if string(data) == `"auto"` {
		*a = 0
		return nil
	}
	return json.Unmarshal(data, (*int)(a))
}

// finite reports whether a number is finite.
func (n number) finite() bool { return !math.IsInf(float64(n), 0) && !math.IsNaN(float64(n)) }
