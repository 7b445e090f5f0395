package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"os"
	"regexp"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/hippo-ssm/hippo"
	"github.com/hippo-ssm/hippo/internal/disk"
	"github.com/hippo-ssm/hippo/watch"
)

// watchOptions holds the flags of hippo watch.
type watchOptions struct {
	Alarms    float64 `json:"alarms_per_million" help:"lines in a million that shall raise an alarm"`
	HalfLife  int     `json:"half_life" min:"100" help:"lines after which a score counts half for the threshold"`
	Score     string  `json:"score" enum:"peak,excess,bits,bits_per_byte" help:"what is compared with the threshold"`
	Ignore    string  `json:"ignore" help:"regular expression of text, such as times, that counts in no score"`
	Reset     int     `json:"reset" min:"0" help:"lines after which the state of a stream starts again; 0: never"`
	Keep      int     `json:"keep" min:"1" help:"tokens back that attention sees, in models that have it"`
	MaxLine   int     `json:"max_line" min:"1" max:"16777216" help:"bytes of a line that are read; the rest is counted"`
	Follow    bool    `json:"follow" help:"wait for more lines of the files, also of new files of the same name"`
	All       bool    `json:"all" help:"print every line, not only alarms"`
	Precision string  `json:"precision" help:"weights as float32, bf16, int8, int4min, int4 or stored"`

	State     string        `json:"state" help:"file of states, thresholds and places in files, to go on from"`
	SaveEvery time.Duration `json:"save_every" min:"1s" help:"time between saves of the state, while lines come"`
	Metrics   string        `json:"metrics" help:"address at which /metrics reports to Prometheus; empty: none"`

	Learn      int     `json:"learn" min:"0" help:"lines between two rounds of learning from them; 0: never"`
	LearnSteps int     `json:"learn_steps" min:"1" help:"updates of a round"`
	LearnLR    float64 `json:"learn_lr" help:"learning rate of a round"`

	Calibrate bool     `json:"calibrate" help:"store the scores of FILE..., ordinary lines, to start thresholds from"`
	Train     []string `json:"train" help:"logs to train a new model on, in place of MODEL"`
	Out       string   `json:"out" help:"folder of the new model"`
	Preset    string   `json:"preset" help:"shape of the new model; empty: a small one for logs"`
	Steps     int      `json:"steps" min:"1" help:"updates of the new model"`
}

func newWatch() *cobra.Command {
	standard := watch.DefaultOptions()
	opt := watchOptions{
		Alarms: 1e6 * standard.Rate, HalfLife: standard.HalfLife, Score: standard.Score, Keep: standard.Keep,
		MaxLine: 8192, Precision: "float32", SaveEvery: time.Minute, LearnSteps: standard.Learn.Steps,
		LearnLR: standard.Learn.LR, Steps: 1500,
	}
	cmd := &cobra.Command{
		Use:   "watch MODEL [FILE...]",
		Short: "Watch logs for lines that surprise a model",
		Long: `Watch streams of lines, such as logs: standard input, or files. The model reads each line after all
before it, from a recurrent state of constant size, and a line that is more surprising than the threshold is printed,
with what was surprising in it. Thresholds follow the last lines, so that --alarms_per_million of them are above.

--train LOG... --out MODEL trains a model on yesterday's logs, and starts its thresholds from their last tenth, which it
has not learnt. With --learn a copy of the model is tuned on the last lines in the background, and taken over if it
predicts lines better that it was not tuned on.

Ctrl-C prints a summary. With --state, the states, thresholds and places in files are saved there, and the same command
goes on from them; what has been learnt is in a folder beside it, FILE.model.`,
		Example: `  hippo watch --train yesterday.log --out runs/web     # once: a model of ordinary lines
  tail -f access.log | hippo watch runs/web
  hippo watch runs/web access.log error.log --follow --state web.state --metrics 127.0.0.1:9200
  hippo watch runs/web today.log --all --json > scores.jsonl`,
		ValidArgsFunction: completeArgs(completeFolders),
	}
	configured(cmd, &opt, opt.run)
	jsonFlag(cmd, objectLine)
	return cmd
}

// run reads streams until they end or the command is interrupted.
func (o *watchOptions) run(cmd *cobra.Command, args []string) error {
	switch {
	case len(o.Train) > 0 && len(args) > 0:
		return fmt.Errorf("train: found it together with the argument %q, want one of them", args[0])
	case len(o.Train) > 0:
		return o.learnFirst(cmd)
	case len(args) == 0:
		return fmt.Errorf("found no MODEL, want: %s (see %s --help); --train LOG --out MODEL makes one", cmd.UseLine(),
			cmd.CommandPath())
	case o.Calibrate && len(args) == 1:
		return errors.New("calibrate: found no FILE, want ordinary lines that the model was not trained on")
	}
	if err := o.checkFiles(args[1:]); err != nil {
		return err
	}
	m, err := o.load(args[0])
	if err != nil {
		return err
	}
	if o.Calibrate {
		return o.calibrate(cmd, m, args[1:])
	}
	w, err := o.open(m)
	if err != nil {
		return err
	}
	defer w.Close()
	ctx, stop := whileRead(cmd.Context())
	defer stop()
	p := &watchPrinter{o: o, w: w, out: cmd.OutOrStdout(), json: asJSON(cmd), named: len(args) > 2,
		started: time.Now(), saved: time.Now()}
	p.color = !p.json && os.Getenv("NO_COLOR") == "" && isOutTerminal(p.out)
	if o.Metrics != "" {
		p.metrics = watch.NewMetrics()
		l, err := new(net.ListenConfig).Listen(ctx, "tcp", o.Metrics)
		if err != nil {
			return fmt.Errorf("metrics: %w", err)
		}
		note(fmt.Sprintf("metrics are at http://%s/metrics", l.Addr()))
		mux := http.NewServeMux()
		mux.Handle("GET /metrics", p.metrics.Handler())
		go func() { _ = serveUntil(ctx, l, mux) }() // ends with the command
	}
	reading, end := context.WithCancel(ctx)
	defer end()
	lines, failed := o.sources(reading, w, cmd.InOrStdin(), args[1:])
	err = w.Run(ctx, lines, p.emit)
	end()
	if err == nil {
		err = failed()
	}
	return p.close(ctx, err)
}

