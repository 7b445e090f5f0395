// Command ggufs writes models of published shapes with random weights as GGUF files, so that hippo and llama.cpp can be
// measured on the same files (see bench/llama.sh):
//
//	go run ./tools/ggufs [-shrink N] DIR NAME-TYPE...
//
// NAME is the name of one of the shapes, and TYPE is f32, f16, bf16, q8_0, q4_0 or q4_k_m. The file DIR/NAME-TYPE.gguf
// is not changed if it exists.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hippo-ssm/hippo/checkpoint"
	"github.com/hippo-ssm/hippo/internal/disk"
	"github.com/hippo-ssm/hippo/release"
)

func main() {
	shrink := flag.Int("shrink", 1, "divide the layers and the tokens by this, to try it quickly")
	flag.Parse()
	if flag.NArg() < 2 || *shrink < 1 {
		fmt.Fprintln(os.Stderr, "usage: ggufs [-shrink N] DIR NAME-TYPE...")
		os.Exit(2)
	}
	for _, name := range flag.Args()[1:] {
		if err := write(flag.Arg(0), name, *shrink); err != nil {
			fmt.Fprintln(os.Stderr, "ggufs:", err)
			os.Exit(1)
		}
	}
}

// write writes a file, unless it exists.
func write(dir, name string, shrink int) error {
	at := strings.LastIndex(name, "-")
	kind := checkpoint.DType(strings.ToUpper(name[at+1:]))
	make, ok := shapes[name[:max(0, at)]]
	if _, known := fileTypes[kind]; !ok || !known {
		return fmt.Errorf("found %q, want a name with -f32, -f16, -bf16, -q8_0, -q4_0 or -q4_k_m behind it, of %s",
			name, strings.Join(slices.Sorted(maps.Keys(shapes)), ", "))
	}
	path := filepath.Join(dir, name+".gguf")
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f := newFile(kind, shrink)
	if kind == release.Q4_K_M { // the type of a matrix depends on the others
		all := newFile(kind, shrink)
		all.dry = true
		make(all)
		f.types = release.GGUFTensorTypes(kind, all.tensors)
	}
	make(f)
	if f.err != nil {
		return f.err
	}
	return disk.WriteFile(path, func(w io.Writer) error { return checkpoint.WriteGGUF(w, f.values, f.tensors) })
}
