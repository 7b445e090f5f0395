package data

import (
	"errors"
	"fmt"
)

// Cursor is the position of a Loader. With the same tokens and options, a Loader that seeks to it yields the same
// batches, bit for bit, as one that read up to it.
type Cursor struct {
	Tokens    string `json:"tokens"` // Tokens.Hash
	Mode      Mode   `json:"mode"`
	Seed      uint64 `json:"seed"`
	SeqLen    int    `json:"seq_len"`
	BatchSize int    `json:"batch_size"`
	Epoch     int64  `json:"epoch"`
	Position  int    `json:"position"` // in the epoch: sequences returned (Shuffle) or batches returned (Stream)
}

// Cursor returns the position of l.
func (l *Loader) Cursor() Cursor {
	return Cursor{l.hash, l.opt.Mode, l.opt.Seed, l.opt.SeqLen, l.opt.BatchSize, l.epoch, l.position}
}

// Seek sets the position of l to c. It returns an error that names all differences if c belongs to other tokens or
// options. With Shuffle, which counts positions in sequences, the batch size may differ. After an error the position of
// l is unchanged.
func (l *Loader) Seek(c Cursor) error {
	var errs []error
	check := func(field string, found, want any) {
		if found != want {
			errs = append(errs, fmt.Errorf("data: cursor: %s: found %v, want %v", field, found, want))
		}
	}
	if c.Tokens != l.named {
		check("tokens", c.Tokens, l.hash)
	}
	check("mode", c.Mode, l.opt.Mode)
	check("seed", c.Seed, l.opt.Seed)
	check("seq_len", c.SeqLen, l.opt.SeqLen)
	if l.opt.Mode == Stream {
		check("batch_size", c.BatchSize, l.opt.BatchSize)
	}
	if c.Epoch < 0 {
		check("epoch", c.Epoch, "at least 0")
	}
	if c.Position < 0 || c.Position > l.total {
		check("position", c.Position, fmt.Sprintf("0 to %d", l.total))
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	l.startEpoch(c.Epoch)
	l.position = c.Position
	return nil
}
