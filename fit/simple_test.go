package fit_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/fit"
)

// by returns the predictions of a contender of a run for a file.
func by(t *testing.T, dir, use, path string, live bool) (all []fit.Prediction) {
	t.Helper()
	m, err := fit.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if m, err = m.Use(use); err != nil {
		t.Fatal(err)
	}
	opt := fit.PredictOptions{Options: fit.DefaultReadOptions(), Live: live}
	err = m.Predict(t.Context(), []string{path}, nil, opt, func(p *fit.Prediction) error {
		all = append(all, *p)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestSimpleRivals checks that logistic regression and boosted trees find classes by the mean of a column, and that the
// better one predicts if the network is worse, with a note.
func TestSimpleRivals(t *testing.T) {
	path := write(t, "shifts.csv", shifts(160))
	res := run(t, small(t, path, func(c *fit.Config) {
		c.Target, c.Series, c.Epochs, c.Optim.LR = []string{"kind"}, "id", 1, 1e-5 // the network learns nothing
	}))
	if res.Plan.Use != "logistic" && res.Plan.Use != "boosted" || len(res.Rivals) != 3 {
		t.Fatalf("found that %s predicts, of %d rivals", res.Plan.Use, len(res.Rivals))
	}
	for _, want := range []string{"on 27 simple features, best on the validation set: cross-entropy",
		"(--use takes network, majority, logistic, boosted)"} {
		if !strings.Contains(res.Choice, want) {
			t.Errorf("found the choice %q, want %q in it", res.Choice, want)
		}
	}
	for _, use := range []string{"logistic", "boosted", ""} {
		right := 0
		for i, p := range by(t, res.Config.Out, use, path, false) {
			if class, _ := p.Class(); (res.Plan.ClassNames()[class] == "high") == (i%4 == 0) {
				right++
			}
		}
		if right < 155 {
			t.Errorf("%q: found %d of 160 right", use, right)
		}
	}
	// a tree with a feature that does not exist
	name := filepath.Join(res.Config.Out, "best", "network.json")
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	broken := regexp.MustCompile(`"f":\s*\[\s*`).ReplaceAllString(string(text), "${0}77")
	if err := os.WriteFile(name, []byte(broken), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(res.Config.Out, "best", "manifest.json")); err != nil {
		t.Fatal(err)
	}
	_, err = fit.Open(res.Config.Out)
	if err == nil || !strings.Contains(err.Error(), "a feature that is not among 27") {
		t.Errorf("found %v for a tree of a feature that is not there", err)
	}
}

// TestSimpleRows checks that classes of rows are predicted from the previous rows, row by row as at once.
func TestSimpleRows(t *testing.T) {
	path := write(t, "sensor.csv", sensor(900))
	res := run(t, small(t, path, func(c *fit.Config) {
		c.Target, c.Ignore, c.Length, c.Epochs = []string{"zustand"}, []string{"Wert"}, 50, 2
	}))
	for _, use := range []string{"logistic", "boosted"} {
		all, live := by(t, res.Config.Out, use, path, false), by(t, res.Config.Out, use, path, true)
		for i := range all {
			if math.Abs(all[i].Probabilities[0]-live[i].Probabilities[0]) > 1e-12 {
				t.Fatalf("%s, row %d: found %v at once, %v alone", use, i, all[i].Probabilities, live[i].Probabilities)
			}
		}
	}
	for i, s := range res.Rivals[1:] { // the state follows the load with a delay
		if s.Accuracy < 75 {
			t.Errorf("rival %d: found %g %% right", i+1, s.Accuracy)
		}
	}
}

// TestSimpleNumbers checks that ridge regression predicts a number that is linear in features of its sequence, with
// intervals.
func TestSimpleNumbers(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 4))
	var b strings.Builder
	b.WriteString("id,x,y\n")
	for id := range 200 {
		up, sum := rng.NormFloat64(), 0.0
		var x []float64
		for range 10 {
			x = append(x, up+rng.NormFloat64())
			sum += x[len(x)-1]
		}
		for _, v := range x {
			fmt.Fprintf(&b, "%d,%.4f,%.4f\n", id, v, 1000+3*sum/10+x[9]+0.1*rng.NormFloat64())
		}
	}
	// one number per sequence
	lines := strings.Split(b.String(), "\n")
	for i := 1; i+1 < len(lines); i++ {
		first := strings.Split(lines[1+(i-1)/10*10], ",")
		cells := strings.Split(lines[i], ",")
		lines[i] = cells[0] + "," + cells[1] + "," + first[2]
	}
	res := run(t, small(t, write(t, "sums.csv", strings.Join(lines, "\n")), func(c *fit.Config) {
		c.Target, c.Series, c.Epochs = []string{"y"}, "id", 1
	}))
	if res.Plan.Use != "ridge" {
		t.Fatalf("found that %s predicts: %s", res.Plan.Use, res.Choice)
	}
	for i, c := range res.Plan.Contenders {
		if e := res.Errors[i]; c.Name == "ridge" && (e.MAE > 0.2 || e.Coverage < 50) {
			t.Errorf("found %+v", e)
		}
	}
}
