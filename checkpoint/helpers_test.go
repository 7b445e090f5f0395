package checkpoint

import (
	"archive/zip"
	"bytes"
	"compress/flate"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Pieces of pickles. Each is a string of opcodes that leaves one value on the stack.

func pStr(s string) string {
	return "X" + string(binary.LittleEndian.AppendUint32(nil, uint32(len(s)))) + s
}

func pInt(n int) string { // LONG1 with 8 bytes
	return "\x8a\x08" + string(binary.LittleEndian.AppendUint64(nil, uint64(n)))
}

func pInts(n ...int) string {
	s := "("
	for _, x := range n {
		s += pInt(x)
	}
	return s + "t"
}

func pTuple(items ...string) string         { return "(" + strings.Join(items, "") + "t" }
func pGlobal(module, name string) string    { return "c" + module + "\n" + name + "\n" }
func pCall(f string, args ...string) string { return f + pTuple(args...) + "R" }
func pDict(keysAndValues ...string) string  { return "}(" + strings.Join(keysAndValues, "") + "u" }
func pickled(value string) string           { return "\x80\x02" + value + "." }
func pStorage(class, key string, n int) string {
	return pTuple(pStr("storage"), pGlobal("torch", class), pStr(key), pStr("cpu"), pInt(n)) + "Q"
}

const pNone = "N"

func pTensor(storage string, offset int, shape, stride []int) string {
	return pCall(pGlobal("torch._utils", "_rebuild_tensor_v2"), storage, pInt(offset),
		pInts(shape...), pInts(stride...), "\x89",
		pCall(pGlobal("collections", "OrderedDict")))
}

// pVector returns a contiguous float32 tensor of n elements.
func pVector(key string, n int) string {
	return pTensor(pStorage("FloatStorage", key, n), 0, []int{n}, []int{1})
}

// f32 returns the bytes of float32 numbers 0, 1, ... n-1.
func f32(n int) []byte {
	v := make([]float32, n)
	for i := range v {
		v[i] = float32(i)
	}
	b, _ := binary.Append(nil, binary.LittleEndian, v)
	return b
}

type zipEntry struct {
	name   string
	data   []byte
	method uint16
}

// zipped returns an archive as torch.save writes it.
func zipped(t testing.TB, entries ...zipEntry) []byte {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	w.RegisterCompressor(zip.Deflate, func(out io.Writer) (io.WriteCloser, error) {
		return flate.NewWriter(out, flate.BestSpeed) // large bombs are created under the race detector, too
	})
	for _, e := range entries {
		f, err := w.CreateHeader(&zip.FileHeader{Name: e.name, Method: e.method})
		if err == nil {
			_, err = f.Write(e.data)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// torchZip returns an archive of a pickle and of storages "0", "1", ...
func torchZip(t testing.TB, value string, storages ...[]byte) []byte {
	t.Helper()
	entries := []zipEntry{{name: "m/data.pkl", data: []byte(pickled(value))}}
	for i, s := range storages {
		entries = append(entries, zipEntry{name: fmt.Sprintf("m/data/%d", i), data: s})
	}
	return zipped(t, entries...)
}

// torchLegacy returns an old file of a pickle and of storages "0", "1", ...
func torchLegacy(value string, numel []int, storages ...[]byte) []byte {
	magic := "\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19"
	keys := "]("
	data := ""
	for i, s := range storages {
		keys += pStr(fmt.Sprint(i))
		data += string(binary.LittleEndian.AppendUint64(nil, uint64(numel[i]))) + string(s)
	}
	return []byte(pickled(magic) + pickled("M\xe9\x03") + pickled(pDict(pStr("little_endian"), "\x88")) +
		pickled(value) + pickled(keys+"e") + data)
}

// writeTemp writes data to a temporary file.
func writeTemp(t testing.TB, data []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, data, 0o666); err != nil {
		t.Fatal(err)
	}
	return path
}

// mustOpen opens data as a file until the test ends.
func mustOpen(t testing.TB, data []byte) *File {
	t.Helper()
	f, err := Open(writeTemp(t, data))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// values returns a tensor as float64 numbers.
func (f *File) values(t testing.TB, name string) []float64 {
	t.Helper()
	x, ok := f.Tensor(name)
	if !ok {
		t.Fatalf("no tensor %q in %q", name, f.Names())
	}
	v, err := x.Float64()
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// wantError checks that an error contains all the words.
func wantError(t testing.TB, err error, words ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want one that says %q", words)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("the error %q does not say %q", err, w)
		}
	}
}
