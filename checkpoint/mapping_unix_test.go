//go:build unix

package checkpoint

import (
	"bytes"
	"errors"
	"os"
	"testing"

	"github.com/hippo-ssm/hippo/internal/disk"
)

// TestFileCutShort truncates a mapped file after it was opened: the pages after the new end fault when they are read.
func TestFileCutShort(t *testing.T) {
	var b bytes.Buffer
	values := make([]float32, 1<<18)
	if err := WriteSafetensors(&b,
		[]Tensor{NewTensor("w", []int{len(values)}, values), NewTensor("i", []int{1}, []int64{7})}, nil); err != nil {
		t.Fatal(err)
	}
	path := writeTemp(t, b.Bytes())
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := os.Truncate(path, 100); err != nil {
		t.Fatal(err)
	}
	for _, name := range f.Names() {
		x, _ := f.Tensor(name)
		if _, err := x.Float32(); !errors.Is(err, disk.ErrFault) {
			t.Errorf("%s: Float32 gives %v, want %v", name, err, disk.ErrFault)
		}
		if _, err := x.Int64(); !errors.Is(err, disk.ErrFault) {
			t.Errorf("%s: Int64 gives %v, want %v", name, err, disk.ErrFault)
		}
	}
}
