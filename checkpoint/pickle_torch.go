package checkpoint

import (
	"errors"
	"strings"

	"github.com/hippo-ssm/hippo/internal/fault"
)

// The torch types and functions that the pickle machine knows: element types, storages and the functions that rebuild
// tensors. The formats are defined by torch/_utils.py and torch/serialization.py.

// elemType is the element type of a storage or tensor. A complex element is two numbers.
type elemType struct {
	name    string // torch's name; "" for no type
	dtype   DType  // "" for a type that this package cannot read
	complex bool
}

// size returns the number of bytes of an element.
func (e elemType) size() int {
	if e.complex {
		return 2 * e.dtype.Size()
	}
	return e.dtype.Size()
}

// storageTypes maps the names of storage classes, without "Storage", to element types.
var storageTypes = map[string]elemType{
	"Double":        {"float64", F64, false},
	"Float":         {"float32", F32, false},
	"Half":          {"float16", F16, false},
	"BFloat16":      {"bfloat16", BF16, false},
	"Long":          {"int64", I64, false},
	"Int":           {"int32", I32, false},
	"Short":         {"int16", I16, false},
	"Char":          {"int8", I8, false},
	"Byte":          {"uint8", U8, false},
	"Bool":          {"bool", Bool, false},
	"ComplexDouble": {"complex128", F64, true},
	"ComplexFloat":  {"complex64", F32, true},
	"Untyped":       {"uint8", U8, false}, // counts bytes; the type is an argument of _rebuild_tensor_v3
}

// dtypeNames maps the names of torch.dtype objects to the keys of storageTypes.
var dtypeNames = map[string]string{
	"float64": "Double", "double": "Double", "float32": "Float", "float": "Float", "float16": "Half", "half": "Half",
	"bfloat16": "BFloat16", "int64": "Long", "long": "Long", "int32": "Int", "int": "Int",
	"int16": "Short", "short": "Short",
	"int8": "Char", "uint8": "Byte", "bool": "Bool",
	"complex128": "ComplexDouble", "cdouble": "ComplexDouble", "complex64": "ComplexFloat", "cfloat": "ComplexFloat",
}

const (
	maxDims       = 64  // the limit of torch
	maxStorageKey = 100 // torch writes decimal numbers
)

var errArgs = errors.New("the arguments are not those of torch")

func lookupGlobal(module, name string) knownGlobal {
	switch module {
	case "torch", "torch.cuda", "torch.storage":
		if class, ok := strings.CutSuffix(name, "Storage"); ok {
			elem, known := storageTypes[class]
			if !known {
				elem = elemType{name: name}
			}
			return knownGlobal{storage: elem}
		}
	}
	if class, ok := dtypeNames[name]; ok && module == "torch" {
		return knownGlobal{dtype: storageTypes[class]}
	}
	return knownGlobal{call: functions[module+"."+name]}
}

// functions holds the known functions, and the classes whose objects are represented by simpler values here.
var functions = map[string]func(u *unpickler, args []any) any{
	"collections.OrderedDict":                    makeDict,
	"builtins.dict":                              makeDict,
	"__builtin__.dict":                           makeDict,
	"collections.defaultdict":                    emptyDict,
	"torch.Size":                                 firstArg,
	"torch._utils._rebuild_tensor":               rebuildTensor,
	"torch._utils._rebuild_tensor_v2":            rebuildTensor,
	"torch._utils._rebuild_tensor_v3":            rebuildTensorV3,
	"torch._utils._rebuild_parameter":            firstArg,
	"torch._utils._rebuild_parameter_with_state": firstArg,
	"torch._tensor._rebuild_from_type_v2":        rebuildFromType,
}

// emptyDict returns a dictionary for a defaultdict, whose argument is a function.
func emptyDict(*unpickler, []any) any { return new(pyDict) }

// wantArgs ends the load if there are fewer than n arguments.
func wantArgs(args []any, n int) {
	if len(args) < n {
		fault.Raise(errArgs)
	}
}

// firstArg stands for functions that wrap their first argument: a Parameter is its tensor, and a Size its tuple.
func firstArg(_ *unpickler, args []any) any {
	wantArgs(args, 1)
	return args[0]
}

// makeDict returns an empty dictionary, or a dictionary made from a list of pairs or another dictionary.
func makeDict(u *unpickler, args []any) any {
	d := new(pyDict)
	if len(args) == 0 {
		return d
	}
	if src, ok := args[0].(*pyDict); ok {
		fault.Check(u.spend(len(src.keys)))
		for i, key := range src.keys {
			u.setItems(d, []any{key, src.vals[i]})
		}
		return d
	}
	pairs, ok := items(args[0])
	if !ok {
		fault.Raise(errArgs)
	}
	fault.Check(u.spend(len(pairs)))
	for _, p := range pairs {
		pair, ok := items(p)
		if !ok || len(pair) != 2 {
			fault.Raise(errArgs)
		}
		u.setItems(d, pair)
	}
	return d
}

