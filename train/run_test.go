package train

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hippo-ssm/hippo/internal/disk"
)

// TestRunInOrder checks the order of a run's measurements, samples, checkpoints and lines of metrics, including the
// final ones.
func TestRunInOrder(t *testing.T) {
	p, w := toyPlan(t), newToy()
	p.SampleEvery, p.SaveEvery, p.MeasureFirst = 5, 4, true
	p.Sample = func(context.Context) (string, error) { return fmt.Sprint("text ", w.run.step), nil }
	var losses []float64
	l, happened := start(t, p, w)
	step, eval := l.ev.Step, l.ev.Eval
	l.ev.Step = func(g Progress) {
		step(g)
		losses = append(losses, g.Loss)
	}
	l.ev.Eval = func(g Progress) {
		eval(g)
		if g.GradNorm != 0 || g.Loss != l.smoothed && g.Step > 0 || g.MeanLoss != l.Last().TrainLoss {
			t.Errorf("a measurement tells %+v", g)
		}
	}
	if interrupted, err := l.Run(t.Context()); interrupted || err != nil {
		t.Fatal(interrupted, err)
	}
	sameList(t, "the run", *happened, []string{"eval 0: 1, the best", "step 1", "step 2", "step 3",
		"eval 3: 0.25, the best", "step 4", "saved 4 in last", "step 5", "sample 5: text 5", "step 6",
		"eval 6: 0.1429, the best", "step 7", "step 8", "saved 8 in last", "step 9", "eval 9: 0.1, the best", "step 10",
		"eval 10: 0.09091, the best", "sample 10: text 10", "saved 10 in last"})
	if !slices.Equal(w.measured, []bool{false, false, false, false, true}) {
		t.Errorf("measured as in the end: %v, want the last alone", w.measured)
	}
	if l.Final.Loss != 1./11 {
		t.Errorf("the final score is %v, want 1/11", l.Final.Loss)
	}
	var lines []string
	for _, line := range metricsOf(t, p.Out) {
		var keys []string
		for key := range line {
			if key != "time" && key != "step" && key != "elapsed_s" {
				keys = append(keys, key)
			}
		}
		slices.Sort(keys)
		lines = append(lines, fmt.Sprint(line["step"], " ", strings.Join(keys, " ")))
	}
	update, valid := "grad_norm loss lr mem_bytes tokens_per_s", "epoch lr train_loss valid_loss"
	sameList(t, "metrics", lines, []string{"0 epoch lr valid_loss", "1 " + update, "3 " + valid, "4 " + update,
		"5 sample", "6 " + valid, "8 " + update, "9 " + valid, "10 " + update, "10 " + valid, "10 sample"})
	if l.Epochs() != 2.5 {
		t.Errorf("10 updates are %v epochs of 4", l.Epochs())
	}
	for i, point := range l.Points() {
		step := []int{0, 3, 6, 9, 10}[i]
		if point.Step != step || point.Epoch != float64(step)/4 {
			t.Errorf("point %d is of step %d and epoch %v, want %d", i, point.Step, point.Epoch, step)
		}
		if want := 0.1 * l.schedule.At(float64(step)); point.LR != want {
			t.Errorf("point %d has the rate %v, want %v", i, point.LR, want)
		}
		mean := 0.0
		if i > 0 {
			before := l.Points()[i-1].Step
			for _, loss := range losses[before:step] {
				mean += loss / float64(step-before)
			}
		}
		if math.Abs(point.TrainLoss-mean) > 1e-9 {
			t.Errorf("point %d has the training loss %v, want %v", i, point.TrainLoss, mean)
		}
	}
	if text, err := os.ReadFile(filepath.Join(p.Out, ConfigFile)); err != nil || !strings.Contains(string(text),
		"toy") {
		t.Errorf("the configuration: %s, %v", text, err)
	}
	board := ""
	files, err := filepath.Glob(filepath.Join(p.Out, "events.*"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	text, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, tag := range []string{"loss/train", "grad_norm", "lr", "tokens_per_s", "loss/valid", "sample", "text 5"} {
		board += fmt.Sprint(tag, " ", strings.Count(string(text), tag), "; ")
	}
	if want := "loss/train 4; grad_norm 4; lr 4; tokens_per_s 4; loss/valid 5; sample 2; text 5 1; "; board != want {
		t.Errorf("events have %s want %s", board, want)
	}
	first, more := start(t, p, w)
	first.history.Points, first.history.Best = l.Points()[:1], 0
	first.Plan.Steps = 1
	if _, err := first.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	sameList(t, "measured before the first update already", (*more)[:1], []string{"step 1"})
	again, more := start(t, p, w)
	again.step, again.history = l.step, l.history
	if interrupted, err := again.Run(t.Context()); interrupted || err != nil {
		t.Fatal(interrupted, err)
	}
	sameList(t, "a run that was over", *more, []string{"saved 10 in last"})
	again.started, again.cpu = time.Now().Add(-time.Hour), -time.Hour
	if err := errors.Join(again.Close(), again.Open(Events{})); err != nil {
		t.Fatal(err)
	}
	if again.Elapsed()-again.history.Elapsed > time.Minute || again.CPUTime()-again.history.CPU > time.Minute {
		t.Errorf("before it was opened, the run took %v", again.Elapsed())
	}
}

// TestNothingToTell checks that a run without samples and callbacks works, and that examples are reported as examples.
func TestNothingToTell(t *testing.T) {
	p, w := toyPlan(t), newToy()
	p.Examples = true
	l, err := New(p, w)
	if err != nil {
		t.Fatal(err)
	}
	w.run = l
	if err := l.Open(Events{}); err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	w.score = func(step int) (Score, error) { return Score{Loss: 1, Accuracy: float64(step) / 16, MAE: 0.5}, nil }
	if _, err := l.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	l.Note("heard by nobody")
	speeds, scores := 0, 0
	for _, line := range metricsOf(t, p.Out) {
		if line["examples_per_s"] != nil && line["tokens_per_s"] == nil {
			speeds++
		}
		if a, ok := line["valid_accuracy"].(float64); ok && a*16 == line["step"].(float64) && line["valid_mae"] == 0.5 {
			scores++
		}
	}
	if speeds != 4 || scores != 4 { // at steps 1, 4, 8, 10 and at 3, 6, 9, 10
		t.Errorf("found %d lines of examples and %d of scores, want 4 of each", speeds, scores)
	}
	if best, ok := l.BestPoint(); !ok || best.Step != 10 {
		t.Errorf("the best point is %v, want that of the highest accuracy", best)
	}
}

// TestPatience checks that a run ends after the given number of measurements in a row that are no better than the best,
// repeats the last measurement as a final one, and notes the reason. Its final score is that of the best model,
// measured as at the end.
func TestPatience(t *testing.T) {
	for patience, want := range map[int][]string{
		0: {"eval 3: 0.5, the best", "eval 6: 0.6", "eval 9: 0.5", "eval 12: 0.7", "eval 15: 0.4, the best",
			"eval 18: 0.5", "eval 20: 0.6", "saved 20 in last"},
		2: {"eval 3: 0.5, the best", "eval 6: 0.6", "eval 9: 0.5",
			"note step 9: the run ends here, as the validation loss " +
				"was no better than at step 3 in 2 measurements (patience)", "eval 9: 0.5, the best",
			"saved 9 in last"},
		1: {"eval 3: 0.5, the best", "eval 6: 0.6", "note step 6: the run ends here, as the validation loss was no " +
			"better than at " +
			"step 3 in 1 measurements (patience)", "eval 6: 0.6", "saved 6 in last"},
		4: {"eval 3: 0.5, the best", "eval 6: 0.6", "eval 9: 0.5", "eval 12: 0.7", "eval 15: 0.4, the best",
			"eval 18: 0.5", "eval 20: 0.6", "saved 20 in last"},
	} {
		p, w := toyPlan(t), newToy()
		p.Steps, p.Patience, p.KeepBest = 20, patience, true
		losses := map[int]float64{3: 0.5, 6: 0.6, 9: 0.5, 12: 0.7, 15: 0.4, 18: 0.5, 20: 0.6}
		w.score = func(step int) (Score, error) { return Score{Loss: losses[step]}, nil }
		l, happened := start(t, p, w)
		if interrupted, err := l.Run(t.Context()); interrupted || err != nil {
			t.Fatal(interrupted, err)
		}
		sameList(t, fmt.Sprint("patience ", patience), without(*happened, "step"), want)
		final := 0.401 // score of step 15, measured as at the end
		switch patience {
		case 1:
			final = 0.501
		case 2:
			final = 0.5 // the last score, which is better than 0.501
		}
		if math.Abs(l.Final.Loss-final) > 1e-12 {
			t.Errorf("patience %d: the final loss is %v, want %v", patience, l.Final.Loss, final)
		}
		if patience == 2 {
			continue // the last measurement is the best, which resets patience
		}
		again, more := start(t, p, w)
		again.step, again.history = l.step, l.history
		if interrupted, err := again.Run(t.Context()); interrupted || err != nil {
			t.Fatal(interrupted, err)
		}
		sameList(t, "a run that was over", *more, want[len(want)-1:])
	}
}

// TestPatienceLater checks that the note counts measurements from the best one.
func TestPatienceLater(t *testing.T) {
	p, w := toyPlan(t), newToy()
	p.Steps, p.Patience = 20, 2
	losses := map[int]float64{3: 0.5, 6: 0.4, 9: 0.5, 12: 0.7}
	w.score = func(step int) (Score, error) { return Score{Loss: losses[step]}, nil }
	l, happened := start(t, p, w)
	l.history.Ended = true // an earlier run of fewer steps ended here
	if interrupted, err := l.Run(t.Context()); interrupted || err != nil {
		t.Fatal(interrupted, err)
	}
	sameList(t, "patience after the second", without(*happened, "step"), []string{"eval 3: 0.5, the best",
		"eval 6: 0.4, the best", "eval 9: 0.5", "eval 12: 0.7",
		"note step 12: the run ends here, as the validation loss was no " +
			"better than at step 6 in 2 measurements (patience)", "eval 12: 0.7", "saved 12 in last"})
}

// TestKeepBest checks that the folder of the best model has the weights of the best measurement.
func TestKeepBest(t *testing.T) {
	p, w := toyPlan(t), newToy()
	p.KeepBest = true
	var at []string
	w.score = func(step int) (Score, error) {
		at = append(at, fmt.Sprint(w.w.Elements()))
		return Score{Loss: math.Abs(float64(step) - 6)}, nil
	}
	l, _ := start(t, p, w)
	if _, err := l.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	var best []float32
	if err := disk.ReadJSON(filepath.Join(p.Out, "best", "w.json"), &best); err != nil || fmt.Sprint(best) != at[1] {
		t.Errorf("the best model is %v, want that of step 6, %v: %v", best, at[1], err)
	}
	if l.Final.Loss != 0.001 {
		t.Errorf("the final loss is %v, want that of the best model in the end", l.Final.Loss)
	}
}

// TestEnough checks that a run ends with a measurement that is good enough, without a second measurement.
func TestEnough(t *testing.T) {
	p, w := toyPlan(t), newToy()
	w.enough = 0.2
	l, happened := start(t, p, w)
	if _, err := l.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	sameList(t, "the run", without(*happened, "step"), []string{"eval 3: 0.25, the best", "eval 6: 0.1429, the best",
		"saved 6 in last"})
	if l.Steps() != 6 {
		t.Errorf("the run has %d updates, want 6", l.Steps())
	}
}

// TestEverySoOften checks that a run can save, measure or sample after every update, and that a run that saves by time
// saves when it is due.
func TestEverySoOften(t *testing.T) {
	p, w := toyPlan(t), newToy()
	p.Steps, p.SaveEvery, p.SampleEvery, p.EvalEvery = 2, 1, 1, 1
	p.Sample = func(context.Context) (string, error) { return "words", nil }
	l, happened := start(t, p, w)
	if _, err := l.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, line := range metricsOf(t, p.Out) {
		if line["valid_loss"] != nil && line["train_loss"] == nil {
			t.Errorf("a line of step %v has no training loss", line["step"])
		}
	}
	sameList(t, "everything at once", *happened, []string{"step 1", "eval 1: 0.5, the best", "sample 1: words",
		"saved 1 in last",
		"step 2", "eval 2: 0.3333, the best", "sample 2: words", "saved 2 in last"})
	p, w = toyPlan(t), newToy()
	p.Steps, p.EvalEvery = 4, 100
	l, happened = start(t, p, w)
	at := time.Now()
	l.pace = pace{now: func() time.Time { return at }, saved: at}
	step := l.ev.Step
	l.ev.Step = func(g Progress) {
		step(g)
		at = at.Add(3 * time.Second)
	}
	if _, err := l.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	sameList(t, "saved by pace", *happened, []string{"step 1", "step 2", "saved 2 in last", "step 3", "step 4",
		"eval 4: 0.2, the best", "saved 4 in last"})
}

// TestSecondsAreSmoothed checks that the seconds of an update are a mean over all updates, and so lie between them.
func TestSecondsAreSmoothed(t *testing.T) {
	p, w := toyPlan(t), newToy()
	const each = 5 * time.Millisecond
	w.read = func(int) error {
		time.Sleep(each)
		return nil
	}
	l, _ := start(t, p, w)
	before, longest := time.Now(), 0.0
	l.ev.Step = func(g Progress) {
		longest = max(longest, time.Since(before).Seconds())
		before = time.Now()
		if l.stepSeconds < each.Seconds() || l.stepSeconds > longest {
			t.Errorf("step %d: updates of %v to %v s take %v s", g.Step, each, longest, l.stepSeconds)
		}
	}
	if _, err := l.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	// After a long first update, nine short ones leave 0.9⁹ = 0.39 of it.
	const long = 200 * time.Millisecond
	p, w = toyPlan(t), newToy()
	p.EvalEvery = 100
	w.read = func(step int) error {
		if step == 0 {
			time.Sleep(long)
		}
		return nil
	}
	l, _ = start(t, p, w)
	if _, err := l.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s := l.stepSeconds / long.Seconds(); s < 0.3 || s > 0.8 {
		t.Errorf("of a first update of %v, %v s are left after nine short ones", long, l.stepSeconds)
	}
	if l.evalSeconds <= 0 || l.evalSeconds > 10 {
		t.Errorf("a measurement took %v s", l.evalSeconds)
	}
}

// TestGradientsAreReused checks that updates after the first need no further memory for gradients.
func TestGradientsAreReused(t *testing.T) {
	p, w := toyPlan(t), newToy()
	p.Shards = 4
	l, err := New(p, w)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if _, _, err := l.Step(); err != nil {
			t.Fatal(err)
		}
		if len(l.sum.free) != SumsOf(4) {
			t.Errorf("after %d updates there are %d gradients, want %d", l.Steps(), len(l.sum.free), SumsOf(4))
		}
	}
}
