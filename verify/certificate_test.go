package verify

import (
	"maps"
	"math"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/engine/native"
	"github.com/hippo-ssm/hippo/internal/testkit/toymodel"
	"github.com/hippo-ssm/hippo/mixer"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/tensor"
)

// drifting is a mixer whose output is wrong by a factor from a position on: only when it is read position by position,
// or always.
type drifting struct {
	mixer.Mixer
	from   int
	by     float64
	always bool
}

func (d drifting) Forward(t *autograd.Tape, u *tensor.Tensor, r *mixer.Rows) *tensor.Tensor {
	y := d.Mixer.Forward(t, u, r)
	if (d.always || u.Rows() == 1) && r.Start(0) >= d.from {
		return t.Scale(y, d.by)
	}
	return y
}

// TestCertificate checks that every recurrent mixer is certified over some positions, in consecutive spans. A mixer
// that is wrong after 50 positions must fail from there on, and one that is NaN by definition must fail.
func TestCertificate(t *testing.T) {
	for _, info := range model.Mixers() {
		if !info.Recurrent {
			continue
		}
		ends := map[string]int{}
		err := (&Certificate{Positions: 60, Report: func(s Span) error {
			if s.From != ends[s.Form]+1 || s.To < s.From {
				t.Errorf("%s: found a span from %d to %d after %d", s.Mixer, s.From, s.To, ends[s.Form])
			}
			if ends[s.Form] = s.To; !s.OK {
				t.Errorf("%s in %s, %d to %d: off by %.1e", s.Mixer, s.Form, s.From, s.To, s.Error)
			}
			return nil
		}}).Mixer(t.Context(), info)
		if err != nil || ends["chunks"] != 60 || ends["steps"] != 60 {
			t.Errorf("%s: certified %v positions (%v), want 60", info.Name, ends, err)
		}
	}
	info, plain := mixer.H3Info, mixer.H3Info.New
	for _, d := range []drifting{{from: 50, by: 1.01}, {from: 50, by: math.NaN(), always: true}} {
		info.New = func(c mixer.Config) (_ mixer.Mixer, err error) {
			d.Mixer, err = plain(c)
			return d, err
		}
		if err := (&Certificate{Positions: 90, Report: func(s Span) error {
			if want := s.Form == "chunks" && !d.always || s.To <= 50; s.OK != want {
				t.Errorf("a mixer that goes wrong: %s, %d to %d is certified: %v", s.Form, s.From, s.To, s.OK)
			}
			if d.always && !s.OK && s.Error != farthest {
				t.Errorf("a mixer that becomes NaN: %s, %d to %d is off by %v", s.Form, s.From, s.To, s.Error)
			}
			return nil
		}}).Mixer(t.Context(), info); err != nil {
			t.Error(err)
		}
	}
}

// TestModelCertificate checks that a whole model is certified, and that a model that is wrong on the engine after 50
// positions is not.
func TestModelCertificate(t *testing.T) {
	m := toymodel.New(t, "h3,attention,mamba", 26)
	certify := func(b engine.Backend, ids []int32) (ok map[int]bool) {
		ok = map[int]bool{}
		c := Certificate{Positions: 80, Backend: b, Report: func(s Span) error {
			if before, known := ok[s.To]; known && before != s.OK || s.Model != "toy" {
				t.Errorf("%s, %s, %d to %d: %v", s.Model, s.Form, s.From, s.To, s.OK)
			}
			ok[s.To] = s.OK
			return nil
		}}
		if err := c.Model(t.Context(), "toy", m, ids); err != nil {
			t.Fatal(err)
		}
		return ok
	}
	want := map[int]bool{1: true, 2: true, 5: true, 10: true, 20: true, 50: true, 80: true}
	if got := certify(nil, nil); !maps.Equal(got, want) {
		t.Errorf("found %v", got)
	}
	want[80] = false
	if got := certify(wrongFrom{native.Backend, 50}, toymodel.Text(3, 90, 26)); !maps.Equal(got, want) {
		t.Errorf("of an engine that goes wrong found %v", got)
	}
	long := Certificate{Positions: 91, Report: func(Span) error { return nil }}
	if err := long.Model(t.Context(), "", m, toymodel.Text(3, 90, 26)); err == nil ||
		!strings.Contains(err.Error(), "found 90 tokens, want at least 91") {
		t.Errorf("found %v", err)
	}
}

// wrongFrom is a backend whose engines look up wrong tokens after some positions.
type wrongFrom struct {
	engine.Backend
	from int
}

func (b wrongFrom) Open(step *engine.Step) engine.Engine {
	return &wrongEngine{b.Backend.Open(step), b.from}
}

type wrongEngine struct {
	engine.Engine
	left int
}

func (e *wrongEngine) Embedding(table *tensor.Tensor, ids []int32) *tensor.Tensor {
	y := e.Engine.Embedding(table, ids)
	if e.left <= 0 {
		y = e.Engine.Scale(y, 1.01)
	}
	e.left -= len(ids)
	return y
}
