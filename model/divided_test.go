package model_test

import (
	"math"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/internal/testkit/smallengine"
	"github.com/hippo-ssm/hippo/internal/testkit/toymodel"
)

// TestDivided checks that layers for which a device has no memory compute on the processor, with the same logits as a
// model that is all on the device. For a token, only the stream is copied out and back, besides the id and the logits.
// A state that was read this way can move to the processor.
func TestDivided(t *testing.T) {
	const vocab = 40
	ids := toymodel.Text(6, 73, vocab)
	whole := toymodel.New(t, "h3,attention,mamba", vocab)
	last := whole.NewState()
	want := toymodel.Decode(whole, ids, last, func(int, int) {})
	seen := map[string]bool{}
	for part := range 9 {
		bytes := whole.Bytes() * part / 8
		m, device := toymodel.New(t, "h3,attention,mamba", vocab), smallengine.New[float32]()
		if err := m.UseWithin(device, bytes); err != nil {
			if seen["none"] = true; !strings.Contains(err.Error(), "outside of the layers") {
				t.Errorf("%d bytes: %v", bytes, err)
			}
			continue
		}
		how, _, _ := strings.Cut(m.Divided(), " of 3 layers")
		seen[how] = true
		state := m.NewState()
		in, out := 0, 0
		got := toymodel.Decode(m, ids, state, func(int, int) { in, out, _ = device.Copied() })
		for i := range want {
			for j, w := range want[i] {
				if math.Abs(float64(got[i][j]-w)) > 1e-4*math.Max(1, math.Abs(float64(w))) {
					t.Fatalf("%d bytes (%s): call %d, logit %d is %g, want %g", bytes, m.Divided(), i, j, got[i][j], w)
				}
			}
		}
		d := whole.Config.DModel
		back, there := 2*d, 2*d // numbers of the stream copied to the device and from it: residual and hidden
		switch how {
		case "":
			back, there = 0, 0
		case "0":
			there = d // without a residual, as no layer has added anything
		}
		if in != back || out != vocab+there {
			t.Errorf("%d bytes (%s): a token copies %d numbers in and %d out, want %d and %d", bytes, m.Divided(), in,
				out, back, vocab+there)
		}
		toymodel.Saved(t, whole, state)
	}
	for _, how := range []string{"none", "0", "1", "2", ""} {
		if !seen[how] {
			t.Errorf("no size has %q layers on the device: %v", how, seen)
		}
	}
	shared := toymodel.New(t, "zamba2-shared(num_heads=2)>mamba2,mamba2", vocab)
	if err := shared.UseWithin(smallengine.New[float32](), shared.Bytes()/2); err == nil ||
		!strings.Contains(err.Error(), "share") {
		t.Errorf("layers that share weights: %v", err)
	}
}