// checkFiles returns an error if a file does not exist, or is named twice. With --follow a file need not exist yet.
func (o *watchOptions) checkFiles(files []string) error {
	for i, path := range files {
		if slices.Contains(files[:i], path) {
			return fmt.Errorf("found the file %q twice, want it once", path)
		}
		if _, err := os.Stat(path); err != nil && path != "-" && !o.Follow {
			return err
		}
	}
	return nil
}

// isOutTerminal reports whether out is a terminal.
func isOutTerminal(out io.Writer) bool {
	f, ok := out.(*os.File)
	return ok && isTerminal(f)
}

// options returns the options of package watch that the flags select.
func (o *watchOptions) options() (watch.Options, error) {
	to := watch.DefaultOptions()
	to.Rate, to.HalfLife, to.Score, to.Reset, to.Keep = o.Alarms/1e6, o.HalfLife, o.Score, o.Reset, o.Keep
	to.Ranges = o.All
	if o.Ignore != "" {
		re, err := regexp.Compile(o.Ignore)
		if err != nil {
			return to, fmt.Errorf("ignore: %w", err)
		}
		to.Ignore = re
	}
	to.Learn.Every, to.Learn.Steps, to.Learn.LR = o.Learn, o.LearnSteps, o.LearnLR
	return to, nil
}

// learntDir returns the folder of the model that has learnt from the watched streams.
func (o *watchOptions) learntDir() string { return o.State + ".model" }

// load reads the model or, if an earlier run has learnt from its streams, the model that this run saved.
func (o *watchOptions) load(name string) (*hippo.Model, error) {
	if o.State != "" && o.Learn > 0 && disk.Exists(o.learntDir()) {
		note(fmt.Sprintf("going on with %s, which was learnt on site", o.learntDir()))
		name = o.learntDir()
	}
	if o.Learn > 0 && o.Precision == "float32" {
		return loadModel(name, "") // not packed
	}
	return loadModel(name, "", hippo.Precision(o.Precision))
}

// open returns a watcher with the thresholds of the model's calibration, or with the saved states of --state.
func (o *watchOptions) open(m *hippo.Model) (*watch.Watcher, error) {
	to, err := o.options()
	if err != nil {
		return nil, err
	}
	known, err := watch.ReadCalibration(m.Dir(), m.Net().Fingerprint(), to)
	if err != nil {
		return nil, err
	}
	var prior *watch.Quantiles
	if known != nil {
		prior = known.Scores
	}
	w, err := watch.New(m.Net(), m.Tokenizer(), prior, to)
	if err != nil {
		return nil, err
	}
	if o.State != "" && disk.Exists(o.State) {
		text, err := disk.ReadText(o.State, math.MaxInt32)
		if err != nil {
			return nil, err
		}
		said, err := w.Restore(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", o.State, err)
		}
		if said != "" {
			note(o.State + ": " + said)
		}
	} else if known == nil {
		note(fmt.Sprintf("%s has no %s for these scores: no alarms before 100 lines; --calibrate makes one", m.Dir(),
			watch.CalibrationFile))
	}
	return w, nil
}

// sources reads the streams in the background. failed returns their errors once all have ended.
func (o *watchOptions) sources(ctx context.Context, w *watch.Watcher, stdin io.Reader,
	files []string) (lines <-chan watch.Line, failed func() error) {
	to := make(chan watch.Line, 64)
	r := &watch.Reader{MaxLine: o.MaxLine, Follow: o.Follow, Note: note, Lines: to}
	errs := make([]error, max(1, len(files)))
	var all sync.WaitGroup
	read := func(i int, f func() error) {
		all.Add(1)
		go func() {
			defer all.Done()
			if errs[i] = f(); errs[i] != nil && o.Follow && ctx.Err() == nil {
				note(errs[i].Error()) // reading of the other files continues
			}
		}()
	}
	if len(files) == 0 {
		s := w.Stream("")
		read(0, func() error { return r.Pipe(ctx, s, stdin) })
	}
	for i, path := range files {
		s := w.Stream(path)
		if path == "-" {
			read(i, func() error { return r.Pipe(ctx, s, stdin) })
			continue
		}
		from := s.Place
		read(i, func() error { return r.File(ctx, s, path, from) })
	}
	go func() {
		all.Wait()
		close(to)
	}()
	return to, func() error { return errors.Join(errs...) }
}

// isGone reports whether an error means that the reader of the output has closed it.
func isGone(err error) bool { return errors.Is(err, syscall.EPIPE) || errors.Is(err, io.ErrClosedPipe) }
