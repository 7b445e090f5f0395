package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/pprof"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/hippo-ssm/hippo/bench"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/internal/disk"
)

// benchOptions holds the flags of hippo bench.
type benchOptions struct {
	Threads   int      `json:"threads" min:"1" help:"cores to use (GOMAXPROCS)"`
	Seconds   float64  `json:"seconds" min:"0" help:"time for each measurement in a round; three repetitions at least"`
	Rounds    int      `json:"rounds" min:"0" help:"how often to measure: medians count; 0: 3 with a peer, 1 without"`
	Device    string   `json:"device" help:"where to compute, for train and decode: cpu, gpu, or gpu:1"`
	Peer      string   `json:"peer" help:"command of a peer that prints JSON lines, run after hippo in each round"`
	Precision string   `json:"precision" enum:",float32,stored,bf16,int8,int4" help:"measure only this; empty: all"`
	Only      []string `json:"only" help:"measure only cases with one of these values of a field, as in model=GPT,H3"`
	Scaling   bool     `json:"scaling" help:"measure on one core in turn with the threads, and print the ratio"`
	JSON      bool     `json:"json" help:"print one JSON object a line"`
	Plot      string   `json:"plot" help:"PNG file to draw the measurements by length or context into"`
	Profile   string   `json:"profile" help:"file to write a profile of the CPU into, for go tool pprof"`
	Out       string   `json:"out" help:"JSON file to write the rows into, with the machine, to send"`
	From      string   `json:"from" help:"measure nothing: take the rows from this file, of --json or --out"`
	Shrink    int      `json:"shrink" min:"1" help:"divide sizes by this"`
}

