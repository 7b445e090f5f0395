package checkpoint

import "fmt"

// Classes, functions and objects. Nothing is imported and nothing is called: a name is looked up in the table of
// pickle_torch.go, and a name that is not there returns opaque values.

// knownGlobal is the meaning of a known name: a replacement function, a storage class or an element type. Unknown names
// have none of them.
type knownGlobal struct {
	call    func(u *unpickler, args []any) (any, error)
	storage elemType
	dtype   elemType
}

// maxGlobalName is longer than every known name; longer ones need no look-up.
const maxGlobalName = 100

func newGlobal(module, name string) *pyGlobal {
	g := &pyGlobal{module: module, name: name}
	if len(module)+len(name) <= maxGlobalName {
		g.known = lookupGlobal(module, name)
	}
	return g
}

// call returns the substitute for callable(*args).
func (u *unpickler) call(callable any, args []any) (any, error) {
	g, ok := callable.(*pyGlobal)
	if !ok || g.known.call == nil {
		return &pyObject{class: g}, nil
	}
	v, err := g.known.call(u, args)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", g.text(), err)
	}
	return v, nil
}

func (u *unpickler) global() error {
	module, err := u.line()
	if err != nil {
		return err
	}
	name, err := u.line()
	if err != nil {
		return err
	}
	u.push(newGlobal(module, name))
	return nil
}

func (u *unpickler) stackGlobal() error {
	pair, err := u.popN(2)
	if err != nil {
		return err
	}
	module, ok := pair[0].(string)
	name, ok2 := pair[1].(string)
	if !ok || !ok2 {
		return fmt.Errorf("found %s and %s, want the names of a module and of a class",
			describe(pair[0]), describe(pair[1]))
	}
	u.push(newGlobal(module, name))
	return nil
}

// reduce replaces a callable and a tuple of arguments by the result of the call.
func (u *unpickler) reduce() error {
	pair, err := u.popN(2)
	if err != nil {
		return err
	}
	args, ok := pair[1].(*pyTuple)
	if !ok {
		return fmt.Errorf("found %s, want a tuple of arguments", describe(pair[1]))
	}
	v, err := u.call(pair[0], args.items)
	u.push(v)
	return err
}

// newObjEx is reduce with a dictionary of named arguments, which no known function takes.
func (u *unpickler) newObjEx() error {
	items, err := u.popN(3)
	if err != nil {
		return err
	}
	g, _ := items[0].(*pyGlobal)
	u.push(&pyObject{class: g})
	return nil
}

// inst makes an object of a class named in the text, with the values above the mark as arguments.
func (u *unpickler) inst() error {
	if err := u.global(); err != nil {
		return err
	}
	class, err := u.pop()
	if err != nil {
		return err
	}
	args, err := u.popMark()
	if err != nil {
		return err
	}
	v, err := u.call(class, args)
	u.push(v)
	return err
}

// obj makes an object of the class right above the mark, with the values above that as arguments.
func (u *unpickler) obj() error {
	items, err := u.popMark()
	if err != nil {
		return err
	}
	if len(items) == 0 {
		return errUnderflow
	}
	v, err := u.call(items[0], items[1:])
	u.push(v)
	return err
}

// build drops the state that would be set on an object, such as the _metadata of a state dict.
func (u *unpickler) build() error {
	if _, err := u.pop(); err != nil {
		return err
	}
	_, err := u.top()
	return err
}

// persID reads a persistent identifier in text form. torch never writes one.
func (u *unpickler) persID() error {
	if _, err := u.line(); err != nil {
		return err
	}
	u.push(&pyObject{})
	return nil
}

func (u *unpickler) binPersID() error {
	id, err := u.pop()
	if err != nil {
		return err
	}
	v, err := u.persistent(id)
	u.push(v)
	return err
}

// extOp pushes an opaque value for a class by its number in a registry that is not in the file.
func extOp(width int) func(*unpickler) error {
	return func(u *unpickler) error {
		_, err := u.uint(width)
		u.push(&pyObject{})
		return err
	}
}
