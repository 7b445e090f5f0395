package checkpoint

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/internal/fault"
)

// sample returns every element type, an empty tensor, a single number and names that JSON must quote.
func sample() ([]Tensor, map[string]string) {
	tensors := []Tensor{
		{Name: "z.half", DType: F16, Shape: []int{3}, Data: []byte{0, 0x3c, 0, 0x40, 0, 0x42}},
		NewTensor("a.double", []int{2, 1}, []float64{1, 2}),
		NewTensor("scalar", nil, []float32{5}),
		NewTensor("empty", []int{0, 4}, []float32{}),
		{Name: "bf", DType: BF16, Shape: []int{1}, Data: []byte{0x80, 0x3f}},
		NewTensor("i64", []int{1}, []int64{-1}), NewTensor("i32", []int{1}, []int32{-1}),
		NewTensor("i16", []int{1}, []int16{-1}), NewTensor("i8", []int{3}, []int8{-1, 0, 1}),
		NewTensor("u8", []int{1}, []uint8{255}),
		{Name: "bool \"quoted\" <ü> \u2028", DType: Bool, Shape: []int{2}, Data: []byte{0, 1}},
	}
	return tensors, map[string]string{"config": `{"d_model": 64}`, "a": "1"}
}

func TestSafetensorsRoundTrip(t *testing.T) {
	tensors, meta := sample()
	var b, again bytes.Buffer
	for _, w := range []*bytes.Buffer{&b, &again} {
		if err := WriteSafetensors(w, tensors, meta); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(b.Bytes(), again.Bytes()) {
		t.Error("two writes of the same tensors differ")
	}
	if n := binary.LittleEndian.Uint64(b.Bytes()); n%8 != 0 {
		t.Errorf("the header has %d bytes, want a multiple of 8", n)
	}
	f := mustOpen(t, b.Bytes())
	if f.Format() != FormatSafetensors || f.Root() != "" || !maps.Equal(f.Metadata(), meta) {
		t.Errorf("format %q, root %q, metadata %q, want %q, nothing and %q", f.Format(), f.Root(),
			f.Metadata(), FormatSafetensors, meta)
	}
	var names []string
	for _, want := range tensors {
		names = append(names, want.Name)
		got, ok := f.Tensor(want.Name)
		if !ok || got.DType != want.DType || !slices.Equal(got.Shape, want.Shape) || !bytes.Equal(got.Data, want.Data) {
			t.Errorf("got %v, want %v", got, want)
		} else if got.Elements() != len(want.Data)/want.DType.Size() {
			t.Errorf("%s: %d elements", want.Name, got.Elements())
		}
	}
	if !slices.Equal(f.Names(), names) {
		t.Errorf("names %q, want %q", f.Names(), names)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	if err := f.Close(); err != nil {
		t.Errorf("closing twice: %v", err)
	}
}

func TestOpenErrors(t *testing.T) {
	_, err := Open(t.TempDir() + "/missing")
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want %v", err, fs.ErrNotExist)
	}
	_, err = Open(t.TempDir())
	wantError(t, err, "want a regular file")
}

func TestSafetensorsEmpty(t *testing.T) {
	var b bytes.Buffer
	if err := WriteSafetensors(&b, nil, nil); err != nil {
		t.Fatal(err)
	}
	if f := mustOpen(t, b.Bytes()); len(f.Names()) != 0 || len(f.Metadata()) != 0 {
		t.Errorf("names %q, metadata %q, want none", f.Names(), f.Metadata())
	}
}

// safetensors puts a header in front of data.
func safetensors(header string, data int) []byte {
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	return append(append(b, header...), make([]byte, data)...)
}

func TestSafetensorsBadFiles(t *testing.T) {
	tensor := func(name, dtype, shape, offsets string) string {
		return fmt.Sprintf(`%q:{"dtype":%q,"shape":%s,"data_offsets":%s}`, name, dtype, shape, offsets)
	}
	a := tensor("a", "F32", "[2]", "[0,8]")
	for name, c := range map[string]struct {
		file  []byte
		words []string
	}{
		"empty file": {nil, []string{"empty"}},
		"no length":  {[]byte("{}"), []string{"2 bytes", "8"}},
		"length beyond file": {[]byte("\xff\xff\xff\xff\xff\xff\xff\xff{}"),
			[]string{"18446744073709551615", "2 bytes"}},
		"length one too large": {[]byte("\x03\x00\x00\x00\x00\x00\x00\x00{}"), []string{"is 3", "2 bytes"}},
		"not JSON":             {safetensors("{nonsense}", 0), []string{"header"}},
		"cut JSON":             {safetensors(`{"a":{"dtype":"F32"`, 0), []string{"ends too early"}},
		"array":                {safetensors(`["a"]`, 0), []string{"want a JSON object"}},
		"not UTF-8":            {safetensors("{\"\xff\":{}}", 0), []string{"UTF-8"}},
		"text after header":    {safetensors("{"+a+"}{}", 8), []string{"after the JSON"}},
		"same tensor twice":    {safetensors("{"+a+","+a+"}", 8), []string{`"a" comes twice`}},
		"same field twice": {safetensors(`{"a":{"dtype":"F32","dtype":"F64","shape":[2],"data_offsets":[0,8]}}`, 8),
			[]string{`"dtype" comes twice`}},
		"metadata twice":     {safetensors(`{"__metadata__":{"k":"1","k":"2"}}`, 0), []string{`"k" comes twice`}},
		"metadata number":    {safetensors(`{"__metadata__":{"k":1}}`, 0), []string{`"k" is not a string`}},
		"metadata null":      {safetensors(`{"__metadata__":{"k":null}}`, 0), []string{`"k" is not a string`}},
		"tensor is a number": {safetensors(`{"a":5}`, 0), []string{`"a"`, "found 5"}},
		"missing field":      {safetensors(`{"a":{"dtype":"F32","shape":[2]}}`, 8), []string{`"a"`, "data_offsets"}},
		"null field": {safetensors(`{"a":{"dtype":"F32","shape":null,"data_offsets":[0,8]}}`, 8),
			[]string{`"a"`, "shape"}},
		"unknown type": {safetensors("{"+tensor("a", "F8_E4M3", "[8]", "[0,8]")+"}", 8),
			[]string{`"F8_E4M3"`, "BF16"}},
		"negative size": {safetensors("{"+tensor("a", "F32", "[-2]", "[0,8]")+"}", 8), []string{`"shape"`}},
		"fraction":      {safetensors("{"+tensor("a", "F32", "[1.5]", "[0,8]")+"}", 8), []string{`"shape"`}},
		"size beyond int": {safetensors("{"+tensor("a", "F32", "[9223372036854775808]", "[0,8]")+"}", 8),
			[]string{"not possible"}},
		"product overflows": {safetensors("{"+tensor("a", "F32", "[4294967296,4294967296]", "[0,0]")+"}", 0),
			[]string{"not possible"}},
		"bytes overflow": {safetensors("{"+tensor("a", "F64", "[2305843009213693952]", "[0,0]")+"}", 0),
			[]string{"not possible"}},
		"three offsets":    {safetensors("{"+tensor("a", "F32", "[2]", "[0,8,8]")+"}", 8), []string{"[0 8 8]"}},
		"offsets reversed": {safetensors("{"+tensor("a", "F32", "[2]", "[8,0]")+"}", 8), []string{"[8 0]"}},
		"wrong size":       {safetensors("{"+tensor("a", "F32", "[3]", "[0,8]")+"}", 8), []string{"8 bytes", "12"}},
		"overlap": {safetensors("{"+a+","+tensor("b", "F32", "[2]", "[4,12]")+"}", 12),
			[]string{`"b"`, "byte 4", "8"}},
		"same bytes": {safetensors("{"+a+","+tensor("b", "F32", "[2]", "[0,8]")+"}", 8),
			[]string{`"b"`, "byte 0", "8"}},
		"gap": {safetensors("{"+a+","+tensor("b", "F32", "[2]", "[12,20]")+"}", 20),
			[]string{`"b"`, "byte 12", "8"}},
		"data too short": {safetensors("{"+a+"}", 7), []string{`"a"`, "byte 8", "7"}},
		"data too long":  {safetensors("{"+a+"}", 9), []string{"byte 8", "9"}},
		"offsets beyond file": {safetensors("{"+tensor("a", "U8", "[18446744073709551615]",
			"[0,18446744073709551615]")+"}", 8), []string{`"a"`}},
	} {
		t.Run(name, func(t *testing.T) {
			path := writeTemp(t, c.file)
			_, err := OpenSafetensors(path)
			wantError(t, err, append(c.words, path)...)
		})
	}
}

// TestSafetensorsAllowed checks files that are unusual but valid.
func TestSafetensorsAllowed(t *testing.T) {
	for name, file := range map[string][]byte{
		"data in another order than the header": safetensors(
			`{"b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]},"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}`,
			3),
		"spaces after the header": safetensors(
			`{"b":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"a":{"dtype":"U8","shape":[],"data_offsets":[2,`+
				`3]}}    `, 3),
		"empty tensor of huge sizes": safetensors(
			`{"b":{"dtype":"U8","shape":[1099511627776,1099511627776,0],"data_offsets":[0,0]},"a":{"dtype":"U8",`+
				`"shape":[0],"data_offsets":[0,0]}}`, 0),
		"unknown field": safetensors(
			`{"b":{"dtype":"U8","new":[{"x":1}],"shape":[2],"data_offsets":[0,2]},"a":{"dtype":"U8","shape":[1],`+
				`"data_offsets":[2,3]}}`, 3),
	} {
		if f := mustOpen(t, file); !slices.Equal(f.Names(), []string{"b", "a"}) {
			t.Errorf("%s: names %q, want those of the header in order", name, f.Names())
		}
	}
}

// TestSafetensorsTruncated cuts a file at every byte.
func TestSafetensorsTruncated(t *testing.T) {
	tensors, meta := sample()
	var b bytes.Buffer
	if err := WriteSafetensors(&b, tensors, meta); err != nil {
		t.Fatal(err)
	}
	path := writeTemp(t, nil)
	for n := range b.Len() {
		if err := os.WriteFile(path, b.Bytes()[:n], 0o666); err != nil {
			t.Fatal(err)
		}
		if f, err := OpenSafetensors(path); err == nil {
			t.Fatalf("the first %d of %d bytes open as a whole file %q", n, b.Len(), f.Names())
		}
	}
}

func TestWriteSafetensorsErrors(t *testing.T) {
	ok := NewTensor("w", []int{2}, []float32{1, 2})
	short := ok
	short.Shape = []int{3}
	named := func(name string) Tensor { x := ok; x.Name = name; return x }
	for _, c := range []struct {
		tensors []Tensor
		meta    map[string]string
		words   []string
	}{
		{[]Tensor{ok, ok}, nil, []string{"two tensors", `"w"`}},
		{[]Tensor{short}, nil, []string{`"w"`, "8 bytes", "12"}},
		{[]Tensor{named("__metadata__")}, nil, []string{"cannot be named"}},
		{[]Tensor{named("\xff")}, nil, []string{"cannot be named"}},
		{[]Tensor{ok}, map[string]string{"k": "\xff"}, []string{`"k"`, "UTF-8"}},
	} {
		var b bytes.Buffer
		wantError(t, WriteSafetensors(&b, c.tensors, c.meta), c.words...)
		if b.Len() > 0 {
			t.Errorf("%d bytes were written before the error", b.Len())
		}
	}
	full := errors.New("no space")
	for n := range 3 {
		err := WriteSafetensors(&failingWriter{after: n, err: full}, []Tensor{ok}, nil)
		if !errors.Is(err, full) || n == 2 && !strings.Contains(err.Error(), `"w"`) {
			t.Errorf("failing at write %d: error %v, want %v", n, err, full)
		}
	}
}

// failingWriter fails after the given number of calls of Write.
type failingWriter struct {
	after int
	err   error
}

func (w *failingWriter) Write(p []byte) (int, error) {
	if w.after--; w.after < 0 {
		return 0, w.err
	}
	return len(p), nil
}

func FuzzSafetensors(f *testing.F) {
	tensors, meta := sample()
	var b bytes.Buffer
	if err := WriteSafetensors(&b, tensors, meta); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes())
	f.Add(safetensors(`{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}`, 8))
	f.Add(safetensors(`{"__metadata__":{"k":"v"}}  `, 0))
	f.Fuzz(func(t *testing.T, data []byte) {
		file := &File{path: "fuzz", mapping: &mapping{data: data}, tensors: map[string]*Tensor{},
			meta: map[string]string{}}
		if fault.Catch(file.readSafetensors) != nil {
			return
		}
		checkTensors(t, file, len(data))
	})
}

