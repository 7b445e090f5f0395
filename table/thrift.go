package table

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Types of Thrift's compact protocol.
const (
	thriftStop   = 0
	thriftTrue   = 1
	thriftFalse  = 2
	thriftI8     = 3
	thriftI16    = 4
	thriftI32    = 5
	thriftI64    = 6
	thriftDouble = 7
	thriftBinary = 8
	thriftList   = 9
	thriftSet    = 10
	thriftMap    = 11
	thriftStruct = 12
	thriftUUID   = 16
)

// errCutOff reports that the data ends too early.
var errCutOff = errors.New("it is cut off")

// Limits of a message: the maximum nesting of structs, and the maximum memory of the decoded elements, with estimates
// of their sizes.
const (
	mostThriftDepth  = 32
	mostThriftMemory = 512 << 20
	thriftStructSize = 600
	thriftOtherSize  = 16
)

// thriftSize returns the size in bytes of the struct at the start of data, in Thrift's compact protocol. It checks all
// lengths against the data that follows: decoders allocate memory for a length before they read, so ten bytes could
// claim gigabytes.
func thriftSize(data []byte) (int, error) {
	c := thriftCheck{data: data, memory: mostThriftMemory}
	err := c.structure(0)
	return c.at, err
}

// thriftCheck checks a message.
type thriftCheck struct {
	data   []byte
	at     int
	memory int // memory that further elements may need
}

func (c *thriftCheck) byte() (byte, error) {
	if c.at >= len(c.data) {
		return 0, errCutOff
	}
	c.at++
	return c.data[c.at-1], nil
}

func (c *thriftCheck) skip(n int) error {
	if n < 0 || n > len(c.data)-c.at {
		return errCutOff
	}
	c.at += n
	return nil
}

// number reads an unsigned integer of variable length.
func (c *thriftCheck) number() (uint64, error) {
	x, n := binary.Uvarint(c.data[c.at:])
	switch {
	case n == 0:
		return 0, errCutOff
	case n < 0:
		return 0, errors.New("found a number of more than 64 bits")
	}
	c.at += n
	return x, nil
}

// length reads a number of elements that take at least one byte each in the message, and each bytes in memory.
func (c *thriftCheck) length(each int) (int, error) {
	x, err := c.number()
	if err != nil {
		return 0, err
	}
	if x > uint64(len(c.data)-c.at) {
		return 0, fmt.Errorf("found a length of %d where %d bytes are left: %w", x, len(c.data)-c.at, errCutOff)
	}
	return int(x), c.take(int(x), each)
}

// take accounts for the memory of n elements of each bytes.
func (c *thriftCheck) take(n, each int) error {
	if c.memory -= n * each; c.memory < 0 {
		return fmt.Errorf("found more than %d MB of elements, want fewer", mostThriftMemory>>20)
	}
	return nil
}

// structure skips the fields up to the end of a struct.
func (c *thriftCheck) structure(depth int) error {
	if depth > mostThriftDepth {
		return fmt.Errorf("found structs that lie more than %d deep in each other", mostThriftDepth)
	}
	for {
		head, err := c.byte()
		if err != nil || head == thriftStop {
			return err
		}
		if head>>4 == 0 { // a field number follows
			if _, err := c.number(); err != nil {
				return err
			}
		}
		kind := head & 0xF
		if kind == thriftTrue || kind == thriftFalse { // the kind contains the value
			continue
		}
		if err := c.value(kind, depth); err != nil {
			return err
		}
	}
}

// value skips a value.
func (c *thriftCheck) value(kind byte, depth int) error {
	switch kind {
	case thriftTrue, thriftFalse, thriftI8:
		return c.skip(1)
	case thriftI16, thriftI32, thriftI64:
		_, err := c.number()
		return err
	case thriftDouble:
		return c.skip(8)
	case thriftUUID:
		return c.skip(16)
	case thriftBinary:
		n, err := c.length(1)
		if err != nil {
			return err
		}
		return c.skip(n)
	case thriftList, thriftSet:
		return c.list(depth)
	case thriftMap:
		return c.pairs(depth)
	case thriftStruct:
		return c.structure(depth + 1)
	}
	return fmt.Errorf("found a value of type %d, want 1 to 12", kind)
}

// list skips a list.
func (c *thriftCheck) list(depth int) error {
	head, err := c.byte()
	if err != nil {
		return err
	}
	kind, n := head&0xF, int(head>>4)
	each := thriftOtherSize
	if kind == thriftStruct {
		each = thriftStructSize
	}
	if n == 15 { // 15 or more: a length follows
		if n, err = c.length(each); err != nil {
			return err
		}
	} else if err := c.take(n, each); err != nil {
		return err
	}
	return c.values(n, depth, kind)
}

// pairs skips a map.
func (c *thriftCheck) pairs(depth int) error {
	n, err := c.length(2 * thriftStructSize)
	if err != nil || n == 0 {
		return err
	}
	kinds, err := c.byte()
	if err != nil {
		return err
	}
	return c.values(n, depth, kinds>>4, kinds&0xF)
}

// values skips n groups of values, one of each kind.
func (c *thriftCheck) values(n, depth int, kinds ...byte) error {
	if depth > mostThriftDepth {
		return fmt.Errorf("found lists that lie more than %d deep in each other", mostThriftDepth)
	}
	for range n {
		for _, kind := range kinds {
			if err := c.value(kind, depth+1); err != nil {
				return err
			}
		}
	}
	return nil
}
