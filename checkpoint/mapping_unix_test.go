//go:build unix

package checkpoint

import (
	"bytes"
	"errors"
	"os"
	"testing"
)

// TestFileCutShort cuts a mapped file after it was opened: the pages behind the new end fault when they are read.
func TestFileCutShort(t *testing.T) {
	var b bytes.Buffer
	values := make([]float32, 1<<18)
	if err := WriteSafetensors(&b, []Tensor{NewTensor("w", []int{len(values)}, values), NewTensor("i", []int{1}, []int64{7})}, nil); err != nil {
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
		if _, err := x.Float32(); !errors.Is(err, errFault) {
			t.Errorf("%s: Float32 gives %v, want %v", name, err, errFault)
		}
		if _, err := x.Int64(); !errors.Is(err, errFault) {
			t.Errorf("%s: Int64 gives %v, want %v", name, err, errFault)
		}
	}
}

// TestGuardPassesPanics: only faults of memory become errors.
func TestGuardPassesPanics(t *testing.T) {
	for _, bad := range []func(){
		func() { panic("mistake") },
		func() { var p *File; _ = p.names },
		func() { var s []int; _ = s[len(os.Args)+5] },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Error("guard swallowed a panic")
				}
			}()
			t.Errorf("guard returned %v", guard(bad))
		}()
	}
}
