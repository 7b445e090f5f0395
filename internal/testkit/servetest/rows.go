package servetest

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hippo-ssm/hippo/fit"
	"github.com/hippo-ssm/hippo/serve/rows"
)

// trained returns a network that was trained briefly on the log of a machine.
func trained(change func(c *fit.Config)) (m *fit.Model, err error) {
	dir, err := os.MkdirTemp("", "predict")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	c := fit.DefaultConfig()
	c.Data, c.Out = []string{filepath.Join(dir, "data.csv")}, filepath.Join(dir, "run")
	c.Target, c.Model.Layers, c.Model.DModel, c.Model.DState, c.Epochs = []string{"vibration"}, "s4d*1", 8, 4, 1
	change(&c)
	if err := os.WriteFile(c.Data[0], []byte(Machine(120)), 0o666); err != nil {
		return nil, err
	}
	if _, err := fit.Run(context.Background(), c, nil, fit.Events{}); err != nil {
		return nil, err
	}
	return fit.Open(c.Out)
}

// Machine returns the log of a machine.
func Machine(rows int) string {
	var b strings.Builder
	b.WriteString("load,vibration\n")
	for i := range rows {
		x := math.Sin(float64(i) / 5)
		fmt.Fprintf(&b, "%.4f,%.4f\n", x, 1+0.5*x+0.01*math.Cos(float64(7*i)))
	}
	return b.String()
}

// predictorOf returns a network as the predictor that a server uses.
func predictorOf(name string, m *fit.Model) rows.Predictor {
	card := m.Plan().Card()
	return rows.Predictor{Name: name, Made: time.Unix(1, 0), About: card, Streams: card.Streams,
		Answer: func(ctx context.Context, q rows.Query) error { return m.Answer(ctx, fit.Query(q)) }}
}

// threeNetworks returns networks for three tasks. All tests share them.
var threeNetworks = sync.OnceValues(func() (all []rows.Predictor, err error) {
	for _, n := range []struct {
		name   string
		change func(c *fit.Config)
	}{
		{"machine", func(c *fit.Config) { c.Task, c.Length = fit.Anomaly, 20 }},
		{"sales", func(c *fit.Config) { c.Task, c.Horizon, c.Lookback = fit.Forecast, 2, 5 }},
		{"holes", func(c *fit.Config) {
			c.Task, c.Length, c.Model.Layers = fit.Fill, 20, "s4d(bidirectional=true)*1"
		}},
	} {
		m, err := trained(n.change)
		if err != nil {
			return nil, err
		}
		all = append(all, predictorOf(n.name, m))
	}
	return all, nil
})

// TestPredictors returns networks for three tasks.
func TestPredictors(t testing.TB) []rows.Predictor {
	t.Helper()
	all, err := threeNetworks()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// RowsOf returns the rows of a table as JSON objects.
func RowsOf(table string) (all []string) {
	for _, line := range strings.Split(strings.TrimSpace(table), "\n")[1:] {
		load, vibration, _ := strings.Cut(line, ",")
		all = append(all, fmt.Sprintf(`{"load": %s, "vibration": %s}`, load, vibration))
	}
	return all
}
