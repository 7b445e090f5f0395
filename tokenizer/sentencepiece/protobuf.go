package sentencepiece

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// This file implements the part of protocol buffers' wire format (protobuf.dev/programming-guides/encoding) that a
// SentencePiece model needs.

// protoField is a field of a message: a number, or bytes that may be a message themselves.
type protoField struct {
	number int
	value  uint64
	bytes  []byte // nil if the field is a number
}

func (f protoField) float() float32 { return math.Float32frombits(uint32(f.value)) }

// protoFields calls use with each field of a message.
func protoFields(data []byte, use func(f protoField) error) error {
	for len(data) > 0 {
		key, n := binary.Uvarint(data)
		if n <= 0 || key>>3 == 0 || key>>3 > 1<<29 {
			return errors.New("it is not a protocol buffer")
		}
		data = data[n:]
		f := protoField{number: int(key >> 3)}
		size := 0
		switch key & 7 {
		case 0:
			if f.value, size = binary.Uvarint(data); size <= 0 {
				return fmt.Errorf("field %d is cut off", f.number)
			}
		case 1, 5:
			if size = 8; key&7 == 5 {
				size = 4
			}
			if len(data) < size {
				return fmt.Errorf("field %d is cut off", f.number)
			}
			for i := range size {
				f.value |= uint64(data[i]) << (8 * i)
			}
		case 2:
			length, n := binary.Uvarint(data)
			if n <= 0 || length > uint64(len(data)-n) {
				return fmt.Errorf("field %d is cut off", f.number)
			}
			size = n + int(length)
			f.bytes = data[n:size:size]
		default:
			return fmt.Errorf("field %d has wire type %d, want 0, 1, 2 or 5", f.number, key&7)
		}
		data = data[size:]
		if err := use(f); err != nil {
			return err
		}
	}
	return nil
}

// appendProtoBytes appends a field of bytes.
func appendProtoBytes(dst []byte, number int, value []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(number)<<3|2)
	dst = binary.AppendUvarint(dst, uint64(len(value)))
	return append(dst, value...)
}

// appendProtoInt appends an integer field.
func appendProtoInt(dst []byte, number int, value uint64) []byte {
	return binary.AppendUvarint(binary.AppendUvarint(dst, uint64(number)<<3), value)
}

// appendProtoFloat appends a float32 field.
func appendProtoFloat(dst []byte, number int, value float32) []byte {
	return binary.LittleEndian.AppendUint32(binary.AppendUvarint(dst, uint64(number)<<3|5), math.Float32bits(value))
}
