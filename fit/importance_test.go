package fit_test

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/fit"
)

// shifts returns sequences whose class raises column a. Column b has no information. One in four sequences is raised.
func shifts(n int) string {
	rng := rand.New(rand.NewPCG(9, 9))
	var b strings.Builder
	b.WriteString("id,b,a,kind\n")
	for id := range n {
		class, up := "low", 0.0
		if id%4 == 0 {
			class, up = "high", 1
		}
		for range 8 + id%5 {
			fmt.Fprintf(&b, "%d,%.2f,%.2f,%s\n", id, rng.NormFloat64(), up+0.3*rng.NormFloat64(), class)
		}
	}
	return b.String()
}

// TestImportance checks that the decisive column matters, that a column of noise does not, and that the report says how
// this was measured.
func TestImportance(t *testing.T) {
	res := run(t, small(t, write(t, "shifts.csv", shifts(160)), func(c *fit.Config) {
		c.Target, c.Series, c.Epochs, c.Use = []string{"kind"}, "id", 15, "network"
	}))
	im := res.Importance
	if im == nil || len(im.Columns) != 2 || im.Columns[0].Column != "a" || im.Columns[0].Rise < 0.3 ||
		im.Columns[0].Accuracy < 15 || math.Abs(im.Columns[1].Rise) > 0.1*im.Columns[0].Rise {
		t.Fatalf("found %+v", im)
	}
	const how = "to the network, by permuting: each of 24 validation windows"
	if im.Windows != res.Windows[1] || !strings.HasPrefix(im.How, how) {
		t.Errorf("found %+v, of the windows %v", im, res.Windows)
	}
	var out bytes.Buffer
	if err := res.Print(&out); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(res.Config.Out, fit.ReportFile))
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"text": out.String(), "report": string(page)} {
		for _, want := range []string{"hich column matters", im.How, "recall", "precision"} {
			if !strings.Contains(text, want) {
				t.Errorf("the %s has no %q:\n%.2000s", name, want, text)
			}
		}
	}
}

// TestImportanceOfForecast checks that a known column and the target's own past matter for a forecast.
func TestImportanceOfForecast(t *testing.T) {
	res := run(t, small(t, write(t, "sales.csv", sales(200)), func(c *fit.Config) {
		c.Task, c.Target, c.Series, c.Known = fit.Forecast, []string{"sold"}, "shop", []string{"price"}
		c.Horizon, c.Lookback, c.Season, c.Epochs, c.BatchSize, c.Importance = 7, 21, 7, 6, 16, 20
	}))
	im := res.Importance
	if im == nil || im.Windows != 20 || len(im.Columns) != 3 || im.Columns[0].Column != "price" ||
		im.Columns[0].Rise < 3*im.Columns[0].Deviation {
		t.Errorf("found %+v", im)
	}
}
