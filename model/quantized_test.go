package model

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/checkpoint"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/nn"
)

// reloaded returns a model loaded from the folder where another was saved.
func reloaded(t *testing.T, c Config, dir string) (*Model, error) {
	t.Helper()
	m, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	f, err := checkpoint.OpenSafetensors(filepath.Join(dir, WeightsFile))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	return m, m.LoadStored(ownWeights(f))
}

// TestSavePacked checks that a packed model is saved with the bits of its weights and is the same after loading, to the
// last bit: for a whole text, token by token, and as float32.
func TestSavePacked(t *testing.T) {
	const b, l = 2, 20
	ids := text(1, b*l)
	for _, p := range []engine.Precision{engine.Float32, engine.Int8, engine.Int4, engine.Int4Min} {
		m, dir := packed(t, p), t.TempDir()
		if err := m.SavePacked(dir); err != nil {
			t.Fatal(err)
		}
		again, err := reloaded(t, m.Config, dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, chunk := range []int{l, 1} {
			want, wantLoss := logits(m, ids, b, l, chunk)
			got, loss := logits(again, ids, b, l, chunk)
			if !slices.Equal(got, want) || loss != wantLoss {
				t.Errorf("%s: logits in chunks of %d are others after saving", p, chunk)
			}
		}
		if again.Precision() != p || again.Fingerprint() != m.Fingerprint() || again.Bytes() != m.Bytes() {
			t.Errorf("%s: became %s, %d bytes of %d", p, again.Precision(), again.Bytes(), m.Bytes())
		}
		info, err := os.Stat(filepath.Join(dir, WeightsFile))
		if err != nil {
			t.Fatal(err)
		}
		if most := m.Bytes() + 1<<15; p >= engine.Int8 && info.Size() > int64(most) { // names, and lengths
			t.Errorf("%s: the file has %d bytes, want no more than %d of memory and 32 KiB", p, info.Size(), m.Bytes())
		}
		plain, err := New(m.Config)
		if err != nil {
			t.Fatal(err)
		}
		if err := plain.LoadSaved(dir); err != nil {
			t.Fatal(err)
		}
		if p >= engine.Int8 && plain.WeightsFingerprint() != m.WeightsFingerprint() {
			t.Errorf("%s: read as float32, the weights are others", p)
		}
	}
}

// TestSavePackedInSeveralPrecisions checks that each matrix keeps its precision.
func TestSavePackedInSeveralPrecisions(t *testing.T) {
	m, dir := hybrid(t, published), t.TempDir()
	each := []engine.Precision{engine.Int4, engine.Int8, engine.Float32, engine.Int4Min}
	n := 0
	m.Params("", func(_ string, p *nn.Param) {
		if !packable(p) {
			return
		}
		engine.PackTensors(m.Backend(), each[n%len(each)], engine.PackRounded, p.Tensor)
		n++
	})
	if err := m.SavePacked(dir); err != nil {
		t.Fatal(err)
	}
	again, err := reloaded(t, m.Config, dir)
	if err != nil {
		t.Fatal(err)
	}
	ids := text(1, 20)
	want, _ := logits(m, ids, 1, 20, 20)
	if got, _ := logits(again, ids, 1, 20, 20); !slices.Equal(got, want) || again.Precision() != engine.Int4Min {
		t.Errorf("the logits are others, or the precision %s", again.Precision())
	}
}

// TestFormOfParts checks that a matrix of several tensors is packed in a form that holds all of them, if one exists.
func TestFormOfParts(t *testing.T) {
	w := &nn.Param{}
	fine := &nn.Param{Fine: true}
	for _, c := range []struct {
		parts string
		p     packing
		w     *nn.Param
		want  form
	}{
		{"Q4_0 Q4_0", packing{stored: true}, w, form{engine.Int4, integers}},
		{"Q4_0", packing{stored: true}, fine, form{engine.Int4, integers}},
		{"Q4_0 Q8_0", packing{stored: true}, w, form{engine.Int8, integers}},
		{"Q5_0 int4", packing{stored: true}, w, form{engine.Int8, integers}},
		{"Q4_K Q4_1 int4min", packing{stored: true}, w, form{engine.Int4Min, integers}},
		{"Q4_K Q6_K", packing{stored: true}, w, form{engine.Int8, rounded}},
		{"Q6_K", packing{stored: true}, w, form{engine.Int8, rounded}},
		{"BF16 BF16", packing{stored: true}, w, form{engine.BF16, exact}},
		{"BF16 F32", packing{stored: true}, w, form{engine.Float32, rounded}},
		{"Q8_0 F16", packing{stored: true}, w, form{engine.Float32, rounded}},
		{"Q4_0", packing{precision: engine.Int8}, w, form{engine.Int8, integers}},
		{"Q8_0", packing{precision: engine.Int4}, w, form{engine.Int4, rounded}},
		{"Q8_0", packing{precision: engine.Int4}, fine, form{engine.Int8, integers}},
		{"int4", packing{precision: engine.Float32}, w, form{engine.Float32, rounded}},
		{"F32", packing{precision: engine.Int4}, fine, form{engine.Int8, rounded}},
	} {
		var parts []checkpoint.Tensor
		for _, kind := range strings.Fields(c.parts) {
			parts = append(parts, checkpoint.Tensor{DType: checkpoint.DType(kind)})
		}
		if got := c.p.form(c.w, parts); got != c.want {
			t.Errorf("%s, %s, fine %v: found %v, want %v", c.parts, fmt.Sprint(c.p), c.w.Fine, got, c.want)
		}
	}
}

// TestQuantizedFileProblems checks that the error names rows whose factors are not finite, and that nothing is changed.
func TestQuantizedFileProblems(t *testing.T) {
	m, dir := packed(t, engine.Int4), t.TempDir()
	if err := m.SavePacked(dir); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, WeightsFile)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	f, err := checkpoint.ParseSafetensors(data)
	if err != nil {
		t.Fatal(err)
	}
	const name = "backbone.embeddings.word_embeddings.weight"
	x, ok := f.Tensor(name)
	if !ok {
		t.Fatal(f.Names())
	}
	copy(x.Data[3*len(x.Data)/x.Shape[0]+4:], []byte{0, 0x7e}) // makes a factor of row 3 NaN
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	again, err := reloaded(t, m.Config, dir)
	if want := name + `: tensor "` + name + `": row 3, group 0: found the factor NaN`; err == nil ||
		!strings.Contains(err.Error(), want) || again.Bytes() > 0 {
		t.Errorf("found the error %v and %d bytes of weights, want one with %q", err, again.Bytes(), want)
	}
}
