package train

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/internal/config"
	"github.com/hippo-ssm/hippo/internal/status"
	"github.com/hippo-ssm/hippo/nn"
)

// TestFarAbove checks that a loss is far off if it is more than 1 nat above that of guessing and, if that is higher,
// above that of the model that the run started from.
func TestFarAbove(t *testing.T) {
	for _, c := range []struct {
		guess      float64
		points     []Point
		began, far float64 // far is the highest loss that is not far off
	}{
		{3, nil, 0, 4},
		{3, []Point{{Step: 0, Valid: Score{Loss: 5}}}, 5, 6},
		{3, []Point{{Step: 0, Valid: Score{Loss: 2}}}, 0, 4},
		{3, []Point{{Step: 0, Valid: Score{Loss: 3}}}, 0, 4},
		{3, []Point{{Step: 4, Valid: Score{Loss: 5}}}, 0, 4},
		{3, []Point{{Step: 0, Valid: Score{Loss: 5}}, {Step: 4, Valid: Score{Loss: 9}}}, 5, 6},
	} {
		w := newToy()
		w.guess = c.guess
		l := &Training{work: w, history: history{Points: c.points}}
		if got := l.Began(); got != c.began {
			t.Errorf("%v: it began with %v, want %v", c.points, got, c.began)
		}
		if l.Far(c.far) || !l.Far(c.far+0.001) {
			t.Errorf("%v: %v is far: %v, a little more: %v", c.points, c.far, l.Far(c.far), l.Far(c.far+0.001))
		}
	}
	w := newToy() // its loss of guessing is +Inf
	if (&Training{work: w}).Far(1e30) {
		t.Error("where there is no guessing, a loss is far above it")
	}
}

// TestDiverged checks that the error of a run that diverged has the right numbers, and says whether a checkpoint is
// worth keeping.
func TestDiverged(t *testing.T) {
	w := newToy()
	w.guess = 3
	l := &Training{work: w, smoothed: 4.5, Plan: Plan{Optim: Optim{LR: 0.25}}, history: history{Best: 1,
		Points: []Point{
			{Step: 2, Valid: Score{Loss: 2.75}}, {Step: 6, Valid: Score{Loss: 2.5}}}}}
	var e *DivergedError
	if err := l.Diverged(2.5); !errors.As(err, &e) || *e != (DivergedError{Loss: 4.5, Guess: 3, LR: 0.25, Best: 2.5,
		BestStep: 6}) {
		t.Fatalf("found the error %+v", e)
	}
	if got := e.Error(); got != "the training diverged: its loss is 4.5 nats per token, that of guessing 3; want a "+
		"smaller "+
		"optim.lr (found 0.25), a longer optim.warmup or a smaller optim.clip; the best checkpoint, of step 6, has a "+
		"validation loss of 2.5000" {
		t.Errorf("the error is %q", got)
	}
	for _, best := range []float64{3, 3.5} {
		e.Best = best
		if got := e.Error(); !strings.HasSuffix(got, "; there is no checkpoint worth keeping") {
			t.Errorf("with a best loss of %v the error is %q", best, got)
		}
	}
	e.Began = 0.75
	if got := e.Error(); !strings.Contains(got, "before the first update it was 0.75; want") {
		t.Errorf("the error is %q", got)
	}
	e.Began = 3.75
	if got := e.Error(); !strings.Contains(got, "guessing 3, before the first update it was 3.75; want") {
		t.Errorf("the error is %q", got)
	}
	l.history.Best = -1
	if err := l.Diverged(2); !errors.As(err, &e) || e.BestStep != 0 {
		t.Errorf("without a best point: %+v", e)
	}
	l.smoothed = 4
	if err := l.Diverged(2); err != nil {
		t.Errorf("a loss that is not far off: %v", err)
	}
	// A run that is resumed after its last step has no loss of its own part.
	l.smoothed, l.history.Curve.Loss = math.NaN(), []float64{9, 5}
	if err := l.Diverged(2); !errors.As(err, &e) || e.Loss != 5 {
		t.Errorf("a run that was over: %+v, want the last of the curve", e)
	}
	if l.history.Curve.Loss = []float64{7}; l.TrainLoss() != 7 {
		t.Errorf("of a curve of one point the training loss is %v", l.TrainLoss())
	}
	l.history.Curve.Loss = nil
	if got := l.TrainLoss(); !math.IsNaN(got) {
		t.Errorf("before the first update the training loss is %v", got)
	}
	l.history.Curve.Loss, l.smoothed = []float64{9}, 1
	if got := l.TrainLoss(); got != 1 {
		t.Errorf("the training loss is %v, want that of this part of the run", got)
	}
}

