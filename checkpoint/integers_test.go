package checkpoint

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// integerTypes holds the types of rows of integers, with the smallest and the largest integer of each.
var integerTypes = map[DType][2]int{Int8: {-128, 127}, Int4: {-8, 7}, Int4Min: {0, 15}}

// integersSample returns a tensor of random integers (n, k), and its elements.
func integersSample(rng *rand.Rand, name string, d DType, n, k int) (Tensor, []float32) {
	var want []float32
	r := integerTypes[d]
	t := Streamed(name, d, []int{n, k}, func(b []byte, j int) []byte {
		row := newGroupRow(k)
		row.scale = float32(math.Ldexp(1, j%5-2))
		for g := range row.factor {
			row.factor[g] = toHalf(float32(rng.NormFloat64()))
			if d == Int4Min {
				row.least[g] = toHalf(float32(rng.NormFloat64()))
			}
		}
		for i := range row.q {
			row.q[i] = int8(r[0] + rng.IntN(r[1]-r[0]+1))
			f, m := fromHalf(row.factor[i/32])*row.scale, fromHalf(row.least[i/32])*row.scale
			want = append(want, float32(float32(row.q[i])*f)+m)
		}
		return AppendGroups(b, d, row.scale, row.q, row.factor, row.least)
	})
	var data bytes.Buffer
	if err := t.write(&data); err != nil {
		panic(err)
	}
	return Tensor{Name: name, DType: d, Shape: []int{n, k}, Data: data.Bytes()}, want
}

