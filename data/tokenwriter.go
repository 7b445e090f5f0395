package data

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
)

// tokenWriter writes the part of a token file after its header, and updates the header's counts as it goes.
type tokenWriter struct {
	header  *header
	out     io.Writer // nil to write to mem
	mem     []byte
	lengths []uint32 // bytes of text per id; nil if the encoder is not a Decoder
	covered int64    // sum of lengths over the text's tokens
	inText  int64    // number of end-of-text ids that encoding the text yielded
	starts  []byte   // starts of documents, in the file's format
	given   []byte   // a bit for each token, in the file's format; empty if no token is given
	isGiven bool     // whether the tokens being written are given
	buf     []byte
}

func newTokenWriter(h *header, out io.Writer) (*tokenWriter, error) {
	if h.vocab < 1 || h.vocab > maxVocab {
		return nil, fmt.Errorf("data: vocab_size: found %d, want 1 to %d", h.vocab, maxVocab)
	}
	if h.endOfText >= h.vocab {
		return nil, fmt.Errorf("data: end-of-text id: found %d, want less than vocab_size %d", h.endOfText, h.vocab)
	}
	return &tokenWriter{header: h, out: out}, nil
}

// beginDocument writes the end-of-text id, if there is one, before every document but the first. The id is given if the
// end of the previous document was.
func (w *tokenWriter) beginDocument() (err error) {
	w.header.documents++
	if w.header.endOfText >= 0 && w.header.documents > 1 {
		err = w.put([]int32{int32(w.header.endOfText)})
	}
	w.starts = binary.LittleEndian.AppendUint64(w.starts, uint64(w.header.tokens))
	return err
}

// write appends the ids of a text.
func (w *tokenWriter) write(ids []int32) error {
	if err := w.put(ids); err != nil {
		return err
	}
	for _, id := range ids {
		if w.lengths != nil {
			w.covered += int64(w.lengths[id])
		}
		if int64(id) == w.header.endOfText {
			w.inText++
		}
	}
	return nil
}

// put appends ids. It returns an error if one is outside the vocabulary.
func (w *tokenWriter) put(ids []int32) error {
	le := binary.LittleEndian
	b := w.buf[:0]
	narrow := width(w.header.vocab) == 2
	for i, id := range ids {
		if id < 0 || int64(id) >= w.header.vocab {
			return fmt.Errorf("token %d: the tokenizer gave id %d, want 0 to %d",
				w.header.tokens+int64(i), id, w.header.vocab-1)
		}
		if narrow {
			b = le.AppendUint16(b, uint16(id))
		} else {
			b = le.AppendUint32(b, uint32(id))
		}
	}
	w.buf = b
	if w.header.given {
		for i := range int64(len(ids)) {
			at := w.header.tokens + i
			if at%8 == 0 {
				w.given = append(w.given, 0)
			}
			if w.isGiven {
				w.given[at/8] |= 1 << (at % 8)
			}
		}
	}
	w.header.tokens += int64(len(ids))
	return w.putBytes(b)
}

func (w *tokenWriter) putBytes(b []byte) error {
	w.header.crc = crc32.Update(w.header.crc, castagnoli, b)
	if w.out == nil {
		w.mem = append(w.mem, b...)
		return nil
	}
	_, err := w.out.Write(b)
	return err
}

// finish appends the tables.
func (w *tokenWriter) finish() error {
	h := w.header
	if h.tokens < 1 || h.tokens > maxTokens {
		return fmt.Errorf("data: found %d tokens, want 1 to %d", h.tokens, int64(maxTokens))
	}
	if err := w.putLengths(); err != nil {
		return err
	}
	if h.borders = h.documents > 1; h.borders {
		if err := w.putBytes(w.starts); err != nil {
			return err
		}
	}
	return w.putBytes(w.given)
}

// putLengths appends the table of token lengths if it is reliable: if the tokens add up to the text (a tokenizer that
// changes text fails this), and the end-of-text id occurs either only between documents, where it stands for no text,
// or only in text.
func (w *tokenWriter) putLengths() error {
	h := w.header
	between := h.endOfText >= 0 && h.documents > 1
	if w.lengths == nil || w.covered != h.textBytes || between && w.inText > 0 {
		return nil
	}
	if between {
		w.lengths[h.endOfText] = 0
	}
	h.lengths = true
	b := make([]byte, 0, 4*len(w.lengths))
	for _, n := range w.lengths {
		b = binary.LittleEndian.AppendUint32(b, n)
	}
	return w.putBytes(b)
}