func newBench() *cobra.Command {
	opt := benchOptions{Threads: 1, Seconds: 2, Shrink: 1, Device: onCPU}
	several, network := machines{}, ""
	cmd := &cobra.Command{
		Use:   "bench WHAT [ARG...]",
		Short: "Measure speed, next to that of a peer",
		Long: `Measure the speed of hippo on this machine, with the fixed configurations of its peers:

  gemm              matrix products: gflops
  devices           the graphics cards of this machine: memory, driver, and what they have
  conv              the long convolution with a given kernel: ns for each element of one channel
  kernel            generation of the convolution kernels of diagonal SSMs: ms
  mixer [NAME...]   H3 and attention by length: µs a token; with names (or all), these at two lengths and position by
                    position, and of some the operation alone, without linear layers
  sparse            sparse kinds of attention forward, by length, beside dense attention: µs a token
  train a|b|c...    updates (forward, backward, clipping, AdamW) of byte models of d_model 256 and 512, and of
                    H3-125M: tokens/s, and memory in MB; a-lora, a-lora-bf16, a-lora-int8 and a-lora-int4 train
                    an adapter of rank 16 over weights in float32, bf16, int8 and int4
  synth [TASK...]   updates on the synthetic tasks ind, ar10, ar20: ms
  chars FILE [LOSS] training on the characters of a text, until the loss of the last tenth is below LOSS (1.886):
                    seconds
  decode            H3-125M, a GPT and linear attention of its size, and Mamba-130M, token by token, in float32, bf16,
                    int8 and int4: tokens/s
  prompt            Mamba-130M, Mamba-2-130M, H3-125M and a GPT of its size: a prompt of 512 tokens, and 32 sequences
                    one token further, in float32, bf16 and int8: tokens/s
  generation        H3-125M, a hybrid, and a GPT of its size, continuing contexts of several lengths: tokens/s
  sessions          1, 4, 16 and 64 sessions of H3-125M, Mamba-130M and a GPT at once, in bf16 and int8: tokens/s in
                    all, and the limit by memory bandwidth
  speculation [PRESET|MODEL]...
                    H3-125M, a hybrid, and Mamba-130M, or presets, writing code that is edited, and new code, with
                    drafts by n-grams and without, in float32, bf16, int8 and int4: tokens/s, how many times faster; a
                    trained MODEL writes its own text, also with drafts by its head for multi-token prediction
  scale             one H3 layer, trained by length and decoding by position: tokens/s
  long              updates of one layer of H3, Mamba and S4D on one sequence of 1k to 1M tokens, at once and in
                    chunks with exact and with stopped gradients: tokens/s, and memory in MB
  memory            reading more than fits into caches: GB/s
  machine           what this machine reaches of its limits, in two minutes: reading memory, products of 1 to 512 rows
                    by weights in float32, bf16, int8 and int4, functions, the long convolution, attention, and
                    decoding; --out writes a file with the processor's name to send
  load              Mamba-130M from its folder to the first token, in each precision and in the file's bfloat16
                    (stored): s, and memory in MB
  files FILE...     models in files or folders: a token more for one sequence and for 32, a prompt of 512, in the
                    precision that a name ends with (NAME-q8_0.gguf): tokens/s, and memory in MB
  resume cold|restored DIR TOKENS FILE...
                    continuing a text of TOKENS tokens, for models in files or folders: first a new text, one in
                    memory and one whose end has changed; then, in another process, the text that the first has
                    saved in DIR: ms to the first logits
  store [DIR [N]]   turns of 10,000 (N) sessions in one store, of a small model in memory and of H3-125M through a
                    folder (95 GB for 10,000): ms, what was lost, and memory in MB
  serve [MEASURE | PRESET]...
                    H3-125M and Mamba-130M, or presets, behind hippo serve in int8: clients (64 beside the scheduler
                    alone), pauses (while long prompts arrive), turn (after 30,000 stored tokens), choices (questions
                    with four endings), agents (transcripts of 16 with edits and branches beside reading all again;
                    agents=32 is of more, part=2/8 of every eighth from the second on, limit=5m what can be compared in
                    that time),
                    library (a mounted text of 10,000 tokens), move (a state after 100,000 tokens, to another server),
                    chunk (a prompt in shorter pieces), streams (memory of 2,000 open ones): tokens/s, ms, questions/s,
                    kB
  cluster           members of a cluster: steps without computation, of 4 KiB to 64 MiB, between two members in this
                    process or, under a launcher (mpirun, srun, RANK and WORLD_SIZE), between its processes: ms, MB/s of
                    each and, with --network, the share of the network; training by 1, 2 and 4 members in this process:
                    tokens/s, how fast beside one alone, and whether the bits are the same

Times are medians of the CPU time of the process divided by --threads, which a busy neighbor disturbs less than wall
time; fields that end in _wall go by the clock. wall_over_cpu is the ratio of the two: 1 where all threads had a core
for themselves and work to do. --scaling measures on one core in turn with --threads; over_one_core is how many times
faster those are by the clock. fwd is forward, fwd_bwd forward with backward to inputs and parameters.

Ctrl-C ends the measurement, and what was measured is printed and written.

With --peer, hippo and a command that prints rows with the same fields are measured in turn. Rows that agree in what
they measured are printed with their ratio: how many times faster hippo is.`,
		Example: `  hippo bench gemm
  hippo bench train a --threads 2 --scaling --json
  hippo bench machine --out machine.json
  hippo bench decode --precision int8 --only context=8000
  hippo bench prompt --only model=Mamba-130M --profile cpu.pprof && go tool pprof -top cpu.pprof
  hippo bench generation --precision float32 --plot generation.png --json > generation.jsonl
  hippo bench generation --from generation.jsonl --plot again.png
  hippo bench serve turn qwen3.5-0.8b
  hippo bench serve agents mamba-130m part=2/8
  hippo bench resume cold /tmp 4096 models/m-q8_0.gguf && hippo bench resume restored /tmp 4096 models/m-q8_0.gguf
  hippo bench cluster --network 1Gbit
  mpirun --host n1,n2 -np 2 hippo-mpi bench cluster --network 10Gbit --json > cluster.jsonl
  hippo bench conv --peer 'python3 bench.py conv' --rounds 5`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return fmt.Errorf("found no benchmark, want one of %s", strings.Join(bench.Names(), ", "))
			}
			return nil
		},
		ValidArgsFunction: completeArgs(cobra.FixedCompletions(bench.Names(), cobra.ShellCompDirectiveNoFileComp)),
	}
	cmd = configured(cmd, &opt, func(cmd *cobra.Command, args []string) error {
		if opt.Scaling && opt.Threads == 1 {
			return fmt.Errorf("scaling: found 1 thread, want --threads of at least 2, to compare with one")
		}
		for _, f := range []struct{ flag, path, kind string }{{"plot", opt.Plot, "PNG"}, {"out", opt.Out, "JSON"}} {
			if info, err := os.Stat(f.path); err == nil && info.IsDir() { // checked before measuring
				return fmt.Errorf("%s: found the folder %s, want a %s file", f.flag, f.path, f.kind)
			}
		}
		if args[0] == "devices" && len(args) == 1 {
			return printDevices(cmd)
		}
		if opt.From != "" {
			return showSaved(cmd, args[0], opt)
		}
		if !isCPU(opt.Device) && (opt.Scaling || !slices.Contains(bench.OnDevice(), args[0])) {
			return fmt.Errorf("device: found %s for %s, want it for one of %s, without --scaling", opt.Device, args[0],
				strings.Join(bench.OnDevice(), ", "))
		}
		on, err := device(opt.Device)
		if err != nil {
			return err
		}
		cases, err := bench.Cases(args[0], args[1:], opt.Precision, opt.Shrink)
		if err == nil {
			cases, err = bench.Only(cases, opt.Only)
		}
		if err != nil {
			return err
		}
		if args[0] != "cluster" {
			for _, name := range clusterFlags {
				if cmd.Flags().Changed(name) {
					return fmt.Errorf("found --%s for %s, want it for cluster", name, args[0])
				}
			}
			return runBench(cmd, cases, on, bench.Cluster{}, opt)
		}
		return several.benchCluster(cmd, network, opt, cases, func(cases []bench.Case, of bench.Cluster) error {
			return runBench(cmd, cases, on, of, opt)
		})
	})
	several.registerLaunch(cmd)
	cmd.Flags().StringVar(&network, "network", "", "for cluster: the speed of the network, such as 1Gbit")
	if err := cmd.Flags().MarkHidden("shrink"); err != nil { // for tests
		panic(err) // the flag is part of the program
	}
	return cmd
}

