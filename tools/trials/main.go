// Command trials tries hippo fit and hippo forecast on generated data whose truth is known. It prints the errors of the
// network and of the best baseline on unseen test rows, and which of them predict uses:
//
//	trials [-seeds 3] [-only NAME,...]
//
// It fails if the method that predict uses is worse than the best baseline by more than noise, in the mean over the
// seeds. Where no baseline can express the truth, it also fails if the network is not better for each seed.
package main

import (
	"context"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hippo-ssm/hippo/fit"
	"github.com/hippo-ssm/hippo/internal/testkit/sequences"
	"github.com/hippo-ssm/hippo/internal/testkit/series"
)

// trial is one data set with the settings to fit it.
type trial struct {
	name   string
	table  string
	beyond bool // the network should be better than all baselines
	set    func(c *fit.Config)
	// scores returns the errors of the network and of its rivals. Less is better.
	scores func(r *fit.Result) (network float64, rivals map[string]float64)
}

// noise is the tolerance for the method that the validation set has chosen. On the test set, its error may be greater
// than that of the best baseline by this fraction in the mean over all seeds, or by twice the standard error of that
// mean if that is more.
const noise = 0.05

func main() {
	seeds := flag.Int("seeds", 3, "seeds of data and training")
	only := flag.String("only", "", "names of trials, with commas between")
	flag.Parse()
	if bad := run(*seeds, strings.Split(*only, ",")); len(bad) > 0 {
		fmt.Fprintln(os.Stderr, "trials: not as they should be:", strings.Join(bad, ", "))
		os.Exit(1)
	}
}

// run prints a line for each trial and seed, and describes the trials that fail.
func run(seeds int, only []string) (bad []string) {
	worse := map[string][]float64{} // excess errors beyond slack, relative to the best baseline's error
	fmt.Println("| data | seed | network | best baseline | | predict uses | |\n|---|---|---|---|---|---|---|")
	for seed := range seeds {
		for _, t := range slices.Concat(forecasts(uint64(seed+1)), sequencesOf(uint64(seed+1))) {
			if only[0] != "" && !slices.Contains(only, t.name) {
				continue
			}
			r, err := t.run(uint64(seed + 1))
			if err != nil {
				fmt.Printf("| %s | %d | %v |\n", t.name, seed+1, err)
				bad = append(bad, fmt.Sprintf("%s, seed %d", t.name, seed+1))
				continue
			}
			network, rivals := t.scores(r)
			best := ""
			for name, x := range rivals {
				if best == "" || x < rivals[best] || x == rivals[best] && name < best {
					best = name
				}
			}
			uses := network
			if r.Plan.Use != "network" {
				uses = rivals[r.Plan.Use]
			}
			fmt.Printf("| %s | %d | %.4g | %.4g | %s | %.4g | %s |\n", t.name, seed+1, network, rivals[best], best,
				uses, r.Plan.Use)
			worse[t.name] = append(worse[t.name], (uses-rivals[best]-slack(r))/rivals[best])
			if t.beyond && network >= rivals[best] {
				bad = append(bad, fmt.Sprintf("%s, seed %d", t.name, seed+1))
			}
		}
	}
	for name, x := range worse {
		mean, square := 0.0, 0.0
		for _, v := range x {
			mean += v / float64(len(x))
		}
		for _, v := range x {
			square += (v - mean) * (v - mean)
		}
		if n := float64(len(x)); mean > max(noise, 2*math.Sqrt(square/max(1, n-1)/n)) {
			bad = append(bad, fmt.Sprintf("%s, %.0f %% worse than its best baseline", name, 100*mean))
		}
	}
	slices.Sort(bad)
	return bad
}

// run fits one trial.
func (t *trial) run(seed uint64) (*fit.Result, error) {
	dir, err := os.MkdirTemp("", "trials")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	c := fit.DefaultConfig()
	c.Data, c.Out = []string{filepath.Join(dir, t.name+".csv")}, filepath.Join(dir, "run")
	c.Seed, c.Final = seed, "train"
	t.set(&c)
	if err := os.WriteFile(c.Data[0], []byte(t.table), 0o666); err != nil {
		return nil, err
	}
	return fit.Run(context.Background(), c, nil, fit.Events{})
}

// forecasts returns the trials of package series.
func forecasts(seed uint64) (all []trial) {
	for _, s := range series.All(seed) {
		all = append(all, trial{name: s.Name, table: s.Table, beyond: s.Beyond, scores: absolute,
			set: func(c *fit.Config) {
				c.Task, c.Target, c.Split, c.Horizon = fit.Forecast, []string{series.Target}, "auto", s.Horizon
				c.Series, c.Known, c.Zone = s.Series, s.Known, s.Zone
			}})
	}
	return all
}

// sequencesOf returns the trials of package sequences.
func sequencesOf(seed uint64) (all []trial) {
	for _, s := range sequences.All(seed) {
		all = append(all, trial{name: s.Name, table: s.Table, beyond: s.Beyond, scores: wrong,
			set: func(c *fit.Config) {
				c.Target, c.Series, c.Split = []string{sequences.Target}, sequences.ID, "0.5,0.2,0.3"
			}})
	}
	return all
}

// wrong returns 1 - macro F1 for classes, and the mean absolute error for numbers.
func wrong(r *fit.Result) (network float64, rivals map[string]float64) {
	if r.Classes == nil {
		return absolute(r)
	}
	rivals = map[string]float64{}
	for i, s := range r.Rivals {
		rivals[r.Plan.Contenders[i+1].Name] = 1 - s.F1
	}
	return 1 - r.Classes.F1, rivals
}

// slack returns two standard errors of the rarest class's contribution to the macro F1 of classes, where the standard
// error sqrt(p(1-p)/n) is at most 1/(2 sqrt(n)).
func slack(r *fit.Result) float64 {
	if r.Classes == nil {
		return 0
	}
	rarest := math.Inf(1)
	for _, c := range r.Classes.PerClass {
		rarest = min(rarest, float64(max(1, c.Count)))
	}
	return 1 / math.Sqrt(rarest) / float64(len(r.Classes.PerClass))
}

// absolute returns the mean absolute errors of forecasts.
func absolute(r *fit.Result) (network float64, rivals map[string]float64) {
	rivals = map[string]float64{}
	for i, c := range r.Plan.Contenders {
		if i == 0 {
			network = r.Errors[i].MAE
		} else {
			rivals[c.Name] = r.Errors[i].MAE
		}
	}
	return network, rivals
}
