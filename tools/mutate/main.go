// Mutate tests the tests of a package. It makes one small change to the package's code at a time, such as to a sign, a
// bound, a constant or a term of a sum, and lists the changes that no test detects.
//
//	go run ./tools/mutate ./optim
//	go run ./tools/mutate ./ssm --tests ./ssm,./mixer --max 300 --minutes 10
//
// All mutants are compiled once, into one instrumented copy of the package in a temporary folder. An environment
// variable selects the mutant that runs. Only the tests that reach a mutant run for it. Results are saved in a file,
// with which the next call continues: a killed mutant stays killed until its function changes, and a mutant that
// survived is tried again when tests change.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
)

// options holds the flags.
type options struct {
	tests   []string
	seed    uint64
	max     int
	minutes float64
	quick   float64
	run     string
	split   string
	short   bool
	files   []string
	list    bool
	json    bool
	results string
	record  string
}

var errSurvivors = errors.New("there are survivors")

func main() {
	var o options
	flags := pflag.NewFlagSet("mutate", pflag.ExitOnError)
	flags.StringSliceVar(&o.tests, "tests", nil, "packages whose tests run (default: the package itself)")
	flags.Uint64Var(&o.seed, "seed", 1, "seed of the choice for --max")
	flags.IntVar(&o.max, "max", 0, "maximum number of mutants, chosen at random; 0: all")
	flags.Float64Var(&o.minutes, "minutes", 0, "time limit; 0: none; below 0: run nothing, report what is stored")
	flags.Float64Var(&o.quick, "quick", 0, "leave out tests that take more seconds of the processor; survivors are "+
		"not stored")
	flags.StringVar(&o.run, "run", "", "leave out tests whose names this regular expression does not match; "+
		"survivors are not stored")
	flags.StringVar(&o.split, "split", "",
		"run the subtests of tests whose names match this one by one: a mutant then "+
			"runs those that reach it")
	flags.BoolVar(&o.short, "short", false, "run tests as go test -short; survivors are not stored")
	flags.StringSliceVar(&o.files, "files", nil, "only mutants of files whose names match one of these patterns, such "+
		"as 'predict*.go'")
	flags.BoolVar(&o.list, "list", false, "list mutants, run nothing")
	flags.BoolVar(&o.json, "json", false, "print results as JSON lines")
	flags.StringVar(&o.results, "results", "", "file of results to continue from (default: in the user's cache folder)")
	flags.StringVar(&o.record, "record", "", "file of JSON lines whose line on this package is replaced")
	flags.Parse(os.Args[1:])
	if flags.NArg() != 1 {
		fmt.Fprintln(os.Stderr, "usage: go run ./tools/mutate PKG\n"+flags.FlagUsages())
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := mutate(ctx, flags.Arg(0), o); err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
		if errors.Is(err, errSurvivors) {
			os.Exit(1)
		}
		os.Exit(2)
	}
}

func say(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }

func mutate(ctx context.Context, pattern string, o options) error {
	s, err := load(pattern)
	if err != nil {
		return err
	}
	all := s.mutants()
	if all, err = of(all, o.files); err != nil {
		return err
	}
	if o.max > 0 && o.max < len(all) {
		rng := rand.New(rand.NewPCG(o.seed, 0))
		rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		all = all[:o.max]
		slices.SortFunc(all, func(a, b *mutant) int { return a.number - b.number })
	}
	if o.list {
		for _, m := range all {
			m.print(o.json)
		}
		return nil
	}
	if len(o.tests) == 0 {
		o.tests = []string{pattern}
	}
	if o.results == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			return err
		}
		o.results = filepath.Join(cache, "hippo-mutate", strings.ReplaceAll(s.path, "/", "_")+".jsonl")
	}
	st, err := openStore(o.results, o.tests)
	if err != nil {
		return err
	}
	equivalent, err := readEquivalent(filepath.Join(s.module, "tools", "mutate", "equivalent.txt"))
	if err != nil {
		return err
	}
	var todo []*mutant
	for _, m := range all {
		if m.Why = equivalent.why(m); m.Why != "" {
			m.Status = "equivalent"
		} else if !st.recall(m) {
			todo = append(todo, m)
		}
	}
	say("%s: %d mutants, %d to run", s.path, len(all), len(todo))
	if err := s.runAll(ctx, todo, st, o); err != nil {
		return err
	}
	return s.report(all, o)
}

// runAll runs mutants until all have run or o.minutes are over.
func (s *subject) runAll(ctx context.Context, todo []*mutant, st *store, o options) error {
	if len(todo) == 0 || o.minutes < 0 {
		return nil
	}
	folder, err := os.MkdirTemp("", "mutate")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	reach, err := s.cover(ctx, folder, st, o)
	if err != nil {
		return err
	}
	if o.minutes > 0 { // the mutants that run in the time must be a fair sample
		rng := rand.New(rand.NewPCG(o.seed, 1))
		rng.Shuffle(len(todo), func(i, j int) { todo[i], todo[j] = todo[j], todo[i] })
		// Mutants that ran before are part of the sample, whether they survived or not.
		slices.SortStableFunc(todo, func(a, b *mutant) int { return len(b.Tests) - len(a.Tests) })
	}
	start, told := time.Now(), time.Now()
	for i, m := range todo {
		if o.minutes > 0 && time.Since(start).Minutes() > o.minutes {
			break
		}
		m.Status = "uncovered"
		if len(reach[m.number]) > 0 {
			m.Status = "survived"
			if m.By, err = kill(ctx, m.number, reach[m.number]); err != nil {
				return err
			}
			if m.By != "" {
				m.Status = "killed"
			}
		}
		if (o.quick > 0 || o.run != "" || o.short) && m.Status != "killed" {
			continue // a test that was left out may kill it
		}
		if err := st.save(m); err != nil {
			return err
		}
		if time.Since(told) > 30*time.Second {
			say("%d of %d", i+1, len(todo))
			told = time.Now()
		}
	}
	return nil
}