// TestOverfits checks that a model overfits if the validation loss is more than 0.05 above the best while the training
// loss is below the best.
func TestOverfits(t *testing.T) {
	w := newToy()
	w.guess = 9
	l := &Training{work: w}
	for _, c := range []struct {
		train, valid, best float64
		want               bool
	}{
		{1, 2.1, 2, true}, {1, 2 + rising, 2, false}, {1, 2.04, 2, false}, {2, 2.1, 2, false}, {2.5, 3, 2, false}, {1,
			1.5, 2, false},
	} {
		l.smoothed = c.train
		if got := l.Overfits(c.valid, c.best); got != c.want {
			t.Errorf("%+v: overfits: %v", c, got)
		}
	}
	w.guess, l.smoothed = math.Inf(1), 1
	if l.Overfits(2.1, 2) {
		t.Error("where numbers are predicted, errors of all sizes overfit")
	}
}

// TestWarnings checks that a run notes once that it diverges, and once, but not at the end, that it overfits.
func TestWarnings(t *testing.T) {
	p, w := toyPlan(t), newToy()
	p.Steps, p.EvalEvery, p.Shards = 5, 1, 1
	w.guess = 100
	valid := []float64{20, 20.06, 20.01, 20.5, 21}
	w.score = func(step int) (Score, error) { return Score{Loss: valid[step-1]}, nil }
	l, happened := start(t, p, w)
	if _, err := l.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	notes := func() (notes []string) {
		for _, s := range *happened {
			if strings.HasPrefix(s, "note") {
				notes = append(notes, s)
			}
		}
		return notes
	}
	if got := notes(); len(got) != 1 || !strings.HasPrefix(got[0],
		"note step 2: the validation loss rises, from 20.0000 at "+
			"step 1 to 20.0600, while the training loss, ") || !l.overfit {
		t.Errorf("found the notes %q", got)
	}
	l.overfit = false
	best, _ := l.BestPoint()
	*happened = nil
	if l.noteOverfitting(21, best, true); l.overfit || len(notes()) != 0 {
		t.Error("in the end it is noted that the model overfits")
	}
	w.guess = -100 // every loss is far above it
	l.step, l.history, l.smoothed, *happened = 0, history{Best: -1}, math.NaN(), nil
	w.score = nil
	if _, err := l.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := notes(); len(got) != 1 || !strings.HasPrefix(got[0], "note step 1: the training loss, ") {
		t.Errorf("a run that diverges has the notes %q", got)
	}
	l.warned, *happened = false, nil
	w.guess, l.smoothed = 1, 2.5
	for range 2 {
		l.warn()
	}
	if got := notes(); len(got) != 1 || !strings.HasPrefix(got[0],
		"note step 5: the training loss, 2.5, is far above that of "+
			"guessing, 1: the training diverges; a smaller optim.lr (now 0.1)") {
		t.Errorf("found the notes %q", got)
	}
	l.warned, l.smoothed = false, 2
	if l.warn(); l.warned {
		t.Error("a loss that is not far off is warned of")
	}
}

