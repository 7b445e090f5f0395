package task

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
)

// npy returns a NumPy array.
func npy(shape, kind string, data []uint16) []byte {
	head := fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': %s, }", kind, shape)
	b := append([]byte("\x93NUMPY\x01\x00"), byte(len(head)), 0)
	b = append(b, head...)
	for _, x := range data {
		b = binary.LittleEndian.AppendUint16(b, x)
	}
	return b
}

// npz returns an archive of one array.
func npz(t *testing.T, name string, array []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	f, err := w.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write(array); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// steps returns n samples of a converter.
func steps(n int) []uint16 {
	x := make([]uint16, n)
	for i := range x {
		x[i] = uint16(1024 + 200*math.Sin(float64(i)/9))
	}
	return x
}

func TestECG(t *testing.T) {
	archive, raw := t.TempDir(), t.TempDir()
	putFile(t, archive, "ecg.dat", npz(t, "ecg.npy", npy("(2000,)", "<u2", steps(2000))))
	var floats []byte
	for _, x := range steps(2000) {
		floats = binary.LittleEndian.AppendUint32(floats, math.Float32bits((float32(x)-1024)/200))
	}
	putFile(t, raw, "ecg/ecg_mV_float32.raw.gz", floats)
	var first []float32
	for _, dir := range []string{archive, raw} {
		set, err := openTask(t, ECG, dir, func(o *ecgOptions) { o.Length, o.Stride, o.Relative = 50, 10, false })
		if err != nil {
			t.Fatal(err)
		}
		// The parts have 1,600, 200 and 200 samples. A window has 51.
		if set.Train.Len() != 155 || set.Valid.Len() != 3 || set.Test.Len() != 3 || set.Extra[0].Split.Len() != 1 {
			t.Fatalf("found %d, %d, %d, %d windows; want 155, 3, 3 and 1",
				set.Train.Len(), set.Valid.Len(), set.Test.Len(), set.Extra[0].Split.Len())
		}
		var ex, next Example
		for _, split := range []Split{set.Train, set.Valid, set.Test} {
			split.Example(split.Len()-1, &ex)
			if len(ex.Values) != 50 || len(ex.Numbers) != 50 {
				t.Fatalf("found %d samples and %d targets, want 50 of each", len(ex.Values), len(ex.Numbers))
			}
			for i := range 49 {
				if ex.Numbers[i] != ex.Values[i+1] {
					t.Fatalf("target %d is %g, want the next sample %g", i, ex.Numbers[i], ex.Values[i+1])
				}
			}
		}
		set.Test.Example(0, &ex)
		set.Test.Example(1, &next)
		if ex.Numbers[49] != next.Values[0] {
			t.Error("the test windows do not lie side by side")
		}
		relative, err := openTask(t, ECG, dir, func(o *ecgOptions) { o.Length = 50 })
		if err != nil {
			t.Fatal(err)
		}
		relative.Test.Example(0, &next)
		for i, x := range next.Numbers {
			if math.Abs(float64(x-(ex.Numbers[i]-ex.Values[i]))) > 1e-5 {
				t.Fatalf("difference %d is %g, want that of %g and %g", i, x, ex.Numbers[i], ex.Values[i])
			}
		}
		if first == nil {
			first = ex.Values
		}
		for i := range first {
			if math.Abs(float64(first[i]-ex.Values[i])) > 1e-5 {
				t.Fatalf("sample %d is %g in one form of the record and %g in the other", i, first[i], ex.Values[i])
			}
		}
		if set.Extra[0].Split.Example(0, &ex); len(ex.Values) != 199 || len(ex.Numbers) != 199 {
			t.Errorf("found %d samples in the window of the whole test part, want 199", len(ex.Values))
		}
		if !set.Numbers || !set.Everywhere || set.Outputs != 1 || set.Channels != 1 ||
			set.MaxLength != 50 || len(set.Simple) != 2 {
			t.Errorf("found %+v", set)
		}
	}
}

func TestLinearForecast(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	x := make([]float64, 5000)
	want := []float64{1.2, -0.6, 0.1}
	for i := 3; i < len(x); i++ {
		x[i] = want[0]*x[i-1] + want[1]*x[i-2] + want[2]*x[i-3] + rng.NormFloat64()
	}
	for k, c := range linearForecast(x, 3) {
		if math.Abs(c-want[k]) > 0.05 {
			t.Errorf("coefficient %d is %g, want %g", k, c, want[k])
		}
	}
	// A value of a sine is exactly 2 cos w times the previous one, minus the one before that.
	for i := range x {
		x[i] = math.Sin(0.3 * float64(i))
	}
	if c := linearForecast(x, 2); math.Abs(c[0]-2*math.Cos(0.3)) > 1e-6 || math.Abs(c[1]+1) > 1e-6 {
		t.Errorf("found %v, want %g and -1", c, 2*math.Cos(0.3))
	}
	for _, c := range linearForecast(make([]float64, 100), 4) {
		if c != 0 {
			t.Errorf("found the coefficient %g for silence, want 0", c)
		}
	}
}

func TestECGErrors(t *testing.T) {
	good := npy("(3,)", "<u2", steps(3))
	for name, c := range map[string]struct {
		data []byte
		want string
	}{
		"empty":      {nil, "found 0 bytes, want 10"},
		"other":      {bytes.Repeat([]byte("text"), 9), "no array of NumPy's format"},
		"kind":       {npy("(3,)", "<f4", steps(6)), "want one dimension of '<u2'"},
		"dimensions": {npy("(3, 1)", "<u2", steps(3)), "want one dimension"},
		"huge":       {npy("(99999999999,)", "<u2", nil), "out of range"},
		"cut off":    {good[:len(good)-1], "found 5 bytes, want 6: the file is cut off"},
		"cut head":   {good[:20], "the file is cut off"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := readSteps(bytes.NewReader(c.data))
			wantError(t, err, c.want)
		})
	}
	_, err := readFloats(strings.NewReader("12345"))
	wantError(t, err, "found 5 bytes, want whole numbers of 4")
	_, err = readFloats(bytes.NewReader([]byte{0, 0, 0, 0, 0, 0, 0xc0, 0x7f}))
	wantError(t, err, "at offset 4: found NaN")
	for name, c := range map[string]struct {
		file string
		data []byte
		want []string
	}{
		"no zip":   {"ecg.dat", []byte("text"), []string{"ecg.dat", "zip"}},
		"no array": {"ecg.dat", npz(t, "other.npy", good), []string{"ecg.dat", "ecg.npy"}},
		"damaged":  {"ecg.dat", npz(t, "ecg.npy", good[:20]), []string{"ecg.dat: ecg.npy: found"}},
		"few":      {"ecg.dat", npz(t, "ecg.npy", good), []string{"found 3 samples"}},
		"cut":      {"ecg_mV_float32.raw", []byte("12345"), []string{"ecg_mV_float32.raw: found 5 bytes"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			putFile(t, dir, c.file, c.data)
			_, err := openTask[ecgOptions](t, ECG, dir, nil)
			wantError(t, err, append(c.want, "task ecg")...)
		})
	}
}

func FuzzReadSteps(f *testing.F) {
	f.Add(npy("(3,)", "<u2", steps(3)))
	f.Add(npy("(4,)", "<f4", steps(3)))
	f.Fuzz(func(t *testing.T, data []byte) {
		if x, err := readSteps(bytes.NewReader(data)); err == nil && 2*len(x) > len(data) {
			t.Errorf("found %d samples in %d bytes", len(x), len(data))
		}
	})
}

func FuzzReadFloats(f *testing.F) {
	f.Add([]byte{0, 0, 128, 63})
	f.Fuzz(func(t *testing.T, data []byte) {
		x, err := readFloats(bytes.NewReader(data))
		if err != nil {
			return
		}
		for i, v := range x {
			if math.IsNaN(v) || math.IsInf(v, 0) {
				t.Errorf("number %d is %g", i, v)
			}
		}
	})
}
