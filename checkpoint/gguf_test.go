package checkpoint

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/internal/fault"
)

// ggufSample returns a file with a value of each kind and a tensor of each type that can be written.
func ggufSample(t testing.TB) ([]byte, []Tensor) {
	t.Helper()
	rng := rand.New(rand.NewPCG(1, 2))
	x := make([]float32, 3*64)
	for i := range x {
		x[i] = float32(rng.NormFloat64())
	}
	var tensors []Tensor
	for _, d := range []DType{F32, F16, BF16, Q8_0, Q4_0} {
		c, err := ConvertTensor("blk.0."+string(d), d, []int{3, 64}, x)
		if err != nil {
			t.Fatal(err)
		}
		tensors = append(tensors, c)
	}
	tensors = append(tensors, NewTensor("vector", []int{5}, []float32{1, 2, 3, 4, 5}))
	values := []GGUFValue{
		{"general.architecture", "mamba"}, {"mamba.block_count", uint32(24)}, {"a.int", int32(-7)},
		{"a.float", float32(0.25)}, {"a.bool", true}, {"tokens", []string{"a", "", "日本"}},
		{"scores", []float32{-1, 2}}, {"types", []int32{1, -3}}, {"ids", []uint32{7}}, {"flags", []bool{true, false}},
	}
	var b bytes.Buffer
	if err := WriteGGUF(&b, values, tensors); err != nil {
		t.Fatal(err)
	}
	return b.Bytes(), tensors
}

func readGGUF(data []byte) (*File, error) {
	f := &File{path: "test", mapping: &mapping{data: data}, tensors: map[string]*Tensor{}, meta: map[string]string{}}
	return f, fault.Catch(f.readGGUF)
}

// TestGGUFRoundTrip checks that values are read back with their kinds, and tensors with their bytes.
func TestGGUFRoundTrip(t *testing.T) {
	data, tensors := ggufSample(t)
	path := filepath.Join(t.TempDir(), "model.gguf")
	if err := os.WriteFile(path, data, 0o666); err != nil {
		t.Fatal(err)
	}
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	want := map[string]any{
		"general.architecture": "mamba", "mamba.block_count": uint64(24), "a.int": int64(-7), "a.float": 0.25,
		"a.bool": true, "tokens": []string{"a", "", "日本"}, "scores": []float64{-1, 2}, "types": []int64{1, -3},
		"ids": []uint64{7}, "flags": []bool{true, false},
	}
	if !reflect.DeepEqual(f.Values(), want) {
		t.Errorf("values are %v, want %v", f.Values(), want)
	}
	if f.Format() != FormatGGUF || len(f.Names()) != len(tensors) {
		t.Errorf("found %s with %q", f.Format(), f.Names())
	}
	for _, w := range tensors {
		x, ok := f.Tensor(w.Name)
		if !ok || x.DType != w.DType || !slices.Equal(x.Shape, w.Shape) || !bytes.Equal(x.Data, w.Data) {
			t.Errorf("%s: found %v, want %v", w.Name, x, w)
		}
	}
}

// TestHostileGGUF checks that the error for an invalid file says what was found, and that the file costs no more memory
// than its size.
func TestHostileGGUF(t *testing.T) {
	good, _ := ggufSample(t)
	at := func(offset int, b ...byte) []byte {
		bad := bytes.Clone(good)
		copy(bad[offset:], b)
		return bad
	}
	huge := []byte{255, 255, 255, 255, 255, 255, 255, 127}
	key := bytes.Index(good, []byte("tokens")) + len("tokens")
	tensor := bytes.Index(good, []byte("blk.0.F32")) + len("blk.0.F32")
	for name, c := range map[string]struct {
		data []byte
		want string
	}{
		"version 1":            {at(4, 1), "version 1"},
		"big-endian":           {at(4, 0, 0, 0, 3), "little-endian"},
		"tensors":              {at(8, huge...), "found"}, // the bytes after it are read as a tensor
		"values":               {at(16, huge...), ""},
		"length of an array":   {at(key+8, huge...), "length"},
		"type of a value":      {at(key, 77), "type 77"},
		"array of arrays":      {at(key+4, 9), "array of type 9"},
		"axes":                 {at(tensor, 9), "9 axes"},
		"shape":                {at(tensor+4, huge...), "not possible"},
		"type of a tensor":     {at(tensor+4+16, 11), "Q3_K"},
		"offset":               {at(tensor+4+16+4, 64), "starts at byte 64"},
		"cut":                  {good[:len(good)-40], "but the file has only"},
		"cut in the header":    {good[:60], "ends"},
		"magic alone":          {[]byte("GGUF"), "ends"},
		"name that is no text": {at(bytes.Index(good, []byte("a.int")), 0xff), "UTF-8"},
	} {
		_, err := readGGUF(c.data)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: found %v, want an error about %q", name, err, c.want)
		}
	}
	if err := WriteGGUF(&bytes.Buffer{}, []GGUFValue{{"k", 5}}, nil); err == nil {
		t.Error("a value of type int is written")
	}
	if _, err := ConvertTensor("x", Q8_0, []int{2, 16}, make([]float32, 32)); err == nil {
		t.Error("rows of half a block are written")
	}
}

// TestGGUFArraysAreBounded checks that the memory of arrays is bounded, however large a file is, and however its
// elements are divided among arrays.
func TestGGUFArraysAreBounded(t *testing.T) {
	written := func(values ...GGUFValue) []byte {
		var b bytes.Buffer
		x := NewTensor("vector", []int{1}, []float32{1})
		values = append(values, GGUFValue{"general.architecture", "mamba"})
		if err := WriteGGUF(&b, values, []Tensor{x}); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	half := make([]byte, maxGGUFElements/2)
	if _, err := readGGUF(written(GGUFValue{"a", half}, GGUFValue{"b", half})); err != nil {
		t.Errorf("as many as may be: %v", err)
	}
	for name, data := range map[string][]byte{
		"bytes": written(GGUFValue{"a", make([]byte, 16*maxGGUFElements)}),
		"texts": written(GGUFValue{"a", make([]string, 2*maxGGUFElements)}),
		"two":   written(GGUFValue{"a", half}, GGUFValue{"b", half}, GGUFValue{"c", []bool{true}}),
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := readGGUF(data)
		runtime.ReadMemStats(&after)
		used := after.TotalAlloc - before.TotalAlloc
		if err == nil || !strings.Contains(err.Error(), "elements of arrays at byte") || used > 9*maxGGUFElements {
			t.Errorf("%s: %d bytes of memory for a file of %d, %v", name, used, len(data), err)
		}
	}
}

func FuzzGGUF(f *testing.F) {
	good, _ := ggufSample(f)
	f.Add(good)
	f.Add(good[:200])
	f.Add([]byte("GGUF\x03\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := readGGUF(data)
		if err != nil {
			return
		}
		total := 0
		for _, name := range file.Names() {
			x, _ := file.Tensor(name)
			total += len(x.Data)
			if _, err := x.Float32(); err != nil {
				t.Fatal(err)
			}
		}
		if total > len(data) {
			t.Fatalf("tensors of %d bytes in a file of %d", total, len(data))
		}
	})
}