// TestIntegersRoundTrip checks that rows of integers of any length are read back from a safetensors file, that they
// take as many bytes as their bits, and that any part of them can be read.
func TestIntegersRoundTrip(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	var tensors []Tensor
	wants := map[string][]float32{}
	for d := range integerTypes {
		for _, k := range []int{1, 2, 31, 32, 33, 64, 95, 300} {
			name := fmt.Sprintf("%s.%d", d, k)
			x, want := integersSample(rng, name, d, 7, k)
			tensors, wants[name] = append(tensors, x), want
		}
	}
	tensors = append(tensors, NewTensor("plain", []int{2, 2}, []float32{1, 2, 3, 4}))
	var b bytes.Buffer
	if err := WriteSafetensors(&b, tensors, map[string]string{"format": "pt"}); err != nil {
		t.Fatal(err)
	}
	f, err := ParseSafetensors(b.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	if m := f.Metadata(); len(m) != 1 || m["format"] != "pt" {
		t.Errorf("the metadata is %v", m)
	}
	for name, want := range wants {
		x, _ := f.Tensor(name)
		got, err := x.Float32()
		if err != nil || !slices.Equal(got, want) {
			t.Fatalf("%s: found %v, %v, want %v", name, got, err, want)
		}
		for range 20 {
			at := rng.IntN(len(want))
			n := rng.IntN(len(want)-at) + 1
			part := x.Part(at, n)
			again := part.Part(n/2, n-n/2)
			for what, c := range map[string]struct {
				x    Tensor
				want []float32
			}{"part": {part, want[at:][:n]}, "part of it": {again, want[at+n/2:][:n-n/2]}} {
				if got, err := c.x.Float32(); err != nil || !slices.Equal(got, c.want) {
					t.Fatalf("%s, %s of %d at %d: found %v, %v, want %v", name, what, n, at, got, err, c.want)
				}
			}
		}
		if _, err := x.Int64(); err == nil {
			t.Errorf("%s: read as whole numbers", name)
		}
	}
	x, _ := f.Tensor("int4.300")
	if want := 7 * (4 + 2*10 + 150); len(x.Data) != want {
		t.Errorf("int4 (7, 300) takes %d bytes, want %d", len(x.Data), want)
	}
}

// TestIntegersProblems checks the errors for metadata that does not fit the tensors, and for factors that are not
// finite.
func TestIntegersProblems(t *testing.T) {
	file := func(meta string, shape ...int) []byte {
		var b bytes.Buffer
		x := Tensor{Name: "w", DType: U8, Shape: shape, Data: make([]byte, shape[0]*shape[1])}
		if err := WriteSafetensors(&b, []Tensor{x}, map[string]string{integersKey: meta}); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	form := func(kind string, columns int) string {
		return fmt.Sprintf(`{"version":1,"tensors":{"w":{"type":%q,"columns":%d}}}`, kind, columns)
	}
	for want, data := range map[string][]byte{
		"found version 2":                           file(`{"version":2,"tensors":{}}`, 1, 4),
		"hippo.quantized: ":                         file(`{"version":1,`, 1, 4),
		`found the type "int3", want int8, int4`:    file(form("int3", 32), 2, 22),
		"the file has none of this name":            file(strings.Replace(form("int4", 32), `"w"`, `"v"`, 1), 2, 22),
		"found rows of 21 bytes, want 22 for 32":    file(form("int4", 32), 2, 21),
		"found rows of 22 bytes, want 0 for -1":     file(form("int4", -1), 2, 22),
		"want 0 for 4611686018427387904 columns":    file(form("int8", 1<<62), 2, 22),
		"found rows of 22 bytes, want 38 for 32":    file(form("int8", 32), 2, 22),
		"found rows of 22 bytes, want 24 for 32":    file(form("int4min", 32), 2, 22),
		"found rows of 22 bytes, want 0 for 0 colu": file(form("int4", 0), 2, 22),
	} {
		if _, err := ParseSafetensors(data); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("found the error %v, want one with %q", err, want)
		}
	}
	for want, c := range map[string]struct {
		scale  float32
		factor uint16
	}{
		"row 1: found the scale NaN":                          {nan32, 1},
		"row 1: found the scale -1":                           {-1, 1},
		"row 1: found the scale +Inf":                         {inf32, 1},
		"row 1: found the scale 1e+38, with which numbers":    {1e38, toHalf(9)},
		"row 1, group 0: found the factor NaN":                {1, 0x7e00},
		"row 1, group 0: found the factor -Inf and the least": {1, 0xfc00},
	} {
		row := AppendGroups(nil, Int4, c.scale, make([]int8, 32), []uint16{c.factor}, nil)
		x := Tensor{Name: "w", DType: Int4, Shape: []int{2, 32}, Data: append(make([]byte, len(row)), row...)}
		if _, err := x.Float32(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("found the error %v, want one with %q", err, want)
		}
	}
}

var nan32, inf32 = float32(math.NaN()), float32(math.Inf(1))

// TestReadGroupsIsFloat32 checks the blocks of GGUF files that have GroupTypes: integers, factors and least values give
// the elements, except for the last bits of the factors of Q4_K.
func TestReadGroupsIsFloat32(t *testing.T) {
	m := blockMaker{rand.New(rand.NewPCG(3, 8))}
	for _, d := range []DType{Q4_0, Q4_1, Q5_0, Q8_0, Q4_K} {
		var x Tensor
		switch n, size := d.Block(); d {
		case Q4_K:
			b, _ := m.large(4)
			c, _ := m.large(4)
			x = Tensor{Name: "w", DType: d, Shape: []int{1, 512}, Data: append(b, c...)}
		default:
			data := make([]byte, 3*4*size)
			for i := range data {
				data[i] = byte(m.rng.Uint32())
			}
			for at := 0; at < len(data); at += size {
				binary.LittleEndian.PutUint16(data[at:], toHalf(float32(m.rng.NormFloat64())))
				if d == Q4_1 {
					binary.LittleEndian.PutUint16(data[at+2:], toHalf(float32(m.rng.NormFloat64())))
				}
			}
			x = Tensor{Name: "w", DType: d, Shape: []int{3, 4 * n}, Data: data}
		}
		want, err := x.Float32()
		if err != nil || len(x.GroupTypes()) == 0 {
			t.Fatalf("%s: %v, %v", d, x.GroupTypes(), err)
		}
		r := integerTypes[x.GroupTypes()[0]]
		row := newGroupRow(x.Shape[1])
		for j := range x.Shape[0] {
			if err := row.read(&x, j); err != nil {
				t.Fatal(err)
			}
			for i, q := range row.q {
				v, w := row.value(i), want[j*len(row.q)+i]
				f, l := fromHalf(row.factor[i/32])*row.scale, fromHalf(row.least[i/32])*row.scale
				most := 0.0
				if d == Q4_K { // half of the last bit of each
					most = (math.Abs(float64(f))*float64(q) + math.Abs(float64(l))) / (1 << 11)
				}
				if int(q) < r[0] || int(q) > r[1] || !(math.Abs(float64(v-w)) <= most) {
					t.Fatalf("%s: element %d is %v of %d, want %v", d, i, v, q, w)
				}
			}
		}
	}
	if kinds := (&Tensor{DType: Q6_K}).GroupTypes(); kinds != nil {
		t.Errorf("Q6_K has the types %v", kinds)
	}
}

// FuzzIntegers checks that any metadata about tensors of integers, with any rows, is either read or an error.
func FuzzIntegers(f *testing.F) {
	rng := rand.New(rand.NewPCG(5, 6))
	for d := range integerTypes {
		x, _ := integersSample(rng, "w", d, 2, 33)
		f.Add(fmt.Sprintf(`{"version":1,"tensors":{"w":{"type":%q,"columns":33}}}`, d), uint16(2), x.Data)
	}
	f.Add(`{"version":1,"tensors":{"w":{"type":"int8","columns":9223372036854775807}}}`, uint16(1), []byte{1})
	f.Fuzz(func(t *testing.T, meta string, rows uint16, data []byte) {
		n := max(1, int(rows))
		size := len(data) / n
		x := Tensor{Name: "w", DType: U8, Shape: []int{n, size}, Data: data[:n*size]}
		var b bytes.Buffer
		if WriteSafetensors(&b, []Tensor{x}, map[string]string{integersKey: meta}) != nil {
			return // not UTF-8
		}
		file, err := ParseSafetensors(b.Bytes())
		if err != nil {
			return
		}
		y, _ := file.Tensor("w")
		if y.Elements() > 2*len(data) {
			t.Fatalf("%d elements of %d bytes", y.Elements(), len(data))
		}
		values, err := y.Float32()
		if err != nil {
			return
		}
		if y.DType != U8 && slices.ContainsFunc(values, func(v float32) bool { return v-v != 0 }) {
			t.Fatalf("found numbers that are not finite: %v", values)
		}
	})
}

// TestSurelyFinite checks that bfloat16 numbers that are not finite are detected at every place, and that the result is
// false for other types.
func TestSurelyFinite(t *testing.T) {
	for _, bad := range []uint16{0x7f80, 0xff80, 0x7fc0, 0xff81} {
		for n := 1; n < 10; n++ {
			for at := range n {
				large := bytes.Repeat([]byte{0x7f, 0xff}, n) // -1.7e38
				x := Tensor{Name: "x", DType: BF16, Shape: []int{n}, Data: large}
				if !x.SurelyFinite() {
					t.Fatalf("%d finite numbers: not sure", n)
				}
				if binary.LittleEndian.PutUint16(x.Data[2*at:], bad); x.SurelyFinite() {
					t.Fatalf("%x at %d of %d: sure", bad, at, n)
				}
			}
		}
	}
	if x := NewTensor("x", []int{1}, []float32{1}); x.SurelyFinite() {
		t.Error("float32: sure")
	}
}
