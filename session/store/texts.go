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
	"maps"
	"slices"
	"strings"

	"github.com/hippo-ssm/hippo/session"
)

// The known texts of a store are an object, too. WriteTexts writes it and New reads it, so that a store can report
// after a restart where a text diverges from earlier ones. Texts without a mark do not affect results. The name is
//
//	IDENTITY/texts/HASH
//
// and the content, encrypted by session.Seal if the store has a key,
//
//	8 bytes   magic
//	...       the nodes of the tree, parents before children: the number of the parent, the number of symbols (see
//	          reading.syms) and the symbols, all as unsigned varints
//	4 bytes   CRC-32C of all bytes before, little-endian
//
// This is the form of a store that uses only the first scope. If there are other scopes, the object has the second
// magic and is in the second folder, which earlier versions skip. A node without symbols is then the root of a scope,
// and its origin of 32 bytes follows.
const (
	textsMagic   = "hippotx1"
	scopesMagic  = "hippotx2"
	textsFolder  = "/texts/"
	scopesFolder = "/scopes/"
)

// mostTexts is the maximum number of ids in the object of the texts. Further nodes are left out.
const mostTexts = 1 << 21

// encodeTexts returns the content of the object before encryption, and the folder of its name. c.mu must be held.
func (c *core) encodeTexts() (b []byte, folder string) {
	b, folder = []byte(textsMagic), textsFolder
	if len(c.tree.roots) > 1 {
		b, folder = []byte(scopesMagic), scopesFolder
	}
	left, number := mostTexts, uint64(0)
	var add func(n *node, parent uint64)
	add = func(n *node, parent uint64) {
		if left -= len(n.syms); left < 0 {
			return
		}
		if n.parent != nil || *n.origin != c.tree.first {
			b = binary.AppendUvarint(binary.AppendUvarint(b, parent), uint64(len(n.syms)))
			if n.parent == nil {
				b = append(b, n.origin[:]...)
			}
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
	add(c.tree.roots[c.tree.first], 0)
	for _, origin := range slices.SortedFunc(maps.Keys(c.tree.roots), func(a, b key) int {
		return bytes.Compare(a[:], b[:])
	}) {
		if origin != c.tree.first {
			add(c.tree.roots[origin], 0)
		}
	}
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli)), folder
}

// scopedText is a known text of a scope.
type scopedText struct {
	origin key
	syms   []uint32
}

// decodeTexts returns the texts of an object, each in full. Texts before the first root belong to the scope first.
func decodeTexts(data []byte, first key) (texts []scopedText, err error) {
	damaged := func(format string, args ...any) ([]scopedText, error) {
		return nil, fmt.Errorf("%w: %s", session.ErrDamaged, fmt.Sprintf(format, args...))
	}
	const sum = 4
	if len(data) < len(textsMagic)+sum ||
		string(data[:len(textsMagic)]) != textsMagic && string(data[:len(textsMagic)]) != scopesMagic {
		return damaged("found something else than texts")
	}
	end := len(data) - sum
	if crc32.Checksum(data[:end], castagnoli) != binary.LittleEndian.Uint32(data[end:]) {
		return damaged("found another checksum of the texts")
	}
	r := bytes.NewReader(data[len(textsMagic):end])
	nodes, leaf, all := []scopedText{{origin: first}}, []bool{false}, 0
	for r.Len() > 0 {
		parent, err := binary.ReadUvarint(r)
		n, err2 := binary.ReadUvarint(r)
		if err != nil || err2 != nil || parent >= uint64(len(nodes)) || n > uint64(r.Len()) ||
			n == 0 && (string(data[:len(scopesMagic)]) != scopesMagic || r.Len() < len(key{})) {
			return damaged("found a text of %d ids after the text %d of %d", n, parent, len(nodes))
		}
		if n == 0 {
			var root scopedText
			_, _ = r.Read(root.origin[:]) // there are enough bytes
			nodes, leaf = append(nodes, root), append(leaf, false)
			continue
		}
		// The limit is generous, since texts share prefixes.
		if all += len(nodes[parent].syms) + int(n); all > 16*mostTexts {
			break
		}
		own := slices.Grow(slices.Clone(nodes[parent].syms), int(n))
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
		nodes, leaf = append(nodes, scopedText{nodes[parent].origin, own}), append(leaf, true)
	}
	for i, text := range nodes {
		if leaf[i] {
			texts = append(texts, text)
		}
	}
	return texts, nil
}

// WriteTexts writes the known texts to the bucket, without their marks. Stores that start later can then report where a
// text diverges from them. Errors are both reported and returned.
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

// writeTexts writes the texts and removes the objects from which earlier ones were read.
func (s *Store) writeTexts(ctx context.Context) error {
	s.mu.Lock()
	data, folder := s.encodeTexts()
	old := s.texts
	s.mu.Unlock()
	sum := sha256.Sum256(data)
	name := s.model + folder + hex.EncodeToString(sum[:idLen])
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

// readTexts reads the texts that stores of this identity have written. It reports and skips unreadable ones.
func (s *Store) readTexts(ctx context.Context) {
	for _, name := range slices.Clone(s.texts) {
		data, err := s.o.Bucket.Get(ctx, name)
		if errors.Is(err, fs.ErrNotExist) { // another process has merged it into its own object
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
		var texts []scopedText
		if err == nil {
			texts, err = decodeTexts(plain, s.tree.first)
		}
		if err != nil {
			s.setAside(ctx, name, data, err)
			continue
		}
		s.learnTexts(texts)
	}
}

// learnTexts adds texts without marks to the tree, within their share of the memory.
func (s *Store) learnTexts(texts []scopedText) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, text := range texts {
		r := &reading{syms: text.syms}
		if s.tree.bareBytes+textSize(r, nil, 0) > s.o.Memory/bareShare {
			return
		}
		w := s.tree.root(text.origin).follow(r)
		s.tree.grow(&w, r)
	}
}

// isTexts reports whether an object stores texts of this identity.
func (s *Store) isTexts(name string) bool {
	return strings.HasPrefix(name, s.model+textsFolder) || strings.HasPrefix(name, s.model+scopesFolder)
}
