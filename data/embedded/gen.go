//go:build ignore

// Command gen compresses the embedded text: go run embedded/gen.go data.txt, in the folder data. Without an argument it
// compresses the embedded text again. That changes nothing unless the compressor has changed.
package main

import (
	"log"
	"os"

	"github.com/klauspost/compress/zstd"
)

const packed = "embedded/moby-dick.txt.zst"

func main() {
	text, err := read()
	if err != nil {
		log.Fatal(err)
	}
	enc, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedBestCompression), zstd.WithWindowSize(2<<20),
		zstd.WithEncoderConcurrency(1))
	if err != nil {
		log.Fatal(err)
	}
	if err := os.WriteFile(packed, enc.EncodeAll(text, nil), 0o666); err != nil {
		log.Fatal(err)
	}
}

func read() ([]byte, error) {
	if len(os.Args) > 1 {
		return os.ReadFile(os.Args[1])
	}
	b, err := os.ReadFile(packed)
	if err != nil {
		return nil, err
	}
	dec, err := zstd.NewReader(nil)
	if err != nil {
		return nil, err
	}
	defer dec.Close()
	return dec.DecodeAll(b, nil)
}