func runBench(cmd *cobra.Command, cases []bench.Case, on engine.Backend, of bench.Cluster, opt benchOptions) error {
	rounds := opt.Rounds
	if rounds == 0 {
		rounds = 1
		if opt.Peer != "" {
			rounds = 3
		}
	}
	profiled, err := profile(opt.Profile)
	if err != nil {
		return err
	}
	out := cmd.OutOrStdout()
	p := newProgress("bench, rows:")
	done := 0
	ours, theirs, err := bench.Run(cmd.Context(), cases, bench.Options{
		Threads: opt.Threads, Scaling: opt.Scaling, Seconds: opt.Seconds, Rounds: rounds,
		Peer: opt.Peer, PeerErr: os.Stderr, Device: on, Cluster: of,
		Measured: func(r bench.Row) {
			done++
			p.update(done, rounds*len(cases))
		},
		PeerStarts: func() { p.printer.Printf("round %d of %d: %s\n", done/len(cases), rounds, opt.Peer) },
	})
	p.close()
	err = errors.Join(err, profiled())
	var pairs []bench.Pair
	if err == nil && opt.Peer != "" {
		pairs, err = bench.Join(ours, theirs)
	}
	if err != nil && len(ours) == 0 {
		return err
	}
	if err != nil { // print the rows measured so far
		opt.Peer = ""
	}
	return errors.Join(err, showBench(out, ours, theirs, pairs, opt))
}

// profile starts a CPU profile in a file, unless path is "", and returns the function that ends it.
func profile(path string) (end func() error, err error) {
	if path == "" {
		return func() error { return nil }, nil
	}
	f, err := os.Create(path)
	if err == nil {
		err = pprof.StartCPUProfile(f)
	}
	return func() error {
		pprof.StopCPUProfile()
		return f.Close()
	}, err
}

// showSaved shows the rows of an earlier measurement, which it reads from opt.From.
func showSaved(cmd *cobra.Command, name string, opt benchOptions) error {
	for _, f := range []struct{ flag, value string }{{"peer", opt.Peer}, {"out", opt.Out}} {
		if f.value != "" {
			return fmt.Errorf("found --from together with --%s, want one of them", f.flag)
		}
	}
	rows, err := bench.ReadRows(opt.From, name)
	if err != nil {
		return err
	}
	return showBench(cmd.OutOrStdout(), rows, nil, nil, opt)
}

// showBench draws, writes and prints rows.
func showBench(out io.Writer, ours, theirs []bench.Row, pairs []bench.Pair, opt benchOptions) error {
	if opt.Plot != "" {
		if err := bench.Plot(opt.Plot, append(slices.Clone(ours), theirs...)); err != nil {
			return err
		}
	}
	all := append(slices.Clone(ours), theirs...)
	for _, p := range pairs {
		all = append(all, p.Row())
	}
	if opt.Out != "" {
		m, err := bench.ThisMachine(all)
		if err == nil {
			err = disk.WriteJSON(opt.Out, m)
		}
		if err != nil {
			return err
		}
	}
	switch {
	case opt.JSON:
		for _, r := range all {
			if err := plainJSON(out).Encode(r); err != nil {
				return err
			}
		}
		return nil
	case opt.Peer != "":
		return printPairs(out, pairs)
	}
	return printRows(out, ours)
}

// printRows prints a table with a column for each field. A new heading follows wherever the fields change.
func printRows(out io.Writer, rows []bench.Row) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	heading := ""
	for _, r := range rows {
		var names, values []string
		for _, f := range r {
			names, values = append(names, f.Name), append(values, bench.Text(f.Value))
		}
		if h := strings.Join(names, "\t"); h != heading {
			heading = h
			fmt.Fprintln(w, h)
		}
		fmt.Fprintln(w, strings.Join(values, "\t"))
	}
	return w.Flush()
}

// printPairs prints hippo's measurements, those of the peer, and their ratios, side by side.
func printPairs(out io.Writer, pairs []bench.Pair) error {
	rows := make([]bench.Row, len(pairs))
	for i, p := range pairs {
		rows[i] = p.Label()
		for _, r := range p.Ratios {
			rows[i] = append(rows[i], bench.Field{Name: r.Field, Value: r.Ours},
				bench.Field{Name: "peer's", Value: r.Theirs},
				bench.Field{Name: "ratio", Value: r.Ratio})
		}
	}
	return printRows(out, rows)
}
