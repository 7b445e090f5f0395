// Package bench measures hippo at the sizes of its peers' benchmarks and compares: matrix products, the long
// convolution, kernel generation, mixers, training steps, a whole training, decoding, concurrent sessions, sessions in
// a store, the server, growth with length. A benchmark is a list of cases. A case yields one Row, whose fields have the
// names that the peers print, so that rows can be joined by them. A peer is a command that prints rows, such as the
// scripts beside this file.
package bench

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/engine/native"
	"github.com/hippo-ssm/hippo/model"
)

// Case is one row of a benchmark.
type Case struct {
	ID      Row // the fields that identify what is measured
	prepare func(ctx context.Context) (trial, error)
}

// trial is a prepared case: functions to time in turn, and a function that computes the fields from their times.
type trial struct {
	runs    []func() error
	fields  func(t []Timing) Row
	long    bool   // one call of each function is enough
	repeats int    // minimum number of repetitions, 0 for the default; a long trial has one
	close   func() // releases the resources of the trial, or nil
}

// float32Only is the precision of cases without a choice of precision.
const float32Only = "float32"

// precisions are the precisions at which updates and mixers are measured.
var precisions = []engine.Precision{engine.Float32, engine.BF16}

// suite returns the cases of a benchmark for the arguments after its name. Sizes are divided by shrink.
type suite func(args []string, shrink int) ([]Case, error)

var suites = map[string]suite{
	"gemm":        withoutArgs(gemmCases),
	"conv":        withoutArgs(convCases),
	"kernel":      withoutArgs(kernelCases),
	"mixer":       mixerCases,
	"sparse":      withoutArgs(sparseCases),
	"train":       trainCases,
	"synth":       synthCases,
	"chars":       charsCases,
	"decode":      withoutArgs(decodeCases),
	"prompt":      withoutArgs(promptCases),
	"generation":  withoutArgs(generationCases),
	"sessions":    withoutArgs(sessionCases),
	"speculation": speculationCases,
	"scale":       withoutArgs(scaleCases),
	"long":        withoutArgs(longCases),
	"memory":      withoutArgs(memoryCases),
	"machine":     withoutArgs(machineCases),
	"load":        withoutArgs(loadCases),
	"store":       storeCases,
	"serve":       serveCases,
	"files":       filesCases,
	"resume":      resumeCases,
	"cluster":     withoutArgs(clusterCases),
}

// Names returns the names of the benchmarks.
func Names() []string {
	return []string{
		"gemm", "conv", "kernel", "mixer", "sparse", "train", "synth", "chars", "decode", "prompt", "generation",
		"sessions", "speculation", "scale", "long", "memory", "machine", "load", "files", "resume", "store", "serve",
		"cluster",
	}
}

// Cases returns the cases of the named benchmark. If a precision is given, it returns the cases of that precision and
// those without any, and otherwise all cases. Sizes are divided by shrink: 1, or more to try it quickly.
func Cases(name string, args []string, precision string, shrink int) ([]Case, error) {
	s, ok := suites[name]
	if !ok {
		return nil, unknown(name)
	}
	cases, err := s(args, max(1, shrink))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if precision == "" {
		return cases, nil
	}
	var some []Case
	var has []string
	for _, c := range cases {
		p, ok := c.ID.Get("precision")
		if !ok || p == precision {
			some = append(some, c)
		} else if text := Text(p); !slices.Contains(has, text) {
			has = append(has, text)
		}
	}
	if len(some) == 0 {
		return nil, fmt.Errorf("%s: found the precision %q, want one of %s", name, precision, strings.Join(has, ", "))
	}
	return some, nil
}

// Only returns the cases that have one of the wanted values of each field, or lack the field for the value "-":
// "model=GPT", "batch=1", "32". A value without a field name belongs to the field before it.
func Only(cases []Case, wanted []string) ([]Case, error) {
	values, field := map[string][]string{}, ""
	for _, w := range wanted {
		name, value, named := strings.Cut(w, "=")
		if !named {
			name, value = field, w
		}
		if name == "" {
			return nil, fmt.Errorf("only: found %q, want FIELD=VALUE, such as model=GPT", w)
		}
		field, values[name] = name, append(values[name], value)
	}
	some := slices.DeleteFunc(slices.Clone(cases), func(c Case) bool {
		for field, want := range values {
			if v, _ := c.ID.Get(field); !slices.Contains(want, Text(v)) {
				return true
			}
		}
		return false
	})
	if len(some) == 0 && len(cases) > 0 {
		return nil, fmt.Errorf("only: found no case with %s among %d, such as %s", strings.Join(wanted, ", "),
			len(cases), cases[0].ID)
	}
	return some, nil
}

func unknown(name string) error {
	return fmt.Errorf("found the benchmark %q, want one of %s", name, strings.Join(Names(), ", "))
}

