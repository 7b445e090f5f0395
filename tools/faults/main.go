// Command faults measures how many of the faults in generated logs package watch finds, compared with counts of
// templates and n-grams at the same number of alarms. It writes docs/watch.jsonl, from which hippo evidence fills
// docs/watch.md:
//
//	faults [-seeds 1,2,3] [-out docs/watch.jsonl] [-preset NAME] [-steps 1500] [-lines 10000] [-dev]
//
// Each model learns from a log without faults, and reads another log. -dev prints all scores of all methods, to choose
// between them with seeds that are in no table.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/hippo-ssm/hippo"
	"github.com/hippo-ssm/hippo/internal/disk"
	"github.com/hippo-ssm/hippo/internal/testkit/logs"
	"github.com/hippo-ssm/hippo/train"
	"github.com/hippo-ssm/hippo/watch"
)

// faultRate is the fraction of the units of work in a test log that have a fault.
const faultRate = 0.1

type settings struct {
	preset       string
	kinds        string
	steps, lines int
	dev          bool
	origin       train.Origin
}

func main() {
	seeds := flag.String("seeds", "1,2,3", "seeds of logs and models, with commas between")
	out := flag.String("out", "docs/watch.jsonl", "file to write; empty: none")
	var o settings
	flag.StringVar(&o.preset, "preset", "", "shape of the models; empty: that of hippo watch --train")
	flag.StringVar(&o.kinds, "kinds", strings.Join(logs.Kinds, ","), "kinds of logs")
	flag.IntVar(&o.steps, "steps", 1500, "updates of a model")
	flag.IntVar(&o.lines, "lines", 10000, "lines of each log")
	flag.BoolVar(&o.dev, "dev", false, "print all scores of all methods")
	lines := flag.Int("endless", 0, "measure the memory of reading so many lines, in place of all else")
	fast := flag.Bool("speed", false, "measure how many lines a core reads, in place of all else")
	flag.Parse()
	o.origin = train.Here()
	save := func(rows []map[string]any) error {
		if *out == "" {
			return nil
		}
		return write(*out, rows, o)
	}
	var rows []map[string]any
	var err error
	switch {
	case *lines > 0:
		rows, err = endless(*lines)
	case *fast:
		rows, err = speed()
	default:
		rows, err = run(*seeds, o, save)
	}
	if err == nil {
		err = save(rows)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "faults:", err)
		os.Exit(1)
	}
}

// row is the result of a method on the logs of a kind, a mean over seeds.
type row struct {
	Log       string
	Method    string
	Seeds     []uint64
	Alarms    float64
	Precision float64 // fraction of the lines with an alarm that show a fault
	Recall    float64 // fraction of the faults that have an alarm on one of their lines
	F1        float64
	Low       float64 // lowest F1 of a seed
	High      float64 // highest F1 of a seed
	// Found holds the recall of each kind of fault.
	Found map[string]float64
}

// run makes all trials, and saves the rows after each trial.
func run(seedList string, o settings, save func([]map[string]any) error) (all []map[string]any, err error) {
	var seeds []uint64
	for _, s := range strings.Split(seedList, ",") {
		seed, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("seeds: %w", err)
		}
		seeds = append(seeds, seed)
	}
	var rows []row
	for _, kind := range strings.Split(o.kinds, ",") {
		for _, seed := range seeds {
			found, err := trial(kind, seed, o)
			if err != nil {
				return nil, fmt.Errorf("%s, seed %d: %w", kind, seed, err)
			}
			for _, r := range found {
				fmt.Printf("%-7s %d  %-35s alarms %5.0f precision %.3f recall %.3f F1 %.3f  %s\n", r.Log, seed,
					r.Method, r.Alarms, r.Precision, r.Recall, r.F1, kinds(r.Found))
				rows = add(rows, r)
			}
			all = objects(rows)
			if err := save(all); err != nil {
				return nil, err
			}
		}
	}
	return all, nil
}