// TestFindLR checks that rates grow by a constant factor from 1e-6 to 1, and that of the systems in proportion; that
// the loss is smoothed with decay 0.9 and bias correction; and that the suggested rate is a tenth of that of the least
// loss.
func TestFindLR(t *testing.T) {
	const n = 13
	for _, ssm := range []float64{0, 0.05} {
		p, w := toyPlan(t), newToy()
		p.Optim.SSMLR = ssm
		p.Shards = 1
		var told []LRPoint
		r, err := FindLR(t.Context(), n, p, w, func(p LRPoint) { told = append(told, p) })
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(told, r.Points) || len(told) != n || r.Exploded {
			t.Fatalf("%d points were told, %d are there of %d; exploded: %v", len(told), len(r.Points), n, r.Exploded)
		}
		mean, weight, least := 0.0, 0.0, math.Inf(1)
		for i, q := range r.Points {
			if want := math.Pow(10, -6+float64(i)/2); math.Abs(q.LR/want-1) > 1e-9 {
				t.Errorf("rate %d is %v, want %v", i, q.LR, want)
			}
			mean, weight = 0.9*mean+0.1*q.Loss, 0.9*weight+0.1
			if math.Abs(q.Smoothed-mean/weight) > 1e-9 {
				t.Errorf("smoothed loss %d is %v, want %v", i, q.Smoothed, mean/weight)
			}
			if q.Smoothed < least {
				least = q.Smoothed
				if r.Best.Smoothed > q.Smoothed {
					t.Errorf("the best is %+v, and point %d is %+v", r.Best, i, q)
				}
			}
		}
		if r.Best.Smoothed != least {
			t.Errorf("the best is %+v, want the loss %v", r.Best, least)
		}
		if want := r.Best.LR / 10; least < r.Points[0].Smoothed && math.Abs(r.Suggested/want-1) > 1e-12 ||
			least == r.Points[0].Smoothed && r.Suggested != 0 {
			t.Errorf("suggested %v of %+v", r.Suggested, r.Best)
		}
		if p.Optim.SSMLR != ssm || p.Steps != 10 {
			t.Error("the plan of the caller was changed")
		}
	}
	// The loss falls: a tenth of the rate of the least loss is suggested.
	p, w := toyPlan(t), newToy()
	p.Shards, w.fixed = 1, []float32{2.5, -1.5}
	if r, err := FindLR(t.Context(), 40, p, w, nil); err != nil || r.Best.Smoothed >= r.Points[0].Smoothed ||
		math.Abs(r.Suggested/r.Best.LR-0.1) > 1e-12 {
		t.Errorf("a loss that falls: %+v, %v", r, err)
	}
	// The loss stays at 0: nothing is suggested and nothing explodes.
	p, w = toyPlan(t), newToy()
	w.fixed = []float32{3, -2}
	if r, err := FindLR(t.Context(), 12, p, w, nil); err != nil || r.Exploded || r.Suggested != 0 ||
		len(r.Points) != 12 ||
		r.Best != r.Points[0] {
		t.Errorf("a loss that stays: %+v, %v", r, err)
	}
	// The loss rises from update to update: nothing is suggested, and the test ends when the loss is twice the least.
	w = newToy()
	factor := 1.0
	w.count = func(s Shard) int {
		factor *= 1.5
		w.w.CopyFrom([]float32{float32(10 * factor), float32(10 * factor)})
		return 1
	}
	p = toyPlan(t)
	p.Shards = 1
	r, err := FindLR(t.Context(), 40, p, w, nil)
	if err != nil || !r.Exploded || r.Suggested != 0 || r.Best != r.Points[0] || len(r.Points) == 40 {
		t.Fatalf("a loss that rises: %+v, %v", r, err)
	}
	for i, q := range r.Points {
		if over := q.Smoothed > 2*r.Best.Smoothed; over != (i == len(r.Points)-1) {
			t.Errorf("point %d of %d has the loss %v, the best %v", i, len(r.Points), q.Smoothed, r.Best.Smoothed)
		}
	}
	w = newToy()
	w.read = func(step int) error {
		if step == 3 {
			w.w.CopyFrom([]float32{float32(math.NaN()), 0})
		}
		return nil
	}
	if r, err := FindLR(t.Context(), 20, toyPlan(t), w, nil); err != nil || !r.Exploded || len(r.Points) != 3 {
		t.Errorf("a loss of NaN: %+v, %v, want three points before", r, err)
	}
	w.w.CopyFrom([]float32{float32(math.NaN()), 0})
	w.read = nil
	if r, err := FindLR(t.Context(), 20, toyPlan(t), w, nil); err != nil || !r.Exploded || len(r.Points) != 0 ||
		r.Suggested != 0 {
		t.Errorf("NaN from the start: %+v, %v, want no point", r, err)
	}
	for ssm, want := range map[float64]float64{0: 1, 0.05: 0.5} { // as multiples of the rate 0.1
		p, w, before := toyPlan(t), newToy(), float32(3)
		p.Optim.SSMLR, w.w.Role, p.Shards = ssm, nn.SSMSystem, 1
		if _, err := FindLR(t.Context(), 13, p, w, func(q LRPoint) {
			if q.LR > 1e-3 && before == 3 { // Adam moves by the rate while the sign of the gradient stays
				rates := 0.0 // sum over all updates so far
				for rate := q.LR; rate > 1e-7; rate /= math.Sqrt(10) {
					rates += rate
				}
				moved := math.Abs(float64(w.w.Elements()[0])-3) / rates
				if before = 0; math.Abs(moved/want-1) > 0.1 {
					t.Errorf("with ssm_lr %v a system moves by %v of the rate, want %v", ssm, moved, want)
				}
			}
		}); err != nil {
			t.Fatal(err)
		}
	}
	broken := errors.New("broken")
	w.read = func(int) error { return broken }
	if _, err := FindLR(t.Context(), 20, toyPlan(t), w, nil); !errors.Is(err, broken) {
		t.Errorf("found the error %v", err)
	}
	if _, err := FindLR(t.Context(), 9, toyPlan(t), newToy(), nil); err == nil || !strings.Contains(err.Error(),
		"found 9") {
		t.Errorf("nine updates: found the error %v", err)
	}
	if _, err := FindLR(t.Context(), 10, toyPlan(t), newToy(), nil); err != nil {
		t.Errorf("ten updates: %v", err)
	}
	p.Precision = "x"
	if _, err := FindLR(t.Context(), 10, p, newToy(), nil); err == nil {
		t.Error("an unknown precision: no error")
	}
}

