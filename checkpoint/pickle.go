package checkpoint

import (
	"bytes"
	"errors"
	"fmt"
)

// The pickle machine: a stack of values, a memo and opcodes of one byte. The format is described in CPython's
// Lib/pickletools.py; this file has the machine and pickle_ops.go the opcodes.
//
// A pickle of n bytes can make at most n values, as every value takes an opcode. That bounds the memory of values; work
// that a single opcode can multiply (copying a list, hashing a long key) is charged in steps.

const (
	maxPickle      = 256 << 20 // bytes of one pickle
	maxPickleSteps = 4 << 20   // about the steps of 100,000 tensors with their names
	pickleProtocol = 5         // the newest one known
)

type unpickler struct {
	data     []byte
	pos      int
	steps    int // steps left
	stack    []any
	marks    []int // heights of the stack
	memo     map[uint64]any
	storages []*pyStorage // all that were referred to, in order
}

func newUnpickler(data []byte) *unpickler {
	return &unpickler{data: data, steps: maxPickleSteps, memo: map[uint64]any{}}
}

// load runs one pickle from the current position and stays after it. The memo starts empty, as it does in Python.
func (u *unpickler) load() (any, error) {
	u.stack, u.marks = nil, nil
	clear(u.memo)
	start := u.pos
	for {
		at := u.pos
		op, err := u.byte()
		if err != nil {
			return nil, fmt.Errorf("pickle: the data ends at byte %d before the STOP of the pickle at byte %d", at,
				start)
		}
		if op == '.' {
			v, err := u.pop()
			if err != nil {
				return nil, fmt.Errorf("pickle: byte %d: STOP: %w", at, err)
			}
			return v, nil
		}
		o := &opcodes[op]
		if o.run == nil {
			return nil, fmt.Errorf("pickle: byte %d: 0x%02x is not an opcode", at, op)
		}
		err = u.spend(1)
		if err == nil {
			err = o.run(u)
		}
		if err == nil && u.pos-start > maxPickle {
			err = fmt.Errorf("the pickle is longer than %d bytes", maxPickle)
		}
		if err != nil {
			return nil, fmt.Errorf("pickle: byte %d: %s: %w", at, o.name, err)
		}
	}
}

// spend charges n steps.
func (u *unpickler) spend(n int) error {
	if n > u.steps {
		return fmt.Errorf("the pickle takes more than %d steps", maxPickleSteps)
	}
	u.steps -= n
	return nil
}

// Reading the input.

var errShort = errors.New("the data ends here")

func (u *unpickler) byte() (byte, error) {
	if u.pos >= len(u.data) {
		return 0, errShort
	}
	u.pos++
	return u.data[u.pos-1], nil
}

// take returns the next n bytes, which alias the input.
func (u *unpickler) take(n uint64) ([]byte, error) {
	if left := len(u.data) - u.pos; n > uint64(left) {
		return nil, fmt.Errorf("found a length of %d, but only %d bytes are left", n, left)
	}
	b := u.data[u.pos : u.pos+int(n)]
	u.pos += int(n)
	return b, nil
}

// uint reads a little-endian number of 1 to 8 bytes.
func (u *unpickler) uint(width int) (uint64, error) {
	b, err := u.take(uint64(width))
	if err != nil {
		return 0, errShort
	}
	n := uint64(0)
	for i, c := range b {
		n |= uint64(c) << (8 * i)
	}
	return n, nil
}

// counted returns bytes that follow their own length, a number of width bytes.
func (u *unpickler) counted(width int) ([]byte, error) {
	n, err := u.uint(width)
	if err != nil {
		return nil, err
	}
	return u.take(n)
}

// line returns the bytes up to the next newline, which is skipped.
func (u *unpickler) line() (string, error) {
	n := bytes.IndexByte(u.data[u.pos:], '\n')
	if n < 0 {
		return "", errors.New("found no end of line")
	}
	s := string(u.data[u.pos : u.pos+n])
	u.pos += n + 1
	return s, nil
}

// The stack. Values below the newest mark cannot be reached until popMark.

var errUnderflow = errors.New("the stack has too few values")

func (u *unpickler) push(v any) { u.stack = append(u.stack, v) }

func (u *unpickler) floor() int {
	if len(u.marks) == 0 {
		return 0
	}
	return u.marks[len(u.marks)-1]
}

func (u *unpickler) top() (any, error) {
	if len(u.stack) <= u.floor() {
		return nil, errUnderflow
	}
	return u.stack[len(u.stack)-1], nil
}

func (u *unpickler) pop() (any, error) {
	v, err := u.top()
	if err == nil {
		u.stack = u.stack[:len(u.stack)-1]
	}
	return v, err
}

// popN removes the n topmost values and returns them in a slice of their own.
func (u *unpickler) popN(n int) ([]any, error) {
	from := len(u.stack) - n
	if from < u.floor() {
		return nil, errUnderflow
	}
	items := append([]any(nil), u.stack[from:]...)
	clear(u.stack[from:])
	u.stack = u.stack[:from]
	return items, nil
}

// popMark removes the newest mark and returns the values above it.
func (u *unpickler) popMark() ([]any, error) {
	if len(u.marks) == 0 {
		return nil, errors.New("there is no mark on the stack")
	}
	items, err := u.popN(len(u.stack) - u.floor())
	u.marks = u.marks[:len(u.marks)-1]
	return items, err
}

// The memo.

func (u *unpickler) put(key uint64) error {
	v, err := u.top()
	if err == nil {
		u.memo[key] = v
	}
	return err
}

func (u *unpickler) get(key uint64) error {
	v, ok := u.memo[key]
	if !ok {
		return fmt.Errorf("memo %d was never set", key)
	}
	u.push(v)
	return nil
}

// Changing containers.

// setItems puts pairs of key and value into a dictionary or an object.
func (u *unpickler) setItems(target any, pairs []any) error {
	if len(pairs)%2 != 0 {
		return errors.New("found a key without a value")
	}
	d := asDict(target)
	if o, ok := target.(*pyObject); ok && d == nil {
		d = new(pyDict)
		o.dict = d
	}
	if d == nil {
		return fmt.Errorf("found %s, want a dictionary", describe(target))
	}
	for i := 0; i < len(pairs); i += 2 {
		// A long key can be hashed again and again for two bytes of pickle each.
		length := 0
		switch key := pairs[i].(type) {
		case string:
			length = len(key)
		case pyBytes:
			length = len(key)
		}
		if err := u.spend(length / 256); err != nil {
			return err
		}
		d.set(pairs[i], pairs[i+1])
	}
	return nil
}

// appendItems adds to a list or a set. Items of an object of an unknown class are dropped.
func appendItems(target any, items []any) error {
	switch t := target.(type) {
	case *pyList:
		t.items = append(t.items, items...)
	case *pyObject:
	default:
		return fmt.Errorf("found %s, want a list", describe(target))
	}
	return nil
}