// objects returns the rows in the form in which they are written.
func objects(rows []row) []map[string]any {
	all := make([]map[string]any, len(rows))
	for i, r := range rows {
		all[i] = map[string]any{"log": r.Log, "method": r.Method, "seeds": strings.Trim(fmt.Sprint(r.Seeds), "[]"),
			"alarms": r.Alarms, "precision": r.Precision, "recall": r.Recall, "f1": r.F1, "f1_low": r.Low,
			"f1_high": r.High}
		for f, x := range r.Found {
			all[i][f] = x
		}
	}
	return all
}

// kinds formats the recall of each kind of fault.
func kinds(found map[string]float64) string {
	var all []string
	for _, f := range logs.Faults {
		all = append(all, fmt.Sprintf("%s %.2f", f, found[f]))
	}
	return strings.Join(all, ", ")
}

// add adds the result of a seed to the mean in its row.
func add(rows []row, r row) []row {
	i := slices.IndexFunc(rows, func(x row) bool { return x.Log == r.Log && x.Method == r.Method })
	if i < 0 {
		return append(rows, r)
	}
	m := &rows[i]
	n := float64(len(m.Seeds))
	mean := func(to *float64, x float64) { *to = (*to*n + x) / (n + 1) }
	mean(&m.Alarms, r.Alarms)
	mean(&m.Precision, r.Precision)
	mean(&m.Recall, r.Recall)
	mean(&m.F1, r.F1)
	for f := range r.Found {
		x := m.Found[f]
		mean(&x, r.Found[f])
		m.Found[f] = x
	}
	m.Low, m.High = min(m.Low, r.F1), max(m.High, r.F1)
	m.Seeds = append(m.Seeds, r.Seeds...)
	return rows
}

// trial returns the results of all methods on one log.
func trial(kind string, seed uint64, o settings) ([]row, error) {
	ordinary := logs.Generate(kind, 3*seed, o.lines, 0)
	test := logs.Generate(kind, 3*seed+1, o.lines/2, faultRate)
	scores, alarms, err := o.hippo(ordinary, test, seed)
	if err != nil {
		return nil, err
	}
	for name, s := range rivals(ordinary, test) {
		scores[name] = s
	}
	budget := map[int]bool{} // each method gets as many alarms as there are faults
	for _, l := range test {
		if l.Fault != "" {
			budget[l.Event] = true
		}
	}
	var rows []row
	for _, name := range slices.Sorted(maps.Keys(scores)) {
		if _, short := chosen[name]; short || o.dev {
			if o.dev {
				showWorst(name, scores[name], test)
			}
			rows = append(rows, judge(kind, cmp.Or(chosen[name], name), seed, test, top(scores[name], len(budget))))
		}
	}
	return append(rows, judge(kind, "hippo watch, its own threshold", seed, test, alarms)), nil
}

// highest returns the indices of lines in the order of their scores, the highest first. Lines with equal scores keep
// their order.
func highest(scores []float64) []int {
	order := make([]int, len(scores))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(scores[b], scores[a]) })
	return order
}

// top marks the n lines with the highest scores.
func top(scores []float64, n int) []bool {
	marked := make([]bool, len(scores))
	for _, i := range highest(scores)[:n] {
		marked[i] = true
	}
	return marked
}

// judge compares the alarms of a method with the faults in a test log.
func judge(kind, method string, seed uint64, test []logs.Line, alarms []bool) row {
	r := row{Log: kind, Method: method, Seeds: []uint64{seed}, Found: map[string]float64{}}
	right := 0.0
	all, hit := map[string]map[int]bool{}, map[string]map[int]bool{}
	for _, f := range logs.Faults {
		all[f], hit[f] = map[int]bool{}, map[int]bool{}
	}
	for i, l := range test {
		if l.Fault != "" {
			all[l.Fault][l.Event] = true
		}
		if !alarms[i] {
			continue
		}
		r.Alarms++
		if l.Fault != "" {
			right++
			hit[l.Fault][l.Event] = true
		}
	}
	events, found := 0, 0
	for f := range all {
		events, found = events+len(all[f]), found+len(hit[f])
		r.Found[f] = float64(len(hit[f])) / float64(max(1, len(all[f])))
	}
	r.Precision, r.Recall = right/max(1, r.Alarms), float64(found)/float64(max(1, events))
	r.F1 = 2 * r.Precision * r.Recall / max(1e-9, r.Precision+r.Recall)
	r.Low, r.High = r.F1, r.F1
	return r
}

