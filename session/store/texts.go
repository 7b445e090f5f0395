package store

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"slices"
	"strings"

	"github.com/hippo-ssm/hippo/session"
)

// The known texts of a store are an object, too. WriteTexts writes it and New reads it, so that a store can report
// after a restart where a text diverges from earlier ones. Texts without a mark change no bit. The name is
//
//	IDENTITY/texts/HASH
//
// and the content, encrypted by session.Seal if the store has a key,
//
//	8 bytes   magic
//	...       the nodes of the tree, parents before children: the number of the parent, the number of symbols (see
//	          reading.syms) and the symbols, all as unsigned varints
//	4 bytes   CRC-32C of all bytes before, little-endian
const (
	textsMagic  = "hippotx1"
	textsFolder = "/texts/"
)

// mostTexts is the maximum number of ids in the object of the texts. Further nodes are left out.
const mostTexts = 1 << 21

// encodeTexts returns the content of the object before encryption. The lock is held.
func (s *Store) encodeTexts() []byte {
	b := []byte(textsMagic)
	left, number := mostTexts, uint64(0)
	var add func(n *node, parent uint64)
	add = func(n *node, parent uint64) {
		if left -= len(n.syms); left < 0 {
			return
		}
		if n.parent != nil {
			b = binary.AppendUvarint(binary.AppendUvarint(b, parent), uint64(len(n.syms)))
			for _, sym := range n.syms {
				b = binary.AppendUvarint(b, uint64(sym))
			}
			number++
		}
		own := number
		for _, kid := range n.kids {
			add(kid, own)
		}
	}
	add(s.tree.root, 0)
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

// decodeTexts returns the texts of an object, each in full.
func decodeTexts(data []byte) (texts [][]uint32, err error) {
	damaged := func(format string, args ...any) ([][]uint32, error) {
		return nil, fmt.Errorf("%w: %s", session.ErrDamaged, fmt.Sprintf(format, args...))
	}
	const sum = 4
	if len(data) < len(textsMagic)+sum || string(data[:len(textsMagic)]) != textsMagic {
		return damaged("found something else than texts")
	}
	end := len(data) - sum
	if crc32.Checksum(data[:end], castagnoli) != binary.LittleEndian.Uint32(data[end:]) {
		return damaged("found another checksum of the texts")
	}
	r := bytes.NewReader(data[len(textsMagic):end])
	nodes, leaf, all := [][]uint32{nil}, []bool{false}, 0
	for r.Len() > 0 {
		parent, err := binary.ReadUvarint(r)
		n, err2 := binary.ReadUvarint(r)
		if err != nil || err2 != nil || parent >= uint64(len(nodes)) || n == 0 || n > uint64(r.Len()) {
			return damaged("found a text of %d ids after the text %d of %d", n, parent, len(nodes))
		}
		if all += len(nodes[parent]) + int(n); all > 16*mostTexts { // the limit is generous, since texts share prefixes
			break
		}
		own := slices.Grow(slices.Clone(nodes[parent]), int(n))
		for range n {
			sym, err := binary.ReadUvarint(r)
			if err != nil || sym > 1<<32-1 {
				return damaged("found an id that is none: %v", err)
			}
			own = append(own, uint32(sym))
		}
		if own[len(own)-1]&1 == 0 {
			return damaged("found a text that ends inside a piece")
		}
		leaf[parent] = false
		nodes, leaf = append(nodes, own), append(leaf, true)
	}
	for i, syms := range nodes {
		if leaf[i] {
			texts = append(texts, syms)
		}
	}
	return texts, nil
}

// WriteTexts writes the known texts to the bucket, without their marks, so that stores that start later can report
// where a text diverges from them. Errors are reported and returned.
func (s *Store) WriteTexts(ctx context.Context) error {
	if s.o.Bucket == nil {
		return nil
	}
	err := s.writeTexts(ctx)
	if err != nil {
		s.tell(err)
	}
	return err
}

// writeTexts writes the texts and removes the objects from which they were read.
func (s *Store) writeTexts(ctx context.Context) error {
	s.mu.Lock()
	data, old := s.encodeTexts(), s.texts
	s.mu.Unlock()
	sum := sha256.Sum256(data)
	name := s.model + textsFolder + hex.EncodeToString(sum[:idLen])
	if slices.Contains(old, name) && len(old) == 1 {
		return nil
	}
	data, err := s.sealed(data)
	if err == nil {
		err = s.o.Bucket.Put(ctx, name, data)
	}
	if err != nil {
		return s.named(err)
	}
	s.mu.Lock()
	s.texts = []string{name}
	s.mu.Unlock()
	for _, other := range old {
		if other != name {
			if err := s.o.Bucket.Delete(ctx, other); err != nil {
				return s.named(err)
			}
		}
	}
	return nil
}

// readTexts reads the texts that stores of this identity have written. Unreadable ones are reported and skipped.
func (s *Store) readTexts(ctx context.Context) {
	for _, name := range slices.Clone(s.texts) {
		data, err := s.o.Bucket.Get(ctx, name)
		if errors.Is(err, fs.ErrNotExist) { // another process has merged it into its own
			continue
		}
		if err != nil {
			s.tell(s.named(fmt.Errorf("%s: %w", name, err)))
			continue
		}
		plain := data
		if s.o.Key != nil {
			plain, err = session.Unseal(data, s.o.Key)
		}
		var texts [][]uint32
		if err == nil {
			texts, err = decodeTexts(plain)
		}
		if err != nil {
			s.setAside(ctx, name, data, err)
			continue
		}
		s.learnTexts(texts)
	}
}

// learnTexts adds texts without marks to the tree, within their share of the memory.
func (s *Store) learnTexts(texts [][]uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, syms := range texts {
		r := &reading{syms: syms}
		if s.tree.bareBytes+textSize(r, nil, 0) > s.o.Memory/bareShare {
			return
		}
		w := s.tree.root.follow(r)
		s.tree.grow(&w, r)
	}
}

// isTexts reports whether an object stores texts of this identity.
func (s *Store) isTexts(name string) bool { return strings.HasPrefix(name, s.model+textsFolder) }
