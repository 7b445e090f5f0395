package session

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/checkpoint"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/tokenizer"
)

// asFloats returns the file as a version of hippo without integers in files would have written it.
func asFloats(t *testing.T, data []byte) []byte {
	return rewritten(t, data, func(h *header, tensors []checkpoint.Tensor) (old []checkpoint.Tensor) {
		scales := map[string]*checkpoint.Tensor{}
		for i := range tensors {
			scales[tensors[i].Name] = &tensors[i]
		}
		for _, x := range tensors {
			if strings.Contains(x.Name, "."+scalePrefix) {
				continue
			}
			if x.DType == checkpoint.I8 {
				values, err := x.Float32()
				factors, errScales := scales[strings.Replace(x.Name, statePrefix, scalePrefix, 1)].Float32()
				if err = errors.Join(err, errScales); err == nil {
					err = widen(x.Name, values, x.Shape, factors)
				}
				if err != nil {
					t.Fatal(err)
				}
				x = checkpoint.NewTensor(x.Name, x.Shape, values)
			}
			old = append(old, x)
		}
		h.Version = versionOfFloats
		return old
	})
}

// TestFileOfAnEarlierVersion checks a file of a version in which attention multiplied integers as floats and int8
// models had other fingerprints. It is refused with ErrKernels, and with ErrModel for other weights. Marks in a store
// of that version are refused too, since their identity has no kernel number. Saved states of weights in float32 remain
// valid, and so do those of weights in bf16 unless the processor's products have bits of their own.
func TestFileOfAnEarlierVersion(t *testing.T) {
	m, other := language(t, "attention"), language(t, "attention")
	other.Init(2)
	for _, m := range []*model.Model{m, other} {
		if err := m.Pack(engine.Int8); err != nil {
			t.Fatal(err)
		}
	}
	const path = "testdata/int8-version2.session"
	for m, want := range map[*model.Model]error{m: ErrKernels, other: ErrModel} {
		if _, err := Load(path, m, tokenizer.Bytes(), Options{}, nil); !errors.Is(err, want) {
			t.Errorf("got %v, want %v", err, want)
		}
	}
	for _, layers := range []string{"attention", "h3"} {
		for _, p := range []engine.Precision{engine.Float32, engine.BF16, engine.Int8, engine.Int4} {
			m := language(t, layers)
			if err := m.Pack(p); err != nil {
				t.Fatal(err)
			}
			of := 3
			switch {
			case p == engine.BF16 && m.Level() != other.Level():
				of = 1
			case p < engine.Int8:
				of = 0
			}
			if got := Identify(m, tokenizer.Bytes()).Kernels; got != of {
				t.Errorf("%s in %v: kernels %d, want %d", layers, p, got, of)
			}
		}
	}
}

// TestHeldIntegersAreThoseFound checks that keys and values written from their stored integers give the same file as
// integers found in their values, also for a cache that has dropped its first positions.
func TestHeldIntegersAreThoseFound(t *testing.T) {
	for _, layers := range []string{"attention", "window-attention(window=70)"} {
		m := language(t, layers)
		if err := m.Pack(engine.Int8); err != nil {
			t.Fatal(err)
		}
		s := New(m, tokenizer.Bytes(), Options{})
		if err := s.Append(t.Context(), text(5, 150)); err != nil {
			t.Fatal(err)
		}
		parts := 0
		s.Snapshot().State.Parts(func(p model.StatePart) {
			if p.Integers == nil {
				return
			}
			parts++
			shape, values := p.Values()
			q, scales, ok := integers(shape, values)
			var held []int8
			var factors []float32
			for some, f := range p.Integers.Rows() {
				held, factors = append(held, some...), append(factors, f...)
			}
			if !ok || !slices.Equal(shape, p.Integers.Shape) || !slices.Equal(q, held) ||
				!slices.Equal(scales, factors) {
				t.Errorf("%s, %s: found others than are held", layers, p.Name)
			}
		})
		if parts != 2 {
			t.Errorf("%s: found %d parts of integers, want keys and values", layers, parts)
		}
	}
}

// TestIntegersAreSavedAsTheyAreHeld checks that the saved keys and values of a model packed as int8 take about a
// quarter of their size in float32, and that a session continues with the same bits from such a file, from a fork of
// the file, and from a file that has them in float32.
func TestIntegersAreSavedAsTheyAreHeld(t *testing.T) {
	m := language(t, "attention")
	if err := m.Pack(engine.Int8); err != nil {
		t.Fatal(err)
	}
	s := told(t, m)
	file := encode(t, s, FileOptions{})
	floats := asFloats(t, file)
	d, err := parse(file, nil)
	if err != nil || d.Version != versionOfWeights {
		t.Fatalf("version %d, %v, want %d", d.Version, err, versionOfWeights)
	}
	numbers := 0
	for _, name := range d.file.Names() {
		if x, _ := d.file.Tensor(name); x.DType == checkpoint.I8 {
			numbers += x.Elements()
		}
	}
	if want := s.StateSize(); numbers == 0 || numbers > want || len(floats)-len(file) < 2*numbers {
		t.Errorf("%d integers of a state of %d bytes, in a file of %d bytes, in float32 %d", numbers, want, len(file),
			len(floats))
	}
	want := rest(t, s)
	for what, data := range map[string][]byte{
		"as held": file, "in float32": floats, "encrypted": encode(t, told(t, m), FileOptions{Key: key}),
	} {
		var k []byte
		if what == "encrypted" {
			k = key
		}
		back, err := Decode(data, m, tokenizer.Bytes(), Options{}, k)
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if got := rest(t, back); got != want {
			t.Errorf("%s: goes on with\n%s\nwant\n%s", what, got, want)
		}
	}
}

