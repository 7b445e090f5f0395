package checkpoint

import (
	"archive/zip"
	"bytes"
	"hash/crc32"
	"io"
	"strings"

	"github.com/hippo-ssm/hippo/internal/fault"
)

// The zip layout of torch.save has everything in one folder NAME: NAME/data.pkl is the pickle of the object,
// NAME/data/KEY the bytes of a storage, and NAME/byteorder (in newer files) "little" or "big". Entries are stored
// without compression, but they may be deflated in archives that were packed again.

// zipFile is an open archive.
type zipFile struct {
	data     []byte
	entries  map[string]*zip.File
	inflated int // bytes that deflated entries may still take
}

func readZip(data []byte) *saved {
	r, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		fault.Raisef("zip archive (cut short?): %w", err)
	}
	z := &zipFile{data: data, entries: make(map[string]*zip.File, len(r.File)), inflated: 64<<20 + 16*len(data)}
	folder, found := "", false
	for _, e := range r.File {
		if z.entries[e.Name] != nil {
			fault.Raisef("the archive has two entries %.100q", e.Name)
		}
		z.entries[e.Name] = e
		if dir, ok := strings.CutSuffix(e.Name, "data.pkl"); ok && strings.Count(dir, "/") == min(len(dir), 1) {
			if found {
				fault.Raisef("the archive has both %sdata.pkl and %s", folder, e.Name)
			}
			folder, found = dir, true
		}
	}
	if !found {
		fault.Raisef("the archive has no entry NAME/data.pkl, so it is not of torch.save")
	}
	z.checkByteOrder(folder + "byteorder")
	pickle := z.read(folder + "data.pkl")
	u := newUnpickler(pickle)
	object, err := u.load()
	if err != nil {
		fault.Raisef("%sdata.pkl: %w", folder, err)
	}
	cache := map[string][]byte{} // a storage that several tensors share is inflated once
	return &saved{object, len(pickle), func(s *pyStorage) []byte {
		name := folder + "data/" + s.key
		d, ok := cache[name]
		if !ok {
			d = z.read(name)
			cache[name] = d
		}
		if want, ok := mul(s.numel, s.elem.size()); s.elem.size() > 0 && (!ok || len(d) != want) {
			fault.Raisef("%s has %d bytes, but the pickle wants %d elements of %s",
				name, len(d), s.numel, s.elem.name)
		}
		return d
	}}
}

func (z *zipFile) checkByteOrder(name string) {
	if z.entries[name] == nil {
		return
	}
	if order := z.read(name); string(order) != "little" {
		fault.Raisef("%s is %.20q, want \"little\": save the file on a little-endian machine", name, order)
	}
}

// read returns the content of an entry: a part of the file if it is stored, as all entries of torch.save are. It
// verifies the checksum, except if that is 0, which means none and is an option of torch.
func (z *zipFile) read(name string) []byte {
	e := z.entries[name]
	if e == nil {
		fault.Raisef("the archive has no entry %.100q", name)
	}
	if e.Flags&1 != 0 {
		fault.Raisef("%s is encrypted", name)
	}
	if e.Method == zip.Deflate {
		return z.inflate(e)
	}
	if e.Method != zip.Store || e.CompressedSize64 != e.UncompressedSize64 {
		fault.Raisef("%s is packed by method %d, want 0 (stored) or 8 (deflated)", name, e.Method)
	}
	at, err := e.DataOffset()
	if err != nil {
		fault.Raisef("%s: %w", name, err)
	}
	left := int64(len(z.data)) - at
	if at < 0 || left < 0 || e.UncompressedSize64 > uint64(left) {
		fault.Raisef("%s starts at byte %d and has %d bytes, but the file has only %d", name, at,
			e.UncompressedSize64, len(z.data))
	}
	content := z.data[at:][:e.UncompressedSize64:e.UncompressedSize64]
	if e.CRC32 == 0 {
		return content
	}
	if got := crc32.ChecksumIEEE(content); got != e.CRC32 {
		fault.Raisef("%s: found the checksum %08x, want %08x as in the archive: the file is damaged",
			name, got, e.CRC32)
	}
	return content
}

func (z *zipFile) inflate(e *zip.File) []byte {
	if e.UncompressedSize64 > uint64(z.inflated) {
		fault.Raisef("%s unpacks to %d bytes, more than a file of %d bytes may", e.Name,
			e.UncompressedSize64, len(z.data))
	}
	z.inflated -= int(e.UncompressedSize64)
	r, err := e.Open()
	if err != nil {
		fault.Raisef("%s: %w", e.Name, err)
	}
	defer r.Close()
	b := make([]byte, e.UncompressedSize64)
	if _, err := io.ReadFull(r, b); err != nil {
		fault.Raisef("%s: unpacking %d bytes: %w", e.Name, len(b), err)
	}
	// zip compares the checksum at the end of the entry.
	switch _, err := r.Read(make([]byte, 1)); err {
	case io.EOF:
	case nil:
		fault.Raisef("%s unpacks to more than the %d bytes listed in the archive", e.Name, len(b))
	default:
		fault.Raisef("%s: %w", e.Name, err)
	}
	return b
}
