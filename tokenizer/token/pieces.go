package token

import (
	"fmt"
	"io"
)

// MaxPending is the most text that EncodeReader keeps while its tokens are not settled. The tokens of a word depend on
// the whole word, so this is also the longest word (a run of letters, of digits, of punctuation or of white space, for
// GPT2) that it can encode.
const MaxPending = 16 << 20

// FirstRead is the number of bytes that EncodeReader reads at a time until a longer word needs more.
const FirstRead = 256 << 10

// Stream encodes a text that arrives in pieces.
type Stream interface {
	// encodeChunk appends the ids of the start of text that nothing after text can change, and returns the number
	// of bytes they stand for; the next call must start with the others. When last is true nothing follows, and all
	// of text is encoded. The offset of an *EncodeError counts from the start of text.
	EncodeChunk(dst []int32, text []byte, last bool) (ids []int32, n int, err error)
}

// ReadPieces reads r to its end and passes the text to use in pieces of size bytes, or more if that is not enough. use
// returns the number of bytes that it has processed; the next piece starts with the rest. When last is true it must
// process all.
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
		if rest > cap(buf)/2 { // double, so that looking at the same word again adds at most the cost of the first time
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
