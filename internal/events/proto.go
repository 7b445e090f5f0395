package events

import (
	"encoding/binary"
	"math"
)

// The messages below need five kinds of protocol buffer fields, too few to justify a dependency and generated code.
// Encoding: https://protobuf.dev/programming-guides/encoding. A field is its key (number<<3 | wire type) and its value.
const (
	wireVarint  = 0
	wireFixed64 = 1
	wireBytes   = 2
	wireFixed32 = 5
)

func appendKey(b []byte, field, wire uint64) []byte { return binary.AppendUvarint(b, field<<3|wire) }

func appendVarint(b []byte, field, v uint64) []byte {
	return binary.AppendUvarint(appendKey(b, field, wireVarint), v)
}

func appendDouble(b []byte, field uint64, v float64) []byte {
	return binary.LittleEndian.AppendUint64(appendKey(b, field, wireFixed64), math.Float64bits(v))
}

func appendFloat(b []byte, field uint64, v float32) []byte {
	return binary.LittleEndian.AppendUint32(appendKey(b, field, wireFixed32), math.Float32bits(v))
}

func appendString(b []byte, field uint64, s string) []byte {
	return append(appendLength(b, field, len(s)), s...)
}

// appendLength appends the key and the length of a string or an embedded message of n bytes.
func appendLength(b []byte, field uint64, n int) []byte {
	return binary.AppendUvarint(appendKey(b, field, wireBytes), uint64(n))
}

// appendMessage appends an embedded message.
func appendMessage(b []byte, field uint64, message []byte) []byte {
	return append(appendLength(b, field, len(message)), message...)
}

// Event: wall_time = 1 (double, seconds), step = 2, and one of file_version = 3, summary = 5, session_log = 7.
// The functions below append these to an event in this order.

func appendEventHead(b []byte, wallTime float64, step int64) []byte {
	b = appendDouble(b, 1, wallTime)
	if step == 0 {
		return b // the default is omitted, as other encoders do
	}
	return appendVarint(b, 2, uint64(step))
}

func appendFileVersion(b []byte, version string) []byte { return appendString(b, 3, version) }

// SessionLog: status = 1, where START is 1.
func appendSessionStart(b []byte) []byte {
	return appendMessage(b, 7, appendVarint(nil, 1, 1))
}

// Summary: value = 1 (repeated). Value: tag = 1, simple_value = 2 (float).
func appendScalar(b []byte, tag string, v float32) []byte {
	const simpleValue = 1 + 4 // key and float
	value := 1 + uvarintLen(len(tag)) + len(tag) + simpleValue
	b = appendLength(b, 5, 1+uvarintLen(value)+value) // the event's summary
	b = appendLength(b, 1, value)                     // the summary's value
	return appendFloat(appendString(b, 1, tag), 2, v)
}

func uvarintLen(n int) int {
	size := 1
	for ; n >= 0x80; n >>= 7 {
		size++
	}
	return size
}

// appendText appends a Summary whose Value has tag = 1, tensor = 8 and metadata = 9: a vector of one string, for
// TensorBoard's text plugin.
//
// TensorProto: dtype = 1 (DT_STRING is 7), tensor_shape = 2, string_val = 8. TensorShapeProto: dim = 2 {size = 1}.
// SummaryMetadata: plugin_data = 1 {plugin_name = 1}, data_class = 4 (DATA_CLASS_TENSOR is 2).
func appendText(b []byte, tag, text string) []byte {
	shape := appendMessage(nil, 2, appendVarint(nil, 1, 1))
	tensor := appendString(appendMessage(appendVarint(nil, 1, 7), 2, shape), 8, text)
	metadata := appendVarint(appendMessage(nil, 1, appendString(nil, 1, "text")), 4, 2)
	value := appendMessage(appendMessage(appendString(nil, 1, tag), 8, tensor), 9, metadata)
	return appendMessage(b, 5, appendMessage(nil, 1, value))
}