// summary is a package's line in the file of --record.
type summary struct {
	Package    string  `json:"package"`
	Tests      string  `json:"tests"`
	All        int     `json:"mutants"`
	Run        int     `json:"run"`
	Killed     int     `json:"killed"`
	Equivalent int     `json:"equivalent"`
	Survived   int     `json:"survived"`
	Percent    float64 `json:"percent"` // percentage of killed ones among those that are not equivalent
	// For a sample: its seed, and the 95 % interval of the percentage for all mutants.
	Seed   uint64  `json:"seed,omitempty"`
	Low    float64 `json:"low"`
	High   float64 `json:"high"`
	Commit string  `json:"commit,omitempty"`
}

// report prints survivors and the summary.
func (s *subject) report(all []*mutant, o options) error {
	sum := summary{Package: s.rel(""), Tests: strings.Join(o.tests, ","), All: s.count}
	if o.quick > 0 {
		sum.Tests += fmt.Sprintf(" --quick %g", o.quick)
	}
	if o.short {
		sum.Tests += " --short"
	}
	if o.run != "" {
		sum.Tests += " --run " + o.run
	}
	for _, m := range all {
		switch m.Status {
		case "killed":
			sum.Killed++
		case "equivalent":
			sum.Equivalent++
		case "survived", "uncovered":
			sum.Survived++
		}
		if o.json || m.Status == "survived" || m.Status == "uncovered" {
			m.print(o.json)
		}
	}
	sum.Run = sum.Killed + sum.Equivalent + sum.Survived
	sum.Percent = 100 * float64(sum.Killed) / float64(max(1, sum.Killed+sum.Survived))
	sum.Low, sum.High = sum.Percent, sum.Percent
	if sum.Run < sum.All {
		sum.Seed = o.seed
		sum.Low, sum.High = interval(sum.Killed, sum.Killed+sum.Survived)
	}
	say("%s: %d of %d mutants run: %d killed, %d survived, %d equivalent; %.1f %% killed (95 %% interval %.1f to %.1f)",
		sum.Package, sum.Run, sum.All, sum.Killed, sum.Survived, sum.Equivalent, sum.Percent, sum.Low, sum.High)
	if o.record != "" {
		if head, err := exec.Command("git", "-C", s.module, "rev-parse", "--short", "HEAD").Output(); err == nil {
			sum.Commit = strings.TrimSpace(string(head))
		}
		if err := record(o.record, sum); err != nil {
			return err
		}
	}
	if sum.Survived > 0 {
		return fmt.Errorf("%s: %w: %d", sum.Package, errSurvivors, sum.Survived)
	}
	return nil
}

// interval returns the 95 % interval of a percentage for a sample with k of n: E. B. Wilson, "Probable inference, the
// law of succession, and statistical inference", Journal of the American Statistical Association 22, 1927.
func interval(k, n int) (low, high float64) {
	if n == 0 {
		return 0, 100
	}
	const z = 1.96
	p, m := float64(k)/float64(n), float64(n)
	middle := (p + z*z/(2*m)) / (1 + z*z/m)
	half := z / (1 + z*z/m) * math.Sqrt(p*(1-p)/m+z*z/(4*m*m))
	return 100 * max(0, middle-half), 100 * min(1, middle+half)
}

// record writes the line of a package into the file of --record, in place of an earlier one.
func record(path string, sum summary) error {
	data, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	line, _ := json.Marshal(sum)
	lines := []string{string(line)}
	for _, old := range strings.Split(strings.TrimSpace(string(data)), "\n") {
		if old != "" && !strings.Contains(old, fmt.Sprintf(`"package":%q,`, sum.Package)) {
			lines = append(lines, old)
		}
	}
	slices.Sort(lines)
	return os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o666)
}

// of returns the mutants in files whose names match one of the patterns, or all mutants if there is no pattern.
func of(all []*mutant, patterns []string) (some []*mutant, err error) {
	if len(patterns) == 0 {
		return all, nil
	}
	for _, pattern := range patterns {
		before := len(some)
		for _, m := range all {
			ok, err := path.Match(pattern, path.Base(m.File))
			if err != nil {
				return nil, fmt.Errorf("--files: %q: %w", pattern, err)
			}
			if ok && !slices.Contains(some, m) {
				some = append(some, m)
			}
		}
		if len(some) == before {
			return nil, fmt.Errorf("--files: %q is the name of no file with mutants", pattern)
		}
	}
	slices.SortFunc(some, func(a, b *mutant) int { return a.number - b.number })
	return some, nil
}
