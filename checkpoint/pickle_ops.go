package checkpoint

import (
	"encoding/binary"
	"math"

	"github.com/hippo-ssm/hippo/internal/fault"
)

// opcode is one instruction. Its name comes from CPython's pickletools.
type opcode struct {
	name string
	run  func(*unpickler)
}

// opcodes holds all instructions of protocols 0 to 5 except STOP.
var opcodes = [256]opcode{
	// Numbers, None, texts and bytes.
	'N':  {"NONE", pushes(nil)},
	0x88: {"NEWTRUE", pushes(true)},
	0x89: {"NEWFALSE", pushes(false)},
	'I':  {"INT", textOp(parseInt)},
	'L':  {"LONG", textOp(parseInt)},
	'J':  {"BININT", intOp(4, func(n uint64) any { return int64(int32(n)) })},
	'K':  {"BININT1", intOp(1, func(n uint64) any { return int64(n) })},
	'M':  {"BININT2", intOp(2, func(n uint64) any { return int64(n) })},
	0x8a: {"LONG1", countedOp(1, longFromBytes)},
	0x8b: {"LONG4", countedOp(4, longFromBytes)},
	'F':  {"FLOAT", textOp(parseFloat)},
	'G':  {"BINFLOAT", (*unpickler).binFloat},
	'S':  {"STRING", textOp(parseRepr)},
	'V':  {"UNICODE", textOp(parseRawUnicode)},
	'T':  {"BINSTRING", countedOp(4, asText)},
	'U':  {"SHORT_BINSTRING", countedOp(1, asText)},
	0x8c: {"SHORT_BINUNICODE", countedOp(1, asText)},
	'X':  {"BINUNICODE", countedOp(4, asText)},
	0x8d: {"BINUNICODE8", countedOp(8, asText)},
	'C':  {"SHORT_BINBYTES", countedOp(1, asBytes)},
	'B':  {"BINBYTES", countedOp(4, asBytes)},
	0x8e: {"BINBYTES8", countedOp(8, asBytes)},
	0x96: {"BYTEARRAY8", countedOp(8, asBytes)},

	// Tuples, lists, dictionaries and sets.
	')':  {"EMPTY_TUPLE", func(u *unpickler) { u.push(&pyTuple{}) }},
	']':  {"EMPTY_LIST", func(u *unpickler) { u.push(&pyList{}) }},
	'}':  {"EMPTY_DICT", func(u *unpickler) { u.push(&pyDict{}) }},
	0x8f: {"EMPTY_SET", func(u *unpickler) { u.push(&pyList{}) }},
	0x85: {"TUPLE1", collect(1, asTuple)},
	0x86: {"TUPLE2", collect(2, asTuple)},
	0x87: {"TUPLE3", collect(3, asTuple)},
	't':  {"TUPLE", collect(0, asTuple)},
	'l':  {"LIST", collect(0, asList)},
	0x91: {"FROZENSET", collect(0, asList)},
	'd':  {"DICT", (*unpickler).dict},
	'a':  {"APPEND", func(u *unpickler) { u.modify(1, appendItems) }},
	'e':  {"APPENDS", func(u *unpickler) { u.modify(0, appendItems) }},
	0x90: {"ADDITEMS", func(u *unpickler) { u.modify(0, appendItems) }},
	's':  {"SETITEM", func(u *unpickler) { u.modify(2, u.setItems) }},
	'u':  {"SETITEMS", func(u *unpickler) { u.modify(0, u.setItems) }},

	// The stack and the memo.
	'(':  {"MARK", func(u *unpickler) { u.marks = append(u.marks, len(u.stack)) }},
	'0':  {"POP", (*unpickler).popOp},
	'1':  {"POP_MARK", func(u *unpickler) { u.popMark() }},
	'2':  {"DUP", func(u *unpickler) { u.push(u.top()) }},
	'g':  {"GET", memoLine((*unpickler).get)},
	'h':  {"BINGET", memoOp(1, (*unpickler).get)},
	'j':  {"LONG_BINGET", memoOp(4, (*unpickler).get)},
	'p':  {"PUT", memoLine((*unpickler).put)},
	'q':  {"BINPUT", memoOp(1, (*unpickler).put)},
	'r':  {"LONG_BINPUT", memoOp(4, (*unpickler).put)},
	0x94: {"MEMOIZE", func(u *unpickler) { u.put(uint64(len(u.memo))) }},

	// Classes, functions and objects: pickle_objects.go.
	'c':  {"GLOBAL", (*unpickler).global},
	0x93: {"STACK_GLOBAL", (*unpickler).stackGlobal},
	'R':  {"REDUCE", (*unpickler).reduce},
	0x81: {"NEWOBJ", (*unpickler).reduce}, // cls.__new__(cls, *args): the same for every class that is known
	0x92: {"NEWOBJ_EX", (*unpickler).newObjEx},
	'i':  {"INST", (*unpickler).inst},
	'o':  {"OBJ", (*unpickler).obj},
	'b':  {"BUILD", (*unpickler).build},
	'P':  {"PERSID", (*unpickler).persID},
	'Q':  {"BINPERSID", (*unpickler).binPersID},
	0x82: {"EXT1", extOp(1)},
	0x83: {"EXT2", extOp(2)},
	0x84: {"EXT4", extOp(4)},

	// Framing.
	0x80: {"PROTO", (*unpickler).proto},
	0x95: {"FRAME", (*unpickler).frame},
	0x97: {"NEXT_BUFFER", func(*unpickler) { fault.Raisef("data outside of the file is not supported") }},
	0x98: {"READONLY_BUFFER", func(*unpickler) {}},
}

