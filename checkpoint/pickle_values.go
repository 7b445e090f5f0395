package checkpoint

import (
	"fmt"
	"math/big"
	"strconv"
)

// The values of a pickle. None is nil; int is int64 or, beyond its range, *big.Int; float is float64; bool and str are
// bool and string. Everything else is one of the types below. All are comparable, so any value may be a key.
type (
	pyBytes string // bytes and bytearray
	pyTuple struct{ items []any }
	pyList  struct{ items []any } // list, set and frozenset

	// pyDict keeps the order of insertion.
	pyDict struct {
		keys, vals []any
		index      map[any]int
	}

	// pyGlobal is a class or function given by its name, known or unknown.
	pyGlobal struct {
		module, name string
		known        knownGlobal
	}

	// pyObject is the opaque value: the result of calling an unknown class or function. If the pickle sets items on it
	// as on a dictionary, they are kept, because subclasses of dict are common. All other state is dropped.
	pyObject struct {
		class *pyGlobal // nil if even the class is not a plain name
		dict  *pyDict   // nil if empty
	}

	// pyStorage is a reference to a run of elements that is elsewhere in the file.
	pyStorage struct {
		key   string
		elem  elemType
		numel int
		view  *storageView // old files only
	}

	// pyTensor is a view of a storage, in elements.
	pyTensor struct {
		storage *pyStorage
		elem    elemType
		offset  int
		shape   []int
		stride  []int
	}
)

// storageView is a storage that is part of another one, in elements.
type storageView struct{ offset, numel int }

func (d *pyDict) set(key, val any) {
	if i, ok := d.index[key]; ok {
		d.vals[i] = val
		return
	}
	if d.index == nil {
		d.index = map[any]int{}
	}
	d.index[key] = len(d.keys)
	d.keys = append(d.keys, key)
	d.vals = append(d.vals, val)
}

func (d *pyDict) get(key any) any {
	if i, ok := d.index[key]; ok {
		return d.vals[i]
	}
	return nil
}

// asDict returns v as a dictionary, or nil if it is not one. An object of an unknown class counts if it has entries.
func asDict(v any) *pyDict {
	switch v := v.(type) {
	case *pyDict:
		return v
	case *pyObject:
		return v.dict
	}
	return nil
}

// describe names a value for an error or for Metadata. The text is short whatever the file contains.
func describe(v any) string {
	switch v := v.(type) {
	case nil:
		return "None"
	case bool, int64, float64:
		return fmt.Sprint(v)
	case *big.Int:
		return "an integer of " + strconv.Itoa(v.BitLen()) + " bits"
	case string:
		return fmt.Sprintf("%.60q", v)
	case pyBytes:
		return "bytes"
	case *pyTuple:
		return "a tuple"
	case *pyList:
		return "a list"
	case *pyDict:
		return "a dictionary"
	case *pyGlobal:
		return v.text()
	case *pyObject:
		if v.class == nil {
			return "<object>"
		}
		return "<" + v.class.text() + ">"
	case *pyStorage:
		return "a storage"
	case *pyTensor:
		return "a tensor"
	}
	return fmt.Sprintf("%T", v)
}

func (g *pyGlobal) text() string { return fmt.Sprintf("%.100s.%.100s", g.module, g.name) }
