package task

import (
	"archive/tar"
	"bytes"
	"strings"
	"testing"
)

// FuzzIMDb checks that an archive with any content gives reviews with text and a label, or an error.
func FuzzIMDb(f *testing.F) {
	archive := func(names ...string) []byte {
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		for _, name := range names {
			text := "a film: " + name
			if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(text))}); err != nil {
				f.Fatal(err)
			}
			if _, err := w.Write([]byte(text)); err != nil {
				f.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			f.Fatal(err)
		}
		return b.Bytes()
	}
	f.Add(archive("aclImdb/train/pos/0_9.txt", "aclImdb/test/neg/1_1.txt"))
	f.Add(archive("train/unsup/0_0.txt", "../pos/x.txt"))
	f.Add([]byte("no archive"))
	f.Fuzz(func(t *testing.T, b []byte) {
		r := &imdbReader{maxLength: 16}
		err := eachInTar(t.Context(), bytes.NewReader(b), r.add)
		for i, split := range imdbSplits {
			for _, x := range r.reviews[i] {
				if len(x.text) == 0 || len(x.text) > 64 || x.label != 0 && x.label != 1 ||
					!strings.HasSuffix(x.name, ".txt") {
					t.Fatalf("%s: review %+v (%v)", split, x, err)
				}
			}
			r.check(split, r.reviews[i]) // with or without an error
		}
	})
}
