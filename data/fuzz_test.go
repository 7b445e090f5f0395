package data

import (
	"io"
	"strings"
	"testing"
)

// FuzzIndex checks that any index of content hashes can be read, and that its entries are valid.
func FuzzIndex(f *testing.F) {
	f.Add([]byte(`{"version":2,"files":{"/a":{"stat":{"size":5,"mtime":1,"inode":7},"content":{"bytes":5,"sha256":"` +
		strings.Repeat("A", 43) +
		`=","nul":-1,"look":{"sampled":5,"nuls":0,"control":0,"invalid":0}}}},"verified":{"/b":{"size":1}}}`))
	f.Add([]byte(`{"version":1}`))
	f.Add([]byte(`{"version":2,"files":{"":{"content":{"bytes":-1}}}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		x := &index{}
		if x.parse(text) != nil {
			return
		}
		for path, e := range x.Files {
			c := e.Content
			if c.Bytes < 0 || c.NUL < -1 || c.NUL > c.Bytes || len(c.SHA256) != 32 {
				t.Fatalf("%s: accepted %+v", path, c)
			}
			if found, ok := x.find(path, e.Stat); !ok || found.Bytes != c.Bytes {
				t.Fatalf("%s: found %+v, %v", path, found, ok)
			}
			c.check(path, SourceOptions{}) // must not panic
			c.Look.remark()
		}
		x.find("/elsewhere", fileStat{Size: 1 << 30, Inode: 7})
	})
}

// FuzzPacked checks that any compressed file gives text or an error that names the file, and no more text than the
// limit for unpacking allows.
func FuzzPacked(f *testing.F) {
	for _, text := range []string{"", "call me ishmael", strings.Repeat("a", 4000)} {
		f.Add(gzipBytes(f, []byte(text)), false)
		f.Add(zstdBytes(f, []byte(text)), true)
	}
	f.Fuzz(func(t *testing.T, b []byte, zst bool) {
		if len(b) == 0 {
			return // an empty embedded text counts as none
		}
		s := source{path: "the file", format: FormatText, packing: gzipped, embed: b}
		if zst {
			s.packing = zstandard
		}
		defer func(n int64) { unpackedAnyway = n }(unpackedAnyway)
		unpackedAnyway = 1 << 20
		c, err := readContent(s, SourceOptions{Binary: true})
		if err != nil {
			if !strings.Contains(err.Error(), "the file") {
				t.Fatalf("the error does not name the file: %v", err)
			}
			return
		}
		if most := max(unpackedAnyway, int64(len(b))*mostUnpacked) + 1<<20; c.Bytes > most {
			t.Fatalf("%d bytes unpacked to %d", len(b), c.Bytes)
		}
		r, err := s.open()
		if err != nil {
			t.Fatal(err)
		}
		if n, err := io.Copy(io.Discard, r); n != c.Bytes || err != nil {
			t.Fatalf("a second time %d bytes, %v; want %d", n, err, c.Bytes)
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

// FuzzLook checks that look accepts any beginning of a file.
func FuzzLook(f *testing.F) {
	f.Add([]byte("text"))
	f.Add([]byte("\xff\xfet\x00e\x00x\x00t\x00"))
	f.Add([]byte("t\x00e\x00x\x00t\x00 \x00t\x00e\x00x\x00t\x00"))
	f.Fuzz(func(t *testing.T, head []byte) {
		var l look
		l.begin(head)
		l.add(head)
		if n := l.NULs + l.Control + l.Invalid; n > l.Sampled ||
			l.Sampled != int64(min(len(head), sampleHead)+len(head)) {
			t.Fatalf("%+v of %d bytes", l, len(head))
		}
		l.remark()
	})
}
