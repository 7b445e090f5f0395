package model

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/engine/cpu"
)

// Tolerances of logits with rounded weights, of the largest logit. These models have random weights, through whose
// layers errors grow. bfloat16 has 8 bits, so that each factor of a product, the weight and the input, is off by up to
// 1/256 of itself. Both are rounded independently and alike: the error is √2 times that of weights alone, which kept
// within 0.02. int8 rounds each factor by up to 1/254 of the largest of its group, and in three layers that makes 2 to
// 4 % mean squared. Of weights of 4 bits, which are off by 6 to 8 %, that shows little more than that the logits are
// still those of the model.
const (
	bf16LogitTol = 0.03
	int8LogitTol = 0.06
	int4LogitTol = 0.8
)

// published are the mixers of the models that the tolerances are for: each further layer rounds once more.
const published = "attention,h3,s4d"

// packed returns the hybrid of tests at a precision: of all mixers where nothing is rounded, else of the published
// ones.
func packed(t *testing.T, p engine.Precision) *Model {
	t.Helper()
	m := hybrid(t, mixersAt(p))
	if err := m.Pack(p); err != nil {
		t.Fatal(err)
	}
	return m
}

func mixersAt(p engine.Precision) string {
	if p == engine.Float32 {
		return every()
	}
	return published
}

// logits reads a text in chunks, without recording.
func logits(m *Model, ids []int32, b, l int, chunks ...int) (out []float32, loss float32) {
	states, tape := newStates(m, b), autograd.NewTape(cpu.Backend{})
	for at := 0; at < l; {
		n := chunks[min(at, len(chunks)-1)]
		tape.Reset()
		part := columns(ids, b, at, at+n)
		hidden := m.Forward(tape, part, rowsOf(n, states))
		out = append(out, read(m.Logits(tape, hidden))...)
		loss += read(m.Loss(tape, hidden, part))[0]
		at += n
	}
	return out, loss
}

// TestPackedModel: at float32 every result has the same bits; at the others it is near. A packed model reads a text at
// once and token by token alike.
func TestPackedModel(t *testing.T) {
	const b, l = 2, 30
	ids := text(1, b*l)
	for p, tol := range map[engine.Precision]float64{engine.Float32: 0, engine.BF16: bf16LogitTol,
		engine.Int8: int8LogitTol, engine.Int4: int4LogitTol, engine.Int4Min: int4LogitTol} {
		plain, m := hybrid(t, mixersAt(p)), packed(t, p)
		want, wantLoss := logits(plain, ids, b, l, l)
		wantSteps, _ := logits(plain, ids, b, l, 1)
		name := p.String()
		got, loss := logits(m, ids, b, l, l)
		steps, _ := logits(m, ids, b, l, 1)
		near(t, name+": logits", got, want, tol)
		near(t, name+": logits token by token", steps, wantSteps, tol)
		near(t, name+": loss", []float32{loss}, []float32{wantLoss}, tol/10)
		if p == engine.Float32 && (!slices.Equal(got, want) || !slices.Equal(steps, wantSteps) || loss != wantLoss) {
			t.Error("packed as float32 it gives other bits")
		}
		if p != engine.Float32 && (slices.Equal(got, want) || loss == wantLoss) {
			t.Errorf("packed as %s it gives the same bits: nothing was rounded", name)
		}
		if m.NumParams() != plain.NumParams() {
			t.Errorf("%s: %d parameters, want %d", name, m.NumParams(), plain.NumParams())
		}
	}
}

// TestPackedMemory: a packed model takes the memory that its precision says, but for panels that are not full; bfloat16
// in its short form takes 12 bits for 16.
func TestPackedMemory(t *testing.T) {
	build := func() *Model {
		c := hybrid(t, "h3,attention").Config
		c.DModel, c.VocabSize, c.NumHeads = 192, 960, 4
		m, err := New(c)
		if err != nil {
			t.Fatal(err)
		}
		m.Init(1)
		return m
	}
	plain := float64(build().Bytes())
	for p, want := range map[engine.Precision]float64{engine.Float32: 1, engine.BF16: 0.5, engine.Int8: 8.5 / 32,
		engine.Int4: 4.5 / 32, engine.Int4Min: 5. / 32} {
		m := build()
		if err := m.Pack(p); err != nil {
			t.Fatal(err)
		}
		if got := float64(m.Bytes()) / plain; got < want && !(p == engine.BF16 && got > want*12/16) || got > want+0.1 {
			t.Errorf("%s takes %.3f of the memory, want %.2f and little more", p.String(), got, want)
		}
	}
}

// TestPackGivesBackMemory: nothing that stays holds on to the memory of the weights as they were.
func TestPackGivesBackMemory(t *testing.T) {
	c := DefaultConfig()
	c.DModel, c.NLayer, c.VocabSize, c.AttnIdx = 256, 4, 8192, nil
	m, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	m.Init(1)
	before, unpacked := heap(), m.Bytes()
	if err := m.Pack(engine.Int8); err != nil {
		t.Fatal(err)
	}
	if after := heap(); before-after < (unpacked-m.Bytes())*9/10 {
		t.Errorf("packing from %d to %d bytes took the heap from %d to %d", unpacked, m.Bytes(), before, after)
	}
	runtime.KeepAlive(m)
}

// heap is the number of bytes that are in use.
func heap() int {
	runtime.GC()
	runtime.GC()
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return int(s.HeapAlloc)
}

// TestPackedErrors: what a packed model cannot do, and models that cannot be packed.
func TestPackedErrors(t *testing.T) {
	m := packed(t, engine.Int8)
	for what, err := range map[string]error{"packing": m.Pack(engine.BF16), "saving": m.Save(t.TempDir())} {
		if err == nil || !strings.Contains(err.Error(), "packed for inference") {
			t.Errorf("%s a packed model: %v", what, err)
		}
	}
	empty, err := New(hybrid(t, "h3").Config)
	if err != nil {
		t.Fatal(err)
	}
	if err := empty.Pack(engine.Int8); err == nil ||
		!strings.Contains(err.Error(), "word_embeddings.weight: found no values") {
		t.Errorf("packing a model without values: %v", err)
	}
	tape := autograd.NewTape(cpu.Backend{})
	tape.Record(true)
	defer func() {
		if msg := fmt.Sprint(recover()); !strings.Contains(msg, "packed for inference") {
			t.Errorf("recording a packed model: %v", msg)
		}
	}()
	m.Forward(tape, text(1, 8), EqualRows(1, 8))
}
