package hippo_test

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo"
)

// TestFitAndPredict checks that a network learns from a table, predicts its rows, and predicts a stream row by row. The
// caller may stop early. An error ends the predictions.
func TestFitAndPredict(t *testing.T) {
	var text strings.Builder
	text.WriteString("x,y\n")
	for i := range 400 {
		fmt.Fprintf(&text, "%.3f,%.3f\n", math.Sin(float64(i)/4), math.Sin(float64(i-1)/4))
	}
	path := filepath.Join(t.TempDir(), "waves.csv")
	if err := os.WriteFile(path, []byte(text.String()), 0o666); err != nil {
		t.Fatal(err)
	}
	c := hippo.DefaultFit(path, "y")
	c.Out, c.Epochs, c.BatchSize, c.Model.Layers, c.Model.DModel = t.TempDir()+"/run", 20, 8, "s4d*1", 8
	c.Length, c.Optim.LR = 32, 1e-2
	res, err := hippo.Fit(context.Background(), c, hippo.FitEvents{})
	if err != nil || res.Errors[0].MAE > 0.5*res.Errors[1].MAE {
		t.Fatalf("found %+v, %v", res, err)
	}
	p, err := hippo.LoadPredictor(c.Out)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for one, err := range p.Predict(context.Background(), path, hippo.DefaultPredict()) {
		if err != nil || len(one.Quantiles[0]) != len(p.Plan().Levels) {
			t.Fatalf("found %+v, %v", one, err)
		}
		n++
	}
	o := hippo.DefaultPredict()
	o.Live = true
	live := 0
	for _, err := range p.Stream(context.Background(), strings.NewReader(text.String()), o) {
		if live++; err != nil || live == 5 {
			break
		}
	}
	var last error
	for _, last = range p.Stream(context.Background(), strings.NewReader("x\nabc\n"), o) {
	}
	if n != 400 || live != 5 || last == nil || !strings.Contains(last.Error(),
		`line 2, column x: found "abc", want a number`) {
		t.Errorf("found %d predictions, %d live ones, the error %v", n, live, last)
	}
}
