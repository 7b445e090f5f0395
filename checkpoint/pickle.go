package checkpoint

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/hippo-ssm/hippo/internal/fault"
)

// The pickle machine has a stack of values, a memo and opcodes of one byte. The format is described in CPython's
// Lib/pickletools.py. The machine is in this file, and the opcodes in pickle_ops.go.
//
// A pickle of n bytes can create at most n values, as every value takes an opcode. That bounds the memory of values.
// Work that a single opcode can multiply (copying a list, hashing a long key) is charged in steps.

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
	storages []*pyStorage // all storages that were referred to, in order
}

func newUnpickler(data []byte) *unpickler {
	return &unpickler{data: data, steps: maxPickleSteps, memo: map[uint64]any{}}
}

// load runs one pickle from the current position and leaves the position after it. The memo starts empty, as in Python.
func (u *unpickler) load() (v any, err error) {
	u.stack, u.marks = nil, nil
	clear(u.memo)
	start, at, name := u.pos, 0, ""
	err = fault.Catch(func() {
		for {
			if at, name = u.pos, ""; at >= len(u.data) {
				fault.Raisef("the data ends at byte %d before the STOP of the pickle at byte %d", at, start)
			}
			op := u.byte()
			if op == '.' {
				name = "STOP"
				v = u.pop()
				return
			}
			o := &opcodes[op]
			if o.run == nil {
				fault.Raisef("byte %d: 0x%02x is not an opcode", at, op)
			}
			name = o.name
			fault.Check(u.spend(1))
			o.run(u)
			if u.pos-start > maxPickle {
				fault.Raisef("the pickle is longer than %d bytes", maxPickle)
			}
		}
	})
	switch {
	case err != nil && name == "":
		err = fmt.Errorf("pickle: %w", err)
	case err != nil:
		err = fmt.Errorf("pickle: byte %d: %s: %w", at, name, err)
	}
	return v, err
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

func (u *unpickler) byte() byte {
	if u.pos >= len(u.data) {
		fault.Raise(errShort)
	}
	u.pos++
	return u.data[u.pos-1]
}

// take returns the next n bytes, which alias the input.
func (u *unpickler) take(n uint64) []byte {
	if left := len(u.data) - u.pos; n > uint64(left) {
		fault.Raisef("found a length of %d, but only %d bytes are left", n, left)
	}
	u.pos += int(n)
	return u.data[u.pos-int(n) : u.pos]
}

// uint reads a little-endian number of 1 to 8 bytes.
func (u *unpickler) uint(width int) (n uint64) {
	if width > len(u.data)-u.pos {
		fault.Raise(errShort)
	}
	for i, c := range u.take(uint64(width)) {
		n |= uint64(c) << (8 * i)
	}
	return n
}

// counted returns the bytes after their length, which is a number of width bytes.
func (u *unpickler) counted(width int) []byte { return u.take(u.uint(width)) }

// line returns the bytes up to the next newline, which is skipped.
func (u *unpickler) line() string {
	n := bytes.IndexByte(u.data[u.pos:], '\n')
	if n < 0 {
		fault.Raisef("found no end of line")
	}
	s := string(u.data[u.pos : u.pos+n])
	u.pos += n + 1
	return s
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

func (u *unpickler) top() any {
	if len(u.stack) <= u.floor() {
		fault.Raise(errUnderflow)
	}
	return u.stack[len(u.stack)-1]
}

func (u *unpickler) pop() any {
	v := u.top()
	u.stack = u.stack[:len(u.stack)-1]
	return v
}

// popN removes the n topmost values and returns them in a new slice.
func (u *unpickler) popN(n int) []any {
	from := len(u.stack) - n
	if from < u.floor() {
		fault.Raise(errUnderflow)
	}
	items := append([]any(nil), u.stack[from:]...)
	clear(u.stack[from:])
	u.stack = u.stack[:from]
	return items
}

// popMark removes the newest mark and returns the values above it.
func (u *unpickler) popMark() []any {
	if len(u.marks) == 0 {
		fault.Raisef("there is no mark on the stack")
	}
	items := u.popN(len(u.stack) - u.floor())
	u.marks = u.marks[:len(u.marks)-1]
	return items
}

// The memo.

func (u *unpickler) put(key uint64) { u.memo[key] = u.top() }

func (u *unpickler) get(key uint64) {
	v, ok := u.memo[key]
	if !ok {
		fault.Raisef("memo %d was never set", key)
	}
	u.push(v)
}

// Changing containers.

// setItems puts pairs of key and value into a dictionary or an object.
func (u *unpickler) setItems(target any, pairs []any) {
	if len(pairs)%2 != 0 {
		fault.Raisef("found a key without a value")
	}
	d := asDict(target)
	if o, ok := target.(*pyObject); ok && d == nil {
		d = new(pyDict)
		o.dict = d
	}
	if d == nil {
		fault.Raisef("found %s, want a dictionary", describe(target))
	}
	for i := 0; i < len(pairs); i += 2 {
		// A long key can be hashed again and again, for two bytes of pickle each time.
		length := 0
		switch key := pairs[i].(type) {
		case string:
			length = len(key)
		case pyBytes:
			length = len(key)
		}
		fault.Check(u.spend(length / 256))
		d.set(pairs[i], pairs[i+1])
	}
}

// appendItems adds items to a list or a set. Items of an object of an unknown class are dropped.
func appendItems(target any, items []any) {
	switch t := target.(type) {
	case *pyList:
		t.items = append(t.items, items...)
	case *pyObject:
	default:
		fault.Raisef("found %s, want a list", describe(target))
	}
}
