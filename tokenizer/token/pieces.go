package token

import (
	"fmt"
	"io"
)

// MaxPending is the maximum number of bytes of text that EncodeReader keeps while its tokens are not settled. The
// tokens of a word depend on the whole word, so this is also the longest word that it can encode (for GPT2, a run of
// letters, of digits, of punctuation or of white space).
const MaxPending = 16 << 20

// FirstRead is the number of bytes that EncodeReader reads at a time, unless a longer word needs more.
const FirstRead = 256 << 10

// Stream encodes a text that arrives in pieces.
type Stream interface {
	// EncodeChunk appends the ids of the start of text that cannot depend on later text, and returns the length of that
	// start in bytes. The next call must start with the remaining bytes. If last is true, nothing follows, and all of
	// text is encoded. The offset of an *EncodeError counts from the start of text.
	EncodeChunk(dst []int32, text []byte, last bool) (ids []int32, n int, err error)
}

// ReadPieces reads r to its end and passes the text to use in pieces of size bytes, or more if that is not enough. use
// returns the number of bytes that it has processed. The next piece starts with the rest. If last is true, use must
// process everything.
func ReadPieces(r io.Reader, size int, use func(text []byte, last bool) (done int, err error)) error {
	buf := make([]byte, 0, size)
	for offset := int64(0); ; {
		n, err := io.ReadFull(r, buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		last := err == io.EOF || err == io.ErrUnexpectedEOF
		if err != nil && !last {
			return fmt.Errorf("tokenizer: reading text at byte offset %d: %w", offset+int64(len(buf)), err)
		}
		done, err := use(buf, last)
		if err != nil {
			return MoveError(err, offset)
		}
		if last {
			return nil
		}
		offset += int64(done)
		rest := len(buf) - done
		if rest > cap(buf)/2 { // double, so that repeated reads of the same word at most double the cost
			if rest >= MaxPending {
				return fmt.Errorf(
					"tokenizer: byte offset %d: a word of more than %d bytes; Encode takes it, a stream does not",
					offset, MaxPending)
			}
			buf = append(make([]byte, 0, 2*cap(buf)), buf[done:]...)
		} else {
			buf = buf[:copy(buf, buf[done:])]
		}
	}
}
