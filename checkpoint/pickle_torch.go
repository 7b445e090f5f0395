package checkpoint

import (
	"errors"
	"fmt"
	"strings"
)

// The torch types and functions that the pickle machine knows: element types, storages and the functions that rebuild
// tensors. The formats are defined by torch/_utils.py and torch/serialization.py.

// elemType is the element type of a storage or tensor. A complex element is two numbers.
type elemType struct {
	name    string // torch's; empty for none at all
	dtype   DType  // empty for a type that this package cannot read
	complex bool
}

// size is the number of bytes of an element.
func (e elemType) size() int {
	if e.complex {
		return 2 * e.dtype.Size()
	}
	return e.dtype.Size()
}

// storageTypes maps classes of storages, without "Storage".
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

// functions are the known functions, and the classes whose objects are something simpler here.
var functions = map[string]func(u *unpickler, args []any) (any, error){
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

// emptyDict is a defaultdict, whose argument is a function.
func emptyDict(*unpickler, []any) (any, error) { return new(pyDict), nil }

// firstArg stands for functions that wrap their first argument: a Parameter is its tensor, a Size its tuple.
func firstArg(_ *unpickler, args []any) (any, error) {
	if len(args) == 0 {
		return nil, errArgs
	}
	return args[0], nil
}

// makeDict makes a dictionary of nothing, of a list of pairs or of another dictionary.
func makeDict(u *unpickler, args []any) (any, error) {
	d := new(pyDict)
	if len(args) == 0 {
		return d, nil
	}
	if src, ok := args[0].(*pyDict); ok {
		if err := u.spend(len(src.keys)); err != nil {
			return nil, err
		}
		for i, key := range src.keys {
			if err := u.setItems(d, []any{key, src.vals[i]}); err != nil {
				return nil, err
			}
		}
		return d, nil
	}
	pairs, ok := items(args[0])
	if !ok {
		return nil, errArgs
	}
	if err := u.spend(len(pairs)); err != nil {
		return nil, err
	}
	for _, p := range pairs {
		pair, ok := items(p)
		if !ok || len(pair) != 2 {
			return nil, errArgs
		}
		if err := u.setItems(d, pair); err != nil {
			return nil, err
		}
	}
	return d, nil
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

// rebuildTensor reads (storage, offset, size, stride, ...); offset and stride count elements.
func rebuildTensor(u *unpickler, args []any) (any, error) {
	if len(args) < 4 {
		return nil, errArgs
	}
	s, ok := args[0].(*pyStorage)
	if !ok {
		return &pyObject{}, nil // a tensor over an unknown storage is opaque too
	}
	t := &pyTensor{storage: s, elem: s.elem}
	var err error
	if t.offset, err = natural(args[1]); err != nil {
		return nil, fmt.Errorf("offset: %w", err)
	}
	if t.shape, err = u.naturals(args[2]); err != nil {
		return nil, fmt.Errorf("size: %w", err)
	}
	if t.stride, err = u.naturals(args[3]); err != nil {
		return nil, fmt.Errorf("stride: %w", err)
	}
	if len(t.shape) != len(t.stride) || len(t.shape) > maxDims {
		return nil, fmt.Errorf("found %d sizes and %d strides, want as many of both and at most %d",
			len(t.shape), len(t.stride), maxDims)
	}
	return t, nil
}

// rebuildTensorV3 reads (storage, offset, size, stride, requires_grad, hooks, dtype, ...): the storage is of bytes,
// offset and stride count elements of dtype.
func rebuildTensorV3(u *unpickler, args []any) (any, error) {
	if len(args) < 7 {
		return nil, errArgs
	}
	v, err := rebuildTensor(u, args)
	if t, ok := v.(*pyTensor); ok {
		t.elem = elemType{name: describe(args[6])}
		if g, ok := args[6].(*pyGlobal); ok && g.known.dtype.name != "" {
			t.elem = g.known.dtype
		}
	}
	return v, err
}

// rebuildFromType reads (function, type, arguments, state), which a subclass of Tensor is saved as: the tensor is
// function(*arguments).
func rebuildFromType(u *unpickler, args []any) (any, error) {
	if len(args) < 3 {
		return nil, errArgs
	}
	g, ok := args[0].(*pyGlobal)
	inner, ok2 := args[2].(*pyTuple)
	if !ok || !ok2 {
		return nil, errArgs
	}
	if g.module == "torch._tensor" && g.name == "_rebuild_from_type_v2" {
		return nil, errors.New("it is its own argument") // torch writes no such thing, and nesting it would cost stack
	}
	return u.call(g, inner.items)
}

// persistent resolves an identifier of torch.save, ("storage", class, key, device, numel) and in old files
// ("storage", class, key, device, numel, view), where view is None or (key of the view, offset, numel). Others are
// opaque.
func (u *unpickler) persistent(id any) (any, error) {
	t, ok := id.(*pyTuple)
	if !ok || len(t.items) < 5 || t.items[0] != "storage" {
		return &pyObject{}, nil
	}
	class, ok := t.items[1].(*pyGlobal)
	key, ok2 := t.items[2].(string)
	if !ok || !ok2 || len(key) > maxStorageKey {
		return nil, fmt.Errorf("a storage has class %s and key %s, want a class and a text of at most %d bytes",
			describe(t.items[1]), describe(t.items[2]), maxStorageKey)
	}
	numel, err := natural(t.items[4])
	if err != nil {
		return nil, fmt.Errorf("number of elements of a storage: %w", err)
	}
	s := &pyStorage{key: key, elem: class.known.storage, numel: numel}
	if s.elem.name == "" {
		s.elem.name = class.text()
	}
	if len(t.items) > 5 && t.items[5] != nil {
		if s.view, err = u.view(t.items[5]); err != nil {
			return nil, err
		}
	}
	u.storages = append(u.storages, s)
	return s, nil
}

func (u *unpickler) view(v any) (*storageView, error) {
	t, ok := v.(*pyTuple)
	if !ok || len(t.items) != 3 {
		return nil, fmt.Errorf("the view of a storage is %s, want a key, an offset and a number", describe(v))
	}
	n, err := u.naturals(&pyTuple{t.items[1:]})
	if err != nil {
		return nil, fmt.Errorf("view of a storage: %w", err)
	}
	return &storageView{offset: n[0], numel: n[1]}, nil
}

// natural returns an integer that is not negative.
func natural(v any) (int, error) {
	n, ok := v.(int64)
	if !ok || n < 0 {
		return 0, fmt.Errorf("found %s, want an integer from 0 to 2^63-1", describe(v))
	}
	return int(n), nil
}

// naturals returns a tuple or list of integers that are not negative.
func (u *unpickler) naturals(v any) ([]int, error) {
	list, ok := items(v)
	if !ok {
		return nil, fmt.Errorf("found %s, want a tuple of integers", describe(v))
	}
	if err := u.spend(len(list)); err != nil { // one tuple can be the shape of many tensors
		return nil, err
	}
	out := make([]int, len(list))
	for i, x := range list {
		var err error
		if out[i], err = natural(x); err != nil {
			return nil, err
		}
	}
	return out, nil
}
