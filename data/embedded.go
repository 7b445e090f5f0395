package data

import (
	_ "embed"
	"encoding/hex"
)

// mobyDick is the compressed text of Moby Dick. embedded/README.md describes its source, its license and how the file
// is made.
//
//go:generate go run embedded/gen.go
//go:embed embedded/moby-dick.txt.zst
var mobyDick []byte

// The expected size and hash of the text. Reading checks them, as for any file of a corpus.
const (
	mobyDickBytes  = 1204997
	mobyDickSHA256 = "fe282a57094ed62e7144fb7c804a9748fc1c909bf3b49d06e7276015f9f67240"
)

// Embedded returns the corpus inside the binary: Herman Melville, Moby-Dick; or, The Whale (1851), chapters 1 to 135,
// in the public domain. Training on it needs no other file. Its name is "moby-dick".
func Embedded() *Corpus {
	sum, err := hex.DecodeString(mobyDickSHA256)
	if err != nil {
		panic(err) // the constant above is wrong
	}
	s := newSource("moby-dick.txt.zst", "moby-dick (embedded)", FormatAuto, false)
	s.embed = mobyDick
	s.content = content{Bytes: mobyDickBytes, SHA256: sum, NUL: -1}
	c := &Corpus{name: "moby-dick", field: DefaultTextField, sources: []source{s}}
	c.hash = c.contentHash()
	return c
}