// TestOptimBounds checks each setting of the optimizer at its bounds and beyond.
func TestOptimBounds(t *testing.T) {
	good := toyPlan(t).Optim
	for key, c := range map[string]struct {
		set    func(o *Optim, v float64)
		hi     float64
		beyond float64
	}{
		"optim.lr":           {func(o *Optim, v float64) { o.LR = v }, 10, 10.5},
		"optim.ssm_lr":       {func(o *Optim, v float64) { o.SSMLR = v }, 10, 10.5},
		"optim.weight_decay": {func(o *Optim, v float64) { o.WeightDecay = v }, 100, 101},
		"optim.beta1":        {func(o *Optim, v float64) { o.Beta1 = v }, 0.999999, 0.9999995},
		"optim.beta2":        {func(o *Optim, v float64) { o.Beta2 = v }, 0.9999999, 0.99999995},
		"optim.eps":          {func(o *Optim, v float64) { o.Eps = v }, 1, 1.01},
		"optim.clip":         {func(o *Optim, v float64) { o.Clip = v }, 1e9, 1.1e9},
		"optim.min_lr_ratio": {func(o *Optim, v float64) { o.MinLRRatio = v }, 1, 1.01},
	} {
		for v, ok := range map[float64]bool{0: true, c.hi: true, -1e-9: false, c.beyond: false, math.Inf(1): false} {
			o := good
			c.set(&o, v)
			var p config.Problems
			if o.Validate(&p); (p.Err() == nil) != ok || !ok && !strings.Contains(p.Err().Error(), key+": found ") {
				t.Errorf("%s of %v: found %v", key, v, p.Err())
			}
		}
		o := good
		c.set(&o, math.NaN())
		var p config.Problems
		if o.Validate(&p); p.Err() == nil {
			t.Errorf("%s of NaN: no problem", key)
		}
	}
	for key, change := range map[string]func(o *Optim){
		"optim.decay_rule": func(o *Optim) { o.DecayRule = "x" }, "optim.schedule": func(o *Optim) { o.Schedule = "x" },
	} {
		o := good
		change(&o)
		var p config.Problems
		if o.Validate(&p); p.Err() == nil || !strings.Contains(p.Err().Error(), key) {
			t.Errorf("%s: found %v", key, p.Err())
		}
	}
	s := (&Optim{Schedule: "cosine", Warmup: 3, MinLRRatio: 0.25}).schedule(70)
	if s.Kind != "cosine" || s.Warmup != 3 || s.Total != 70 || s.MinRatio != 0.25 {
		t.Errorf("the schedule is %+v", s)
	}
	for precision, ok := range map[string]bool{"float32": true, "bf16": true, "int8": false, "": false} {
		var p config.Problems
		if CheckPrecision(&p, precision); (p.Err() == nil) != ok {
			t.Errorf("precision %q: found %v", precision, p.Err())
		}
	}
}