func withoutArgs(cases func(shrink int) []Case) suite {
	return func(args []string, shrink int) ([]Case, error) {
		if len(args) > 0 {
			return nil, fmt.Errorf("found the argument %q, want none", args[0])
		}
		return cases(shrink), nil
	}
}

// Options are the options of a measurement.
type Options struct {
	Threads int     // GOMAXPROCS while hippo is measured
	Scaling bool    // also measure on one core, in turn, and report the speedup of Threads by wall time
	Seconds float64 // for each measurement, in each round
	Rounds  int
	Peer    string // command of the peer, which runs once in each round; "" for none
	// Device, if not nil, is the engine of a graphics card on which the models compute. Times are then wall times.
	Device engine.Backend
	// Cluster holds the options of the benchmark of that name.
	Cluster Cluster
	// Measured, if not nil, is called with each row of hippo as it is measured.
	Measured func(Row)
	// PeerStarts, if not nil, is called before the peer runs.
	PeerStarts func()
	// PeerErr, if not nil, receives the peer's standard error.
	PeerErr io.Writer
}

// Run measures the cases and the peer in turn, round by round, and returns the medians over the rounds. In case of an
// error, such as the end of ctx, it also returns the medians of the rows measured before.
func Run(ctx context.Context, cases []Case, o Options) (ours, theirs []Row, err error) {
	ours, theirs, err = run(ctx, cases, o)
	return medians(ours), medians(theirs), err
}

// run returns the rows of every round.
func run(ctx context.Context, cases []Case, o Options) (ours, theirs []Row, err error) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(o.Threads))
	ctx = context.WithValue(context.WithValue(ctx, deviceKey{}, o.Device), clusterKey{}, &o.Cluster)
	for range max(1, o.Rounds) {
		for _, c := range cases {
			row, err := c.measure(ctx, o)
			if err != nil {
				return ours, theirs, fmt.Errorf("%s: %w", c.ID, err)
			}
			ours = append(ours, row)
			if o.Measured != nil {
				o.Measured(row)
			}
		}
		if o.Peer != "" {
			if o.PeerStarts != nil {
				o.PeerStarts()
			}
			debug.FreeOSMemory() // the peer may need it
			rows, err := runPeer(ctx, o.Peer, o.PeerErr)
			if err != nil {
				return ours, theirs, err
			}
			theirs = append(theirs, rows...)
		}
	}
	return ours, theirs, nil
}

// deviceKey is the key of Options.Device in a context.
type deviceKey struct{}

// useDevice moves a model to Options.Device, if there is one.
func useDevice(ctx context.Context, m *model.Model) (on bool) {
	b, on := ctx.Value(deviceKey{}).(engine.Backend)
	if on {
		m.Use(b)
	}
	return on
}

// OnDevice returns the names of the benchmarks that use Options.Device.
func OnDevice() []string { return []string{"train", "decode"} }

// measure runs one case.
func (c Case) measure(ctx context.Context, o Options) (Row, error) {
	t, err := c.prepare(ctx)
	if err != nil {
		return nil, err
	}
	if t.close != nil {
		defer t.close()
	}
	runtime.GC() // otherwise garbage of the previous case would be collected while this one is timed
	cores := []int{o.Threads}
	if o.Scaling {
		cores = append(cores, 1)
	}
	times, err := measure(ctx, t, cores, o.Seconds)
	if err != nil {
		return nil, err
	}
	for i := range times[0] {
		if o.Device != nil {
			times[0][i].CPU = times[0][i].Wall
		}
	}
	level, err := native.Level()
	if err == nil && o.Device != nil {
		level, err = fmt.Sprint(o.Device), engine.Failure(o.Device)
	}
	if err != nil {
		return nil, err
	}
	wall, cpu := total(times[0])
	row := slices.Concat(Row{{"peer", "hippo"}}, c.ID, t.fields(times[0]), Row{
		{"threads", float64(o.Threads)}, {"cpu", level}, {wallOverCPU, rounded(wall / cpu)},
	})
	if o.Scaling {
		one, _ := total(times[1])
		row = append(row, Field{overOneCore, rounded(one / wall)})
	}
	return row, nil
}

// total returns the sums of the times of all functions of a trial.
func total(times []Timing) (wall, cpu float64) {
	for _, t := range times {
		wall, cpu = wall+t.Wall, cpu+t.CPU
	}
	return wall, cpu
}

// overOneCore is the field for the ratio of wall time on one core to wall time on all threads.
const overOneCore = "over_one_core"

// wallOverCPU is the field for the ratio of wall time to process time per thread. It is 1 if the threads had their
// cores for themselves and were all busy, and more if other processes or idle threads cost time.
const wallOverCPU = "wall_over_cpu"