// checkTensors converts every tensor of a file, writes the tensors and reads them again. alias is the most bytes that
// the tensors may have together if none share memory, or 0 if they may share it.
func checkTensors(t *testing.T, file *File, alias int) {
	var tensors []Tensor
	total := 0
	for _, name := range file.Names() {
		x, ok := file.Tensor(name)
		if !ok || x.Name != name {
			t.Fatalf("tensor %q: found %v", name, x)
		}
		if _, err := x.Float32(); err != nil {
			t.Fatal(err)
		}
		total += len(x.Data)
		tensors = append(tensors, *x)
	}
	if alias > 0 && total > alias {
		t.Fatalf("tensors of %d bytes in a file of %d", total, alias)
	}
	var b bytes.Buffer
	if err := WriteSafetensors(&b, tensors, nil); err != nil {
		if strings.Contains(err.Error(), "cannot be named") { // pickles have names that safetensors cannot have
			return
		}
		t.Fatal(err)
	}
	again := &File{path: "again", mapping: &mapping{data: b.Bytes()}, tensors: map[string]*Tensor{},
		meta: map[string]string{}}
	if err := fault.Catch(again.readSafetensors); err != nil {
		t.Fatal(err)
	}
	for i := range tensors {
		if x := again.tensors[tensors[i].Name]; !bytes.Equal(x.Data, tensors[i].Data) ||
			!slices.Equal(x.Shape, tensors[i].Shape) {
			t.Fatalf("tensor %q changed from %v to %v", tensors[i].Name, tensors[i], x)
		}
	}
}