// TestWhatDecays checks whether parameters of each role decay, by both rules.
func TestWhatDecays(t *testing.T) {
	matrices := map[nn.Role]bool{nn.Weight: true, nn.Mixing: true, nn.Table: true}
	for _, r := range []nn.Role{nn.Weight, nn.Mixing, nn.Table, nn.Bias, nn.Norm, nn.SSM, nn.SSMSystem} {
		if got := (&Optim{DecayRule: "matrices"}).decays(r); got != matrices[r] {
			t.Errorf("role %d decays by the rule of matrices: %v", r, got)
		}
		if got := (&Optim{DecayRule: "release"}).decays(r); got != (r != nn.SSMSystem) {
			t.Errorf("role %d decays by the rule of the release: %v", r, got)
		}
	}
}

// TestGroupsOfAToy checks that frozen parameters are not trained.
func TestGroupsOfAToy(t *testing.T) {
	groups := (&Optim{LR: 0.5, WeightDecay: 0.25, DecayRule: "release"}).groups(newToy())
	if len(groups) != 1 || groups[0].Name != "w" || groups[0].LR != 0.5 || groups[0].Decay != 0.25 {
		t.Errorf("found the groups %+v", groups)
	}
}

// TestWeightsFit checks that training needs the values of all parameters and, for each trained one, two moments and the
// gradients of as many shards as are summed at once, with 4 bytes each.
func TestWeightsFit(t *testing.T) {
	n := ParamCount{All: 100, Trained: 50, Values: 300}
	for shards, sums := range map[int]int{0: 0, 1: 1, 2: 2, 3: 2, 4: 3, 8: 4} {
		if got, want := n.Bytes(shards), 300+4*(2+sums)*50; got != want {
			t.Errorf("%d shards: %d bytes, want %d", shards, got, want)
		}
	}
	if SumsOf(-1) != 0 {
		t.Error("a number of shards below 0 takes gradients")
	}
	need := n.Bytes(8)
	if err := WeightsFit(n, 8, status.Memory{Bytes: uint64(need)}); err != nil {
		t.Errorf("just enough memory: %v", err)
	}
	for free, advice := range map[int]string{need - 1: "fewer shards (found 8), which are larger, need less",
		n.Bytes(1): "fewer shards", n.Bytes(1) - 1: "a smaller model.d_model or fewer layers need less"} {
		var e *MemoryError
		err := WeightsFit(n, 8, status.Memory{Bytes: uint64(free), Of: "the machine"})
		if !errors.As(err, &e) || e.Need != need || e.Weights != need || e.Activations != 0 ||
			!strings.Contains(e.Advice, advice) {
			t.Errorf("%d of %d bytes: found the error %v, want %q", free, need, err, advice)
		}
	}
	e := &MemoryError{Need: 3 << 30, Weights: 1 << 30, Activations: 2 << 30, Free: status.Memory{Bytes: 1 << 29,
		Of: "the machine"}, Advice: "fewer layers need less"}
	with := e.Error()
	e.Activations = 1
	if got := e.Error(); !strings.Contains(got, ", activations "+status.Bytes(1)) {
		t.Errorf("the error is %q", got)
	}
	e.Activations = 0
	without := e.Error()
	if !strings.Contains(with, ", activations "+status.Bytes(2<<30)+")") || strings.Contains(without, "activations") ||
		!strings.HasPrefix(without, "memory: the run needs about "+status.Bytes(3<<30)+" (weights, gradients and "+
			"moments "+
			status.Bytes(1<<30)+"), but the machine leaves "+status.Bytes(1<<29)+"; fewer layers need less; "+
			"memory=ignore") {
		t.Errorf("the errors are %q and %q", with, without)
	}
	if got := bytesText(-5); got != status.Bytes(0) {
		t.Errorf("less than nothing is %q", got)
	}
}