func pushes(v any) func(*unpickler) { return func(u *unpickler) { u.push(v) } }

// textOp pushes the rest of the line, converted by parse.
func textOp(parse func(string) (any, error)) func(*unpickler) {
	return func(u *unpickler) {
		v, err := parse(u.line())
		fault.Check(err)
		u.push(v)
	}
}

func intOp(width int, convert func(uint64) any) func(*unpickler) {
	return func(u *unpickler) { u.push(convert(u.uint(width))) }
}

// countedOp pushes bytes that follow their length, converted by convert.
func countedOp(width int, convert func([]byte) any) func(*unpickler) {
	return func(u *unpickler) { u.push(convert(u.counted(width))) }
}

func asText(b []byte) any  { return string(b) }
func asBytes(b []byte) any { return pyBytes(b) }

// binFloat reads a float64, the only big-endian number of the format.
func (u *unpickler) binFloat() { u.push(math.Float64frombits(binary.BigEndian.Uint64(u.take(8)))) }

// collect pushes the result of build for the n topmost values or, if n is 0, for those above the mark.
func collect(n int, build func([]any) any) func(*unpickler) {
	return func(u *unpickler) { u.push(build(u.popMarkOr(n))) }
}

func asTuple(items []any) any { return &pyTuple{items} }
func asList(items []any) any  { return &pyList{items} }

func (u *unpickler) dict() {
	pairs, d := u.popMark(), new(pyDict)
	u.push(d)
	u.setItems(d, pairs)
}

// modify calls change with the value below the n topmost ones, which it removes, or, if n is 0, below the mark.
func (u *unpickler) modify(n int, change func(any, []any)) {
	items := u.popMarkOr(n)
	change(u.top(), items)
}

// popMarkOr is popN, or popMark if n is 0.
func (u *unpickler) popMarkOr(n int) []any {
	if n == 0 {
		return u.popMark()
	}
	return u.popN(n)
}

// popOp removes the topmost value, or the topmost mark if no value is above it.
func (u *unpickler) popOp() {
	if n := len(u.marks); n > 0 && u.marks[n-1] == len(u.stack) {
		u.marks = u.marks[:n-1]
		return
	}
	u.pop()
}

func memoOp(width int, do func(*unpickler, uint64)) func(*unpickler) {
	return func(u *unpickler) { do(u, u.uint(width)) }
}

func memoLine(do func(*unpickler, uint64)) func(*unpickler) {
	return func(u *unpickler) {
		s := u.line()
		key, err := parseInt(s)
		n, ok := key.(int64)
		if !ok || n < 0 || err != nil {
			fault.Raisef("found %.20q, want the number of a memo", s)
		}
		do(u, uint64(n))
	}
}

func (u *unpickler) proto() {
	if version := u.byte(); version > pickleProtocol {
		fault.Raisef("found protocol %d, want at most %d", version, pickleProtocol)
	}
}

// frame skips the length of a frame. Frames are only a hint for buffering.
func (u *unpickler) frame() {
	n := u.uint(8)
	if left := len(u.data) - u.pos; n > uint64(left) {
		fault.Raisef("found a frame of %d bytes, but only %d are left", n, left)
	}
}
