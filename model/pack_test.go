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

// Tolerances of logits with rounded weights, relative to the largest logit. These models have random weights, through
// whose layers errors grow. bfloat16 has 8 bits, so each factor of a product, the weight and the input, has a relative
// error of up to 1/256. Both are rounded independently, so the error is √2 times that of rounded weights alone, which
// is at most 0.02. int8 rounds each factor by up to 1/254 of the largest of its group, which amounts to a root mean
// square error of 2 to 4 % in three layers. Weights of 4 bits have an error of 6 to 8 %, so their tolerance shows only
// that the logits are still those of the model.
const (
	bf16LogitTol = 0.03
	int8LogitTol = 0.06
	int4LogitTol = 0.8
)

// published lists the mixers of the models that the tolerances are for. Each further layer would add a rounding error.
const published = "attention,h3,s4d"

// packed returns the hybrid of tests at a precision. It has all mixers if nothing is rounded, else the published ones.
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

// logits computes logits and loss of a text in chunks, without recording.
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

// TestPackedModel checks that every result of a packed model has the same bits at float32, and is near at other
// precisions. A packed model gives the same results for a whole text and token by token.
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

// TestPackedMemory checks that a packed model takes the memory of its precision, except for partly filled panels.
// bfloat16 in its short form takes 12 bits instead of 16.
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

// TestPackGivesBackMemory checks that no remaining value references the memory of the original weights.
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

// heap returns the number of bytes in use.
func heap() int {
	runtime.GC()
	runtime.GC()
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return int(s.HeapAlloc)
}

// TestPackedErrors checks the errors for what a packed model cannot do, and for models that cannot be packed.
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