// hippo trains a model on a log and reads another log. It returns the lines' scores of all kinds, with a state that is
// carried along and with one that starts again at each line, and the alarms that the resulting threshold raises.
func (o settings) hippo(ordinary, test []logs.Line, seed uint64) (scores map[string][]float64, alarms []bool,
	err error) {
	dir, err := os.MkdirTemp("", "hippo-faults-")
	if err != nil {
		return nil, nil, err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "ordinary.log")
	if err := disk.WriteBytes(file, textOf(ordinary)); err != nil {
		return nil, nil, err
	}
	cfg, err := watch.TrainConfig(o.preset, filepath.Join(dir, "run"), o.steps, file)
	if err != nil {
		return nil, nil, err
	}
	cfg.Cache, cfg.Seed = "none", seed
	if _, err := hippo.Train(context.Background(), cfg, hippo.TrainEvents{}); err != nil {
		return nil, nil, err
	}
	m, err := hippo.Load(cfg.Out)
	if err != nil {
		return nil, nil, err
	}
	// The last tenth is the validation text, on which the model was not trained.
	held := ordinary[len(ordinary)*9/10+1:]
	scores = map[string][]float64{}
	for reset, name := range map[int]string{0: "hippo ", 1: "hippo without memory "} {
		to := watch.DefaultOptions()
		to.Reset, to.Rate, to.Ignore = reset, 0.01, logs.Times
		marked, reports, err := read(m, to, held, test)
		if err != nil {
			return nil, nil, err
		}
		for _, kind := range watch.Scores {
			for i := range reports {
				scores[name+kind] = append(scores[name+kind], reports[i].Of(kind))
			}
		}
		if reset == 0 {
			alarms = marked
		}
	}
	return scores, alarms, nil
}

// read calibrates a watcher on the lines held, and reads the lines test.
func read(m *hippo.Model, o watch.Options, held, test []logs.Line) (alarms []bool, reports []watch.Report, err error) {
	w, err := watch.New(m.Net(), m.Tokenizer(), nil, o)
	if err != nil {
		return nil, nil, err
	}
	s := w.Stream("")
	for i, l := range slices.Concat(held, test) {
		r, err := w.Read(context.Background(), watch.Line{Stream: s, Text: []byte(l.Text + "\n")})
		if err != nil {
			return nil, nil, err
		}
		if i >= len(held) {
			alarms, reports = append(alarms, r[0].Alarm), append(reports, r[0])
		}
	}
	return alarms, reports, nil
}

func textOf(lines []logs.Line) (text []byte) {
	for _, l := range lines {
		text = append(append(text, l.Text...), '\n')
	}
	return text
}

// write writes the rows, and the machine and program that measured them.
func write(path string, rows []map[string]any, o settings) error {
	var out []byte
	line := func(v any) {
		text, _ := json.Marshal(v) // cannot fail for numbers and strings
		out = append(append(out, text...), '\n')
	}
	for _, r := range rows {
		line(r)
	}
	line(map[string]any{"bench": "origin", "commit": o.origin.Version, "date": o.origin.Date,
		"machine": o.origin.Machine, "preset": o.preset, "steps": o.steps, "lines": o.lines, "fault_rate": faultRate})
	return disk.WriteBytes(path, out)
}

// showWorst prints the eight lines without a fault that have the highest scores.
func showWorst(name string, scores []float64, test []logs.Line) {
	left := 8
	for _, i := range highest(scores) {
		if left == 0 {
			return
		}
		if test[i].Fault == "" {
			left--
			fmt.Printf("  %s: ordinary line %d has %.1f: %s\n", name, i, scores[i], test[i].Text)
		}
	}
}
