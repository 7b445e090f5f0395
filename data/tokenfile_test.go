package data

import (
	"bytes"
	"context"
	"encoding/binary"
	"hash/crc32"
	"math"
	"os"
	"path/filepath"
	"testing"
)

// sampleFile returns a small token file and the header that it must have.
func sampleFile(t testing.TB) ([]byte, *header) {
	t.Helper()
	dir := t.TempDir()
	c := open(t, noCache, write(t, dir+"/a.txt", []byte("some text")), write(t, dir+"/b.txt", []byte("more")))
	enc := decodingEncoder{byteEncoder{eot: true}}
	tok, _, err := Tokenize(context.Background(), c, enc, TokenOptions{CacheDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer tok.Close()
	files, err := filepath.Glob(dir + "/*.tok")
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	b, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	return b, (&builder{corpus: c, enc: enc}).header()
}

func TestHeaderRoundTrip(t *testing.T) {
	for _, h := range []*header{
		{tokens: 1, documents: 1, vocab: 256, endOfText: -1},
		{tokens: 12, documents: 3, vocab: 65536, textBytes: 9, endOfText: 65535, lengths: true, crc: 5,
			content: [32]byte{1}, tokenizer: [32]byte{31: 2}},
		{tokens: maxTokens, documents: 1 << 40, vocab: maxVocab, textBytes: math.MaxInt64, endOfText: 0, lengths: true},
	} {
		b := h.marshal()
		got, err := parseHeader(b, headerSize+h.payload())
		if err != nil || *got != *h || len(b) != headerSize {
			t.Errorf("%+v came back as %+v, %v", h, got, err)
		}
	}
}

func TestHeaderErrors(t *testing.T) {
	good := header{tokens: 10, documents: 2, vocab: 300, textBytes: 20, endOfText: -1}
	change := func(f func(*header)) []byte { h := good; f(&h); return h.marshal() }
	poke := func(off int, v uint32) []byte { // also corrects the header's checksum
		b := good.marshal()
		binary.LittleEndian.PutUint32(b[off:], v)
		binary.LittleEndian.PutUint32(b[128:], crc32.Checksum(b[:128], castagnoli))
		return b
	}
	badSum := good.marshal()
	badSum[20]++
	for _, tc := range []struct {
		header []byte
		size   int64
		want   string
	}{
		{good.marshal()[:headerSize-1], 152, "found 131 bytes, want a header of 132"},
		{append([]byte("SAFETENS"), good.marshal()[8:]...), 152, `magic: found "SAFETENS", want "HIPPOTOK"`},
		{poke(8, 2), 152, "version: found 2, want 1"},
		{badSum, 152, "header checksum: found "},
		{poke(12, 4), 152, "bytes per token: found 4, want 2"},
		{poke(120, 8), 152, "tables: found 8, want at most 7"},
		{change(func(h *header) { h.vocab = 0 }), 152, "vocab_size: found 0"},
		{change(func(h *header) { h.vocab = maxVocab + 1 }), 152, "vocab_size: found 67108865"},
		{change(func(h *header) { h.tokens = 0 }), 152, "tokens: found 0"},
		{change(func(h *header) { h.tokens = -1 }), 152, "tokens: found -1"},
		{change(func(h *header) { h.tokens = maxTokens + 1 }), 152, "tokens: found "},
		{change(func(h *header) { h.documents = 0 }), 152, "found 0 documents"},
		{change(func(h *header) { h.textBytes = -1 }), 152, "of -1 bytes"},
		{change(func(h *header) { h.endOfText = 300 }), 152, "end-of-text id: found 300"},
		{change(func(h *header) { h.endOfText = -2 }), 152, "end-of-text id: found -2"},
		{good.marshal(), 151, "file size: found 151 bytes, want 152 for 10 tokens"},
		{good.marshal(), 153, "file size: found 153 bytes, want 152"},
		{change(func(h *header) { h.lengths = true }), 152, "file size: found 152 bytes, want 1352"},
	} {
		_, err := parseHeader(tc.header, tc.size)
		wantError(t, err, tc.want)
	}
}

// TestDamagedFiles checks that a file with any bit flipped, or truncated anywhere, is an error.
func TestDamagedFiles(t *testing.T) {
	b, want := sampleFile(t)
	p := filepath.Join(t.TempDir(), "x.tok")
	read := func(b []byte) error {
		write(t, p, b)
		s, err := openTokenFile(p, want, false)
		if err == nil {
			err = s.close()
		}
		return err
	}
	if err := read(b); err != nil {
		t.Fatal(err)
	}
	for i := range b {
		if read(b[:i]) == nil {
			t.Errorf("cut to %d of %d bytes: no error", i, len(b))
		}
		damaged := bytes.Clone(b)
		damaged[i] ^= 1 << (i % 8)
		if read(damaged) == nil {
			t.Errorf("bit %d of byte %d flipped: no error", i%8, i)
		}
	}
	if read(append(b, 0)) == nil {
		t.Error("one byte more: no error")
	}
	wantError(t, read(nil), "x.tok", "found 0 bytes")

	other := *want
	other.content[0]++
	if _, err := openTokenFile(p, &other, false); err == nil {
		t.Error("a file of other data: no error")
	}
}

// TestIDOutsideVocabulary checks that an invalid id is an error even if the checksums are correct.
func TestIDOutsideVocabulary(t *testing.T) {
	h := &header{tokens: 2, documents: 1, vocab: 3, endOfText: -1}
	payload := []byte{2, 0, 3, 0}
	h.crc = crc32.Checksum(payload, castagnoli)
	err := newStore(h, payload).verify()
	wantError(t, err, "token 1: found id 3, want 0 to 2")
}

// FuzzTokenFile checks that any file gives an error or tokens that can be read.
func FuzzTokenFile(f *testing.F) {
	b, _ := sampleFile(f)
	f.Add(b, true)
	f.Add(b[:headerSize+4], true)
	f.Add(b[:40], false)
	f.Add([]byte{}, false)
	f.Fuzz(func(t *testing.T, b []byte, fix bool) {
		if fix && len(b) >= headerSize { // lets the fuzzer get past the checksums
			binary.LittleEndian.PutUint32(b[124:], crc32.Checksum(b[headerSize:], castagnoli))
			binary.LittleEndian.PutUint32(b[128:], crc32.Checksum(b[:128], castagnoli))
		}
		h, err := parseHeader(b, int64(len(b)))
		if err != nil {
			return
		}
		s := newStore(h, b[headerSize:])
		if s.verify() != nil {
			return
		}
		tok := s.all()
		for i := range tok.Len() {
			if id := tok.At(i); id < 0 || int(id) >= tok.VocabSize() {
				t.Fatalf("token %d: id %d of %d", i, id, tok.VocabSize())
			}
		}
		bytesOf(tok.Slice(tok.Len()/2, tok.Len())) // each part once, to keep the time linear
		bytesOf(tok.Slice(0, tok.Len()/3))
	})
}
