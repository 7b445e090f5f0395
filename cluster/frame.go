package cluster

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"unsafe"
)

// A frame is a message as it is sent on a connection. All numbers are little-endian:
//
//	offset  size
//	     0     1  kind
//	     4     4  node
//	     8     8  round
//	    16     8  at
//	    24     4  bytes of the body
//	    28     4  number of values
//	    32        the body, then the values, 4 bytes each
const headSize = 32

// Limits of a frame. The longest bodies are the rows of a shard.
const (
	maxBody   = 1 << 28
	maxBefore = 1 << 16 // for the body of a member that is not admitted yet
)

// head returns the header of a message's frame.
func (m *Message) head() (head [headSize]byte) {
	le := binary.LittleEndian
	head[0] = byte(m.Kind)
	le.PutUint32(head[4:], uint32(m.Node))
	le.PutUint64(head[8:], m.Round)
	le.PutUint64(head[16:], uint64(m.At))
	le.PutUint32(head[24:], uint32(len(m.Body)))
	le.PutUint32(head[28:], uint32(len(m.Values)))
	return head
}

// readHead parses a header. It returns the message without its body and values, and their lengths. A body of more than
// most bytes is an error.
func readHead(head []byte, most int) (m Message, body, values int, err error) {
	le := binary.LittleEndian
	m = Message{Kind: Kind(head[0]), Node: int(le.Uint32(head[4:])), Round: le.Uint64(head[8:]),
		At: int(le.Uint64(head[16:]))}
	body, values = int(le.Uint32(head[24:])), int(le.Uint32(head[28:]))
	if m.Kind == 0 || m.Kind > bye || body < 0 || body > most || values < 0 || values > chunk {
		err = fmt.Errorf("found a message of kind %d, %d bytes and %d values, want at most %d and %d", m.Kind, body,
			values, most, chunk)
	}
	return m, body, values, err
}

// writeFrame writes a message as a frame.
func writeFrame(w *bufio.Writer, m Message) error {
	head := m.head()
	if _, err := w.Write(head[:]); err != nil {
		return err
	}
	if _, err := w.Write(m.Body); err != nil {
		return err
	}
	return writeValues(w, m.Values)
}

// bigEndian reports whether this machine stores numbers in the opposite byte order of a frame.
var bigEndian = binary.NativeEndian.Uint16([]byte{0, 1}) == 1

// bytesOf returns the memory of v as bytes.
func bytesOf(v []float32) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(v))), 4*len(v))
}

func writeValues(w *bufio.Writer, v []float32) error {
	if !bigEndian {
		_, err := w.Write(bytesOf(v))
		return err
	}
	return binary.Write(w, binary.LittleEndian, v)
}

func readValues(r *bufio.Reader, v []float32) error {
	if !bigEndian {
		_, err := io.ReadFull(r, bytesOf(v))
		return err
	}
	return binary.Read(r, binary.LittleEndian, v)
}

// readFrame reads a message with a body of at most most bytes. It allocates a body as the bytes arrive, so an announced
// length alone takes no memory.
func readFrame(r *bufio.Reader, most int) (m Message, err error) {
	var head [headSize]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return m, err
	}
	m, body, values, err := readHead(head[:], most)
	if err != nil {
		return m, err
	}
	if body > 0 {
		var b bytes.Buffer
		if _, err := io.CopyN(&b, r, int64(body)); err != nil {
			return m, err
		}
		m.Body = b.Bytes()
	}
	if values > 0 {
		m.Values = make([]float32, values)
		if err := readValues(r, m.Values); err != nil {
			return m, err
		}
	}
	return m, nil
}