// items returns the items of a list or tuple.
func items(v any) ([]any, bool) {
	switch v := v.(type) {
	case *pyList:
		return v.items, true
	case *pyTuple:
		return v.items, true
	}
	return nil, false
}

// rebuildTensor reads (storage, offset, size, stride, ...). offset and stride count elements.
func rebuildTensor(u *unpickler, args []any) any {
	wantArgs(args, 4)
	s, ok := args[0].(*pyStorage)
	if !ok {
		return &pyObject{} // a tensor over an unknown storage is opaque too
	}
	t := &pyTensor{
		storage: s, elem: s.elem, offset: natural("offset", args[1]), shape: u.naturals("size", args[2]),
		stride: u.naturals("stride", args[3]),
	}
	if len(t.shape) != len(t.stride) || len(t.shape) > maxDims {
		fault.Raisef("found %d sizes and %d strides, want as many of both and at most %d", len(t.shape),
			len(t.stride), maxDims)
	}
	return t
}

// rebuildTensorV3 reads (storage, offset, size, stride, requires_grad, hooks, dtype, ...). The storage has elements of
// one byte; offset and stride count elements of dtype.
func rebuildTensorV3(u *unpickler, args []any) any {
	wantArgs(args, 7)
	v := rebuildTensor(u, args)
	if t, ok := v.(*pyTensor); ok {
		t.elem = elemType{name: describe(args[6])}
		if g, ok := args[6].(*pyGlobal); ok && g.known.dtype.name != "" {
			t.elem = g.known.dtype
		}
	}
	return v
}

// rebuildFromType reads (function, type, arguments, state), the form in which a subclass of Tensor is saved. The tensor
// is function(*arguments).
func rebuildFromType(u *unpickler, args []any) any {
	wantArgs(args, 3)
	g, ok := args[0].(*pyGlobal)
	inner, ok2 := args[2].(*pyTuple)
	if !ok || !ok2 {
		fault.Raise(errArgs)
	}
	if g.module == "torch._tensor" && g.name == "_rebuild_from_type_v2" {
		fault.Raisef("it is its own argument") // torch does not write this, and nesting it would cost stack
	}
	return u.call(g, inner.items)
}

// persistent resolves an identifier of torch.save: ("storage", class, key, device, numel) or, in old files, ("storage",
// class, key, device, numel, view), where view is None or (key of the view, offset, numel). Other identifiers become
// opaque values.
func (u *unpickler) persistent(id any) any {
	t, ok := id.(*pyTuple)
	if !ok || len(t.items) < 5 || t.items[0] != "storage" {
		return &pyObject{}
	}
	class, ok := t.items[1].(*pyGlobal)
	key, ok2 := t.items[2].(string)
	if !ok || !ok2 || len(key) > maxStorageKey {
		fault.Raisef("a storage has class %s and key %s, want a class and a text of at most %d bytes",
			describe(t.items[1]), describe(t.items[2]), maxStorageKey)
	}
	numel := natural("number of elements of a storage", t.items[4])
	s := &pyStorage{key: key, elem: class.known.storage, numel: numel}
	if s.elem.name == "" {
		s.elem.name = class.text()
	}
	if len(t.items) > 5 && t.items[5] != nil {
		s.view = u.view(t.items[5])
	}
	u.storages = append(u.storages, s)
	return s
}

func (u *unpickler) view(v any) *storageView {
	t, ok := v.(*pyTuple)
	if !ok || len(t.items) != 3 {
		fault.Raisef("the view of a storage is %s, want a key, an offset and a number", describe(v))
	}
	n := u.naturals("view of a storage", &pyTuple{t.items[1:]})
	return &storageView{offset: n[0], numel: n[1]}
}

// natural returns an integer that is not negative. what is the prefix of the error for other values.
func natural(what string, v any) int {
	n, ok := v.(int64)
	if !ok || n < 0 {
		fault.Raisef("%s: found %s, want an integer from 0 to 2^63-1", what, describe(v))
	}
	return int(n)
}

// naturals returns a tuple or list of integers that are not negative.
func (u *unpickler) naturals(what string, v any) []int {
	list, ok := items(v)
	if !ok {
		fault.Raisef("%s: found %s, want a tuple of integers", what, describe(v))
	}
	if err := u.spend(len(list)); err != nil { // one tuple can be the shape of many tensors
		fault.Raisef("%s: %w", what, err)
	}
	out := make([]int, len(list))
	for i, x := range list {
		out[i] = natural(what, x)
	}
	return out
}
