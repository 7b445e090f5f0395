package checkpoint

import (
	"math/big"

	"github.com/hippo-ssm/hippo/internal/fault"
)

// The layout of torch.save before 1.6: five consecutive pickles - the magic number, the protocol version, a dictionary
// about the machine, the object, the list of the keys of all storages - and then the storages in the order of that
// list, each as its number of elements (8 bytes) and the elements.

const legacyVersion = 1001

var legacyMagic, _ = new(big.Int).SetString("1950a86a20f9469cfc6c", 16)

func readLegacy(data []byte) *saved {
	u := newUnpickler(data)
	if magic := fault.Must(u.load()); !isLegacyMagic(magic) {
		fault.Raisef("the pickle holds %s, want the magic number of torch.save", describe(magic))
	}
	if version := fault.Must(u.load()); version != int64(legacyVersion) {
		fault.Raisef("found version %s of the format, want %d", describe(version), legacyVersion)
	}
	if machine := asDict(fault.Must(u.load())); machine == nil || machine.get("little_endian") != true {
		fault.Raisef("the file was not saved on a little-endian machine")
	}
	start := u.pos
	object := fault.Must(u.load())
	size := u.pos - start
	storages := readStorages(u)
	return &saved{object, size, func(s *pyStorage) []byte { return legacyStorage(storages, s) }}
}

func isLegacyMagic(v any) bool {
	n, ok := v.(*big.Int)
	return ok && n.Cmp(legacyMagic) == 0
}

// readStorages reads the keys and the storages after them, which are parts of the file.
func readStorages(u *unpickler) map[string][]byte {
	elems := make(map[string]elemType, len(u.storages))
	for _, s := range u.storages {
		elems[s.key] = s.elem
	}
	var v any
	fault.Within("keys of the storages", func() { v = fault.Must(u.load()) })
	keys, ok := items(v)
	if !ok {
		fault.Raisef("keys of the storages: found %s, want a list", describe(v))
	}
	out := make(map[string][]byte, len(keys))
	for _, k := range keys {
		key, _ := k.(string)
		elem, ok := elems[key]
		if !ok || elem.size() == 0 {
			fault.Raisef("storage %s: its element size is not known (type %q)", describe(k), elem.name)
		}
		n, ok := uint64At(u.data, u.pos)
		if !ok {
			fault.Raisef("storage %.20q: the file ends at byte %d, before its length", key, len(u.data))
		}
		u.pos += 8
		left := uint64(len(u.data) - u.pos)
		if n > left/uint64(elem.size()) {
			fault.Raisef("storage %.20q: found a length of %d elements of %s, but only %d bytes are left",
				key, n, elem.name, left)
		}
		out[key] = u.take(n * uint64(elem.size()))
	}
	return out
}

// legacyStorage returns the bytes of a storage or, if it is a view, of its part of another storage.
func legacyStorage(storages map[string][]byte, s *pyStorage) []byte {
	d, ok := storages[s.key]
	if !ok {
		fault.Raisef("the file has no storage %.20q", s.key)
	}
	size := s.elem.size()
	if size == 0 {
		return d // materialize reports that the type is not supported
	}
	have := len(d) / size
	if have != s.numel {
		fault.Raisef("storage %.20q has %d elements of %s, but the pickle wants %d",
			s.key, have, s.elem.name, s.numel)
	}
	if s.view == nil {
		return d
	}
	if s.view.offset > have || s.view.numel > have-s.view.offset {
		fault.Raisef("a view of storage %.20q has %d elements from %d, but the storage has only %d", s.key,
			s.view.numel, s.view.offset, have)
	}
	return d[s.view.offset*size:][:s.view.numel*size]
}