// TestIntegersWithoutFactorsAreRefused checks that a file whose integers have no factors, or wrong ones, is refused.
func TestIntegersWithoutFactorsAreRefused(t *testing.T) {
	m := language(t, "attention")
	if err := m.Pack(engine.Int8); err != nil {
		t.Fatal(err)
	}
	file := encode(t, told(t, m), FileOptions{})
	for what, change := range map[string]func(x checkpoint.Tensor) []checkpoint.Tensor{
		"without": func(checkpoint.Tensor) []checkpoint.Tensor { return nil },
		"too few": func(x checkpoint.Tensor) []checkpoint.Tensor {
			x = x.Part(0, x.Elements()-1)
			return []checkpoint.Tensor{x}
		},
		"of another kind": func(x checkpoint.Tensor) []checkpoint.Tensor {
			return []checkpoint.Tensor{checkpoint.NewTensor(x.Name, []int{1}, []int8{1})}
		},
	} {
		bad := rewritten(t, file, func(_ *header, tensors []checkpoint.Tensor) (out []checkpoint.Tensor) {
			for _, x := range tensors {
				if strings.Contains(x.Name, "."+scalePrefix) {
					out = append(out, change(x)...)
				} else {
					out = append(out, x)
				}
			}
			return out
		})
		if _, err := Decode(bad, m, tokenizer.Bytes(), Options{}, nil); !errors.Is(err, ErrDamaged) {
			t.Errorf("factors %s: %v, want %v", what, err, ErrDamaged)
		}
	}
}

// TestOnlyExactIntegersAreIntegers checks that integers and factors give the same bits as the values, and that values
// that are not rows of integers are not converted.
func TestOnlyExactIntegersAreIntegers(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 3))
	const rows, k = 5, 16
	held := make([]float32, rows*k)
	for i := range rows {
		scale := float32(math.Exp2(float64(-40 + 20*i)))
		for j := range k {
			held[i*k+j] = scale * float32(rng.IntN(255)-127)
		}
		held[i*k+rng.IntN(k)] = -127 * scale
	}
	clear(held[2*k : 3*k])
	q, scales, ok := integers([]int{rows, k}, held)
	if !ok || len(q) != rows*k || len(scales) != rows {
		t.Fatalf("%d integers, %d factors, %v", len(q), len(scales), ok)
	}
	for i, v := range held {
		if got := float32(q[i]) * scales[i/k]; math.Float32bits(got) != math.Float32bits(v) {
			t.Fatalf("element %d is %v, want %v", i, got, v)
		}
	}
	for what, change := range map[string]func(x []float32){
		"another number":   func(x []float32) { x[70] = math.Nextafter32(x[70]+1, 2) },
		"NaN":              func(x []float32) { x[70] = float32(math.NaN()) },
		"an infinity":      func(x []float32) { x[3] = float32(math.Inf(-1)) },
		"a zero with sign": func(x []float32) { x[2*k] = float32(math.Copysign(0, -1)) },
	} {
		x := slices.Clone(held)
		change(x)
		if _, _, ok := integers([]int{rows, k}, x); ok {
			t.Errorf("%s: taken for integers", what)
		}
	}
	for _, shape := range [][]int{nil, {rows * k / 4, 4}} { // rows too short to be saved as integers
		if _, _, ok := integers(shape, held); ok {
			t.Errorf("shape %v: taken for integers", shape)
		}
	}
}

// TestIntegersMayBeInfinite checks that checkFinite finds an integer whose product with a finite factor is infinite.
func TestIntegersMayBeInfinite(t *testing.T) {
	m := language(t, "attention")
	if err := m.Pack(engine.Int8); err != nil {
		t.Fatal(err)
	}
	s := New(m, tokenizer.Bytes(), Options{})
	if err := s.Append(t.Context(), text(5, 3)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		factor float32
		want   string
	}{
		{math.MaxFloat32 / 256, ""},
		{math.MaxFloat32 / 2, "Inf at 0 of layers.0.k"},
	} {
		n := &Snapshot{Position: 3, State: m.NewState()}
		s.Snapshot().State.Parts(func(p model.StatePart) {
			if p.Integers == nil {
				return
			}
			var q []int8
			var factors []float32
			for some, f := range p.Integers.Rows() {
				q, factors = append(q, some...), append(factors, f...)
			}
			q[1], factors[0] = 127, c.factor
			if _, err := n.State.RestoreIntegers(p.Name, p.Integers.Shape, q, factors); err != nil {
				t.Fatal(err)
			}
		})
		if err := n.checkFinite(); c.want == "" && err != nil || c.want != "" && (err == nil ||
			!strings.Contains(err.Error(), c.want)) {
			t.Errorf("with the factor %v: %v, want %q", c.factor, err, c.want)
		}
	}
}
