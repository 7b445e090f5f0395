package checkpoint

import (
	"encoding/json"
	"fmt"
	"math/big"
	"slices"
	"strconv"

	"github.com/hippo-ssm/hippo/internal/fault"
)

// Nested dictionaries are flattened into names. A pickle can contain one dictionary many times in another, and so can
// describe a tree that is exponentially larger than itself. Therefore a walk has a budget that depends on the size of
// the pickle.

const maxNesting = 64

type namedTensor struct {
	name   string
	tensor *pyTensor
}

// walk visits the leaves of nested dictionaries, lists and tuples.
type walk struct {
	left int // remaining budget for visits and for bytes of names and texts
	leaf func(name string, v any)
}

func (w *walk) visit(name string, v any, depth int) {
	w.spend(1 + len(name))
	if depth > maxNesting {
		fault.Raisef("the dictionaries are nested deeper than %d", maxNesting)
	}
	if d := asDict(v); d != nil {
		for i, key := range d.keys {
			w.visit(join(name, keyText(key)), d.vals[i], depth+1)
		}
		return
	}
	list, ok := items(v)
	w.spend(textSize(list))
	if !ok || isScalars(list) {
		w.leaf(name, v)
		return
	}
	for i, x := range list {
		w.visit(join(name, strconv.Itoa(i)), x, depth+1)
	}
}

func (w *walk) spend(n int) {
	if w.left -= n; w.left < 0 {
		fault.Raisef("the nested dictionaries are too large for a pickle of this size")
	}
}

func join(prefix, key string) string {
	if prefix == "" {
		return key
	}
	return prefix + "." + key
}

// keyText returns the name for a key of a dictionary.
func keyText(key any) string {
	if s, ok := key.(string); ok {
		return s
	}
	return describe(key)
}

// flatten returns all tensors in v.
func flatten(v any, pickle int) (out []namedTensor) {
	w := walk{left: 1<<20 + 8*pickle, leaf: func(name string, v any) {
		if t, ok := v.(*pyTensor); ok {
			if name == "" {
				name = "tensor"
			}
			out = append(out, namedTensor{name, t})
		}
	}}
	w.visit("", v, 0)
	return out
}

// scalars returns everything in v that has a short text. Metadata is optional: entries that exceed the budget are left
// out without an error.
func scalars(v any, pickle int) map[string]string {
	meta := map[string]string{}
	w := walk{left: 1<<20 + 4*pickle}
	w.leaf = func(name string, v any) {
		if text, ok := scalarText(v); ok {
			w.left -= len(text)
			meta[name] = text
		}
	}
	_ = fault.Catch(func() { w.visit("", v, 0) })
	return meta
}

// scalarText returns the text of a leaf for Metadata, and false for tensors and bytes.
func scalarText(v any) (string, bool) {
	switch v := v.(type) {
	case string:
		return v, true
	case *pyObject, *pyGlobal:
		return describe(v), true
	}
	list, ok := items(v)
	if !ok {
		if !isScalar(v) {
			return "", false
		}
		return scalarJSON(v), true
	}
	out := []byte{'['}
	for i, x := range list {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, scalarJSON(x)...)
	}
	return string(append(out, ']')), true
}

// scalarJSON returns the JSON of a scalar. Infinity and NaN, which JSON lacks, are written as Go writes them.
func scalarJSON(v any) string {
	if b, err := json.Marshal(v); err == nil {
		return string(b)
	}
	return fmt.Sprint(v)
}

func isScalar(v any) bool {
	switch v := v.(type) {
	case nil, bool, int64, float64, string:
		return true
	case *big.Int:
		return v.BitLen() <= 1024 // larger ones take long to convert to decimal
	}
	return false
}

// textSize returns the approximate length of the text of a list of scalars. One long string can be in a list many
// times.
func textSize(list []any) int {
	n := len(list)
	for _, v := range list {
		switch v := v.(type) {
		case string:
			n += len(v)
		case *big.Int:
			n += v.BitLen() / 3
		}
	}
	return n
}

// isScalars reports whether a list has only scalars, so that it is kept as one leaf.
func isScalars(list []any) bool {
	return !slices.ContainsFunc(list, func(v any) bool { return !isScalar(v) })
}
