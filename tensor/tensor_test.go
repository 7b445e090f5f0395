package tensor

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestShape(t *testing.T) {
	x := New(2, 3, 4)
	if x.Len() != 24 || x.Dims() != 3 || x.Dim(0) != 2 || x.Dim(-1) != 4 || x.Dim(-3) != 2 ||
		x.Rows() != 6 || x.String() != "(2, 3, 4)" {
		t.Errorf("%v: %d elements, %d axes, %d rows", x, x.Len(), x.Dims(), x.Rows())
	}
	x.Shape()[0] = 9 // a copy
	if !slices.Equal(x.Shape(), []int{2, 3, 4}) || !x.SameShape(New(2, 3, 4)) || x.SameShape(New(2, 3)) ||
		x.SameShape(New(2, 3, 4, 1)) {
		t.Errorf("shape %v", x.Shape())
	}
	if New(3, 0).Rows() != 0 || New().Len() != 1 {
		t.Error("empty shapes are counted wrongly")
	}
}

// TestStorage checks which functions copy, which share, and which count as a change.
func TestStorage(t *testing.T) {
	src := []float32{1, 2, 3}
	shared, copied := FromSlice(src, 3), New(3)
	copied.CopyFrom(src)
	clone := shared.Clone()
	src[0] = 7
	if shared.Data()[0] != 7 || copied.Data()[0] != 1 || clone.Data()[0] != 1 || !clone.SameShape(shared) {
		t.Errorf("shared %v, copied %v, clone %v", shared.Data(), copied.Data(), clone.Data())
	}
	out := make([]float32, 5)
	if n := shared.CopyTo(out); n != 3 || out[0] != 7 || out[3] != 0 {
		t.Errorf("CopyTo copied %d: %v", n, out)
	}
	v := copied.Version()
	copied.Changed()
	copied.CopyFrom(src)
	copied.SetData(src)
	if copied.Version() != v+3 {
		t.Errorf("three changes take the version from %d to %d", v, copied.Version())
	}
	copied.Zero()
	if src[2] != 0 {
		t.Error("SetData does not share")
	}
	result := NewArena().Tensor(3)
	result.SetGrad(make([]float32, 3))
	if clone := result.Clone(); clone.Grad() != nil || clone.Lent() || !result.Lent() {
		t.Error("a clone of a result has a gradient, or is lent as well")
	}
}

// TestCopyRowTo checks that a row is copied from any kind of storage, without its neighbors.
func TestCopyRowTo(t *testing.T) {
	x := FromSlice([]float32{1, 2, 3, 4, 5, 6}, 3, 2)
	stored := Stored(&halves{x: []float32{1, 2, 3, 4, 5, 6}}, 3, 2)
	for _, x := range []*Tensor{x, stored} {
		for i := range 3 {
			got := []float32{-1, -1, -1}
			x.CopyRowTo(got, i)
			if want := []float32{float32(2*i + 1), float32(2*i + 2), -1}; !slices.Equal(got, want) {
				t.Errorf("row %d: %v, want %v", i, got, want)
			}
		}
	}
}

// halves is a storage that takes two bytes for each element.
type halves struct{ x []float32 }

func (h *halves) Len() int           { return len(h.x) }
func (h *halves) Bytes() int         { return 2 * len(h.x) }
func (h *halves) Like(n int) Storage { return &halves{x: make([]float32, n)} }
func (h *halves) Read(dst []float32) { copy(dst, h.x) }
func (h *halves) Write(x []float32)  { copy(h.x, x) }
func (h *halves) Copy(to int, from Storage, at, n int) {
	copy(h.x[to:to+n], from.(*halves).x[at:at+n])
}

// TestShaped checks that a tensor without storage has a shape, and gets storage when it is filled.
func TestShaped(t *testing.T) {
	x := Shaped(1<<20, 1<<20)
	if x.Len() != 1<<40 || x.Data() != nil {
		t.Errorf("%v has %d elements of storage", x, len(x.Data()))
	}
	y := Shaped(2)
	y.CopyFrom([]float32{1, 2})
	if !slices.Equal(y.Data(), []float32{1, 2}) {
		t.Errorf("filled with %v", y.Data())
	}
}

func TestMisuse(t *testing.T) {
	x := New(2, 3)
	for want, f := range map[string]func(){
		"CopyRowTo: row 2, room for 3":        func() { x.CopyRowTo(make([]float32, 3), 2) },
		"CopyRowTo: row 1, room for 2":        func() { x.CopyRowTo(make([]float32, 2), 1) },
		"SetGrad: 5 values for shape (2, 3)":  func() { NewArena().Tensor(2, 3).SetGrad(make([]float32, 5)) },
		"(2, 3) that no arena lent":           func() { x.SetGrad(make([]float32, 6)) },
		"SetData: 5 values for shape (2, 3)":  func() { x.SetData(make([]float32, 5)) },
		"CopyFrom: 7 values for shape (2, 3)": func() { x.CopyFrom(make([]float32, 7)) },
		"CopyTo: room for 5 values":           func() { x.CopyTo(make([]float32, 5)) },
		"SetData: 4 values for shape (5)":     func() { FromSlice(make([]float32, 4), 5) },
		"5 axes, at most 4":                   func() { New(1, 1, 1, 1, 1) },
	} {
		func() {
			defer func() {
				if msg := fmt.Sprint(recover()); !strings.Contains(msg, want) {
					t.Errorf("panic %q, want %q", msg, want)
				}
			}()
			f()
		}()
	}
}

// TestTogether checks that the slices have their lengths, are zero, follow one another and do not overlap, even when
// appended to.
func TestTogether(t *testing.T) {
	parts := Together(3, 0, 16, 17, 1)
	for i, want := range []int{3, 0, 16, 17, 1} {
		if len(parts[i]) != want {
			t.Fatalf("slice %d has %d elements, want %d", i, len(parts[i]), want)
		}
		for _, v := range append(parts[i], 1)[:want] {
			if v != 0 {
				t.Fatalf("slice %d holds %v", i, v)
			}
		}
		for j := range parts[i] {
			parts[i][j] = float32(i + 1)
		}
	}
	for i, p := range parts {
		for _, v := range p {
			if v != float32(i+1) {
				t.Fatalf("slice %d holds %v, what was written to another", i, v)
			}
		}
	}
}

// otherForm stands for a packed matrix.
type otherForm struct{ n int }

func (f otherForm) Len() int   { return f.n }
func (f otherForm) Bytes() int { return f.n / 2 }

// TestSetPacked checks that a packed form replaces the data, until new data replace it.
func TestSetPacked(t *testing.T) {
	x := New(2, 3)
	before := x.Version()
	x.SetPacked(otherForm{6})
	if x.Packed() != (otherForm{6}) || x.Data() != nil || x.Bytes() != 3 || x.Version() == before {
		t.Errorf("packed %v, data %v, %d bytes, version %d", x.Packed(), x.Data(), x.Bytes(), x.Version())
	}
	x.CopyFrom([]float32{1, 2, 3, 4, 5, 6})
	if x.Packed() != nil || len(x.Data()) != 6 || x.Bytes() != 24 {
		t.Errorf("after CopyFrom: packed %v, data %v, %d bytes", x.Packed(), x.Data(), x.Bytes())
	}
	x.SetPacked(otherForm{6})
	if x.SetData(make([]float32, 6)); x.Packed() != nil {
		t.Error("packed after SetData")
	}
	defer func() {
		if recover() == nil {
			t.Error("a packed form of another length was taken")
		}
	}()
	x.SetPacked(otherForm{5})
}
