package request

import (
	"encoding/json"
	"reflect"
	"strings"
)

// Foreign lists the fields of an endpoint that other servers have and this one does not: fields of OpenAI, vLLM,
// llama.cpp and Ollama. A field that is in no list and no struct is ignored.
type Foreign struct {
	Refused []Refusal
	// Hints are ignored: they do not change what a reply may be. Names are separated by spaces.
	Hints string
}

// Refusal is a field that a request may have only with a value that has no effect. It holds the field's name, JSON
// values without effect besides null, "", [] and {}, separated by spaces, and what to use instead.
type Refusal [3]string

// Name returns the name of the field.
func (r Refusal) Name() string { return r[0] }

// Want returns what to use instead.
func (r Refusal) Want() string { return r[2] }

// Plus returns the fields of both. Those of f come first, and replace those of the same name.
func (f Foreign) Plus(others ...Foreign) Foreign {
	for _, other := range others {
		f.Refused = append(f.Refused[:len(f.Refused):len(f.Refused)], other.Refused...)
		f.Hints = strings.TrimSpace(f.Hints + " " + other.Hints)
	}
	return f
}

// hasForeign is a struct of a request that lists its foreign fields.
type hasForeign interface{ Foreign() Foreign }

// checkForeign returns an error if an object has a refused field. in is the field of the request that contains the
// object, "" for the request itself.
func checkForeign(in string, fields map[string]json.RawMessage, of any) error {
	f, ok := of.(hasForeign)
	if !ok {
		return nil
	}
	seen := map[string]bool{}
	for _, r := range f.Foreign().Refused {
		raw, there := fields[r.Name()]
		known := seen[r.Name()]
		if seen[r.Name()] = true; !there || known || r.Harmless(raw) {
			continue
		}
		name := r.Name()
		if in != "" {
			name = in + "." + name
		}
		e := Invalid(name, "found %s, which this server does not implement: want %s", Shorten(raw), r.Want())
		e.Code = "unsupported_parameter"
		return e
	}
	return nil
}

// Harmless reports whether a value has no effect.
func (r Refusal) Harmless(raw []byte) bool {
	const most = 64
	var found any
	if len(raw) > most || json.Unmarshal(raw, &found) != nil {
		return false
	}
	for _, text := range append(strings.Fields(r[1]), "null", `""`, "[]", "{}") {
		var neutral any
		if json.Unmarshal([]byte(text), &neutral) == nil && reflect.DeepEqual(found, neutral) {
			return true
		}
	}
	return false
}
