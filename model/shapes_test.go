package model

import (
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hippo-ssm/hippo/nn"
)

// allocated returns the number of bytes that f allocates, in all goroutines.
func allocated(f func()) int {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return int(after.TotalAlloc - before.TotalAlloc)
}

// TestModelsOfAnySizeCostNothing checks that a model of any mixer, width and state size is described, checked and
// counted in almost no memory or time.
func TestModelsOfAnySizeCostNothing(t *testing.T) {
	largest := map[string]string{"s4": "d_state=4096", "dss": "d_state=2048", "lmu": "hidden=65536,order=1024",
		"s4d": "measure=diag-legs,d_state=4096"}
	for _, info := range Mixers() {
		for _, options := range []string{info.Tiny.Options, largest[info.Name]} {
			c := DefaultConfig()
			c.DModel, c.NLayer, c.VocabSize, c.NumHeads, c.MaxPositions = 1<<18, 2, 1<<26, 16, 1<<26
			if c.Mixer = info.Name; options != "" {
				c.Mixer += "(" + options + ")"
			}
			var shapes []Shape
			start := time.Now()
			bytes := allocated(func() {
				var err error
				if shapes, err = c.Shapes(); err != nil {
					t.Errorf("%s: %v", c.Mixer, err)
				}
			})
			const most = 1 << 20
			if bytes > most || time.Since(start) > 10*time.Second {
				t.Errorf("%s: %d bytes in %v, want at most %d and nearly no time", c.Mixer, bytes, time.Since(start),
					most)
			}
			if len(shapes) < 4 || shapes[0].Len != 1<<44 {
				t.Errorf("%s: shapes %v", c.Mixer, shapes)
			}
		}
	}
}

// TestShapes checks that Shapes lists the model's parameters, in order.
func TestShapes(t *testing.T) {
	c := DefaultConfig()
	c.DModel, c.VocabSize, c.Layers, c.MaxPositions = 16, 30, "h3,attention,hyena(l_max=32)", 64
	shapes, err := c.Shapes()
	if err != nil {
		t.Fatal(err)
	}
	m, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	i, trained := 0, 0
	m.Params("", func(name string, p *nn.Param) {
		if s := shapes[i]; s.Name != name || !slices.Equal(s.Dims, p.Shape()) || s.Len != p.Len() ||
			s.Trained != p.NeedsGrad() {
			t.Errorf("%v, want %s %v", s, name, p)
		}
		if shapes[i].Trained {
			trained += shapes[i].Len
		}
		i++
	})
	if i != len(shapes) || trained != m.NumParams() {
		t.Errorf("%d shapes with %d trained numbers, want %d with %d", len(shapes), trained, i, m.NumParams())
	}
}

// TestSizesThatOverflow checks that sizes whose products overflow an int are errors that name the field.
func TestSizesThatOverflow(t *testing.T) {
	for want, set := range map[string]func(*Config){
		"d_model: found 4611686018427387904, want at most":    func(c *Config) { c.DModel = 1 << 62 },
		"vocab_size: found 9223372036854775807, want at most": func(c *Config) { c.VocabSize = 1<<63 - 1 },
		"pad_vocab_size_multiple: found 4611686018427387904":  func(c *Config) { c.PadVocab = 1 << 62 },
		"d_inner: found 4611686018427387904, want at most":    func(c *Config) { c.DInner = 1 << 62 },
		"max_position_embeddings: found -1, want at least 0":  func(c *Config) { c.MaxPositions = -1 },
		"word_embeddings.weight: found shape [1073741824 1073": func(c *Config) {
			c.DModel, c.VocabSize = 1<<30,
				1<<30
		},
		"found shape [1073741824 4194304], want a model of at": func(c *Config) { c.DModel, c.DInner = 1<<22, 1<<30 },
	} {
		c := DefaultConfig()
		c.DModel, c.NLayer, c.VocabSize = 16, 2, 30
		set(&c)
		if _, err := New(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}
