package checkpoint

import "github.com/hippo-ssm/hippo/internal/fault"

// Classes, functions and objects. Nothing is imported and nothing is called: a name is looked up in the table of
// pickle_torch.go, and calls of names that are not in the table return opaque values.

// knownGlobal is the meaning of a known name: a replacement function, a storage class or an element type. It is empty
// for unknown names.
type knownGlobal struct {
	call    func(u *unpickler, args []any) any
	storage elemType
	dtype   elemType
}

// maxGlobalName is greater than the length of every known name. Longer names need no look-up.
const maxGlobalName = 100

func newGlobal(module, name string) *pyGlobal {
	g := &pyGlobal{module: module, name: name}
	if len(module)+len(name) <= maxGlobalName {
		g.known = lookupGlobal(module, name)
	}
	return g
}

// call returns the substitute for callable(*args).
func (u *unpickler) call(callable any, args []any) (v any) {
	g, ok := callable.(*pyGlobal)
	if !ok || g.known.call == nil {
		return &pyObject{class: g}
	}
	if err := fault.Catch(func() { v = g.known.call(u, args) }); err != nil {
		fault.Raisef("%s: %w", g.text(), err)
	}
	return v
}

func (u *unpickler) global() {
	module := u.line()
	u.push(newGlobal(module, u.line()))
}

func (u *unpickler) stackGlobal() {
	pair := u.popN(2)
	module, ok := pair[0].(string)
	name, ok2 := pair[1].(string)
	if !ok || !ok2 {
		fault.Raisef("found %s and %s, want the names of a module and of a class", describe(pair[0]),
			describe(pair[1]))
	}
	u.push(newGlobal(module, name))
}

// reduce replaces a callable and a tuple of arguments by the result of the call.
func (u *unpickler) reduce() {
	pair := u.popN(2)
	args, ok := pair[1].(*pyTuple)
	if !ok {
		fault.Raisef("found %s, want a tuple of arguments", describe(pair[1]))
	}
	u.push(u.call(pair[0], args.items))
}

// newObjEx is reduce with a dictionary of named arguments, which no known function takes.
func (u *unpickler) newObjEx() {
	g, _ := u.popN(3)[0].(*pyGlobal)
	u.push(&pyObject{class: g})
}

// inst creates an object of a class named in the pickle, with the values above the mark as arguments.
func (u *unpickler) inst() {
	u.global()
	class := u.pop()
	u.push(u.call(class, u.popMark()))
}

// obj creates an object of the class right above the mark, with the values above the class as arguments.
func (u *unpickler) obj() {
	items := u.popMark()
	if len(items) == 0 {
		fault.Raise(errUnderflow)
	}
	u.push(u.call(items[0], items[1:]))
}

// build drops the state that would be set on an object, such as the _metadata of a state dict.
func (u *unpickler) build() {
	u.pop()
	u.top()
}

// persID reads a persistent identifier in text form. torch never writes one.
func (u *unpickler) persID() {
	u.line()
	u.push(&pyObject{})
}

func (u *unpickler) binPersID() { u.push(u.persistent(u.pop())) }

// extOp pushes an opaque value for a class given by its number in a registry that is not in the file.
func extOp(width int) func(*unpickler) {
	return func(u *unpickler) {
		u.uint(width)
		u.push(&pyObject{})
	}
}
