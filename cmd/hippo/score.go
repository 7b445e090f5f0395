package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hippo-ssm/hippo"
	"github.com/hippo-ssm/hippo/internal/disk"
	"github.com/hippo-ssm/hippo/internal/status"
	"github.com/hippo-ssm/hippo/serve"
	"github.com/hippo-ssm/hippo/serve/batch"
)

// scoreOptions holds the flags of hippo score.
type scoreOptions struct {
	Model     []string `json:"model" help:"models, as hippo serve takes them; empty: all that hippo list shows"`
	Adapter   []string `json:"adapter" help:"folders of adapters, as hippo serve takes them"`
	Precision string   `json:"precision" enum:"stored,float32,bf16,int8,int4,int4min" help:"of the weights"`
	Pooling   string   `json:"pooling" enum:"mean,last" help:"what embeddings are made of"`
	Shard     string   `json:"shard" help:"K/N: answer the lines of part K of N, cut by bytes"`
	Parts     int      `json:"parts" min:"0" help:"take parts of so many that no other has; --out is their folder"`
	Together  int      `json:"together" min:"1" help:"lines that are answered at a time"`
	Memory    int      `json:"memory" min:"0" help:"MiB to keep what several lines begin with"`
	Threads   int      `json:"threads" min:"0" help:"cores to use; 0 for all"`
	JSON      bool     `json:"json" help:"print a JSON object"`
}

func newScore() *cobra.Command {
	opt := scoreOptions{Precision: hippo.Stored, Pooling: "mean", Together: 16, Memory: 256}
	var out string
	cmd := &cobra.Command{
		Use:   "score IN",
		Short: "Answer a file of requests, or score its texts, without a server",
		Long: `Answer each line of the file IN, - for standard input, and write the results to --out, a line for each in
the same order. A line of JSON is one of these:

  {"custom_id": "a", "method": "POST", "url": "/v1/chat/completions", "body": {...}}   as in OpenAI's batches
  {"messages": [...]}    {"prompt": "..."}    {"input": "..."}    a body alone: chat, completion, embedding
  {"text": "..."}        how probable the text is: log-probability, loss, perplexity, bits per byte
  {"context": "...", "text": "..."}                               the text after the context

The url is /v1/chat/completions, /v1/completions, /v1/embeddings or /v1/responses. A line may have a custom_id, which
its result repeats, and text one more field: "logprobs": true lists the tokens. A result has the number of its line. The
result of a bad line is an error.

The same command continues after Ctrl-C, a full disk or a crash at any moment: no line is lost and none is answered
twice. It may find new lines at the end of IN. --shard 3/16 answers the third of 16 parts; cat joins the results in
order. With --parts 64 any number of processes, on machines that share the folder --out, each take a part that no other
has.`,
		Example: `  hippo score texts.jsonl --model runs/tiny --out scores.jsonl
  hippo score requests.jsonl --model granite=models/granite-4.0-h-350m --precision int8 -o answers.jsonl
  hippo score texts.jsonl --model runs/tiny -o part-03.jsonl --shard 3/16
  hippo score texts.jsonl --model runs/tiny -o /shared/scores --parts 64   # on each machine
  cat /shared/scores/part-*.jsonl > scores.jsonl`,
		Args: wantArgs(1, 1),
	}
	cmd.Flags().StringVarP(&out, "out", "o", "", "file of the results, which must be given")
	return configured(cmd, &opt, func(cmd *cobra.Command, args []string) error {
		o := batch.Offline{In: args[0], Stdin: cmd.InOrStdin(), Out: out}
		if err := opt.check(&o); err != nil {
			return err
		}
		if opt.Threads > 0 {
			runtime.GOMAXPROCS(opt.Threads)
		}
		return opt.run(cmd, &o)
	})
}

// check checks the flags, and sets in o which part of the lines to answer.
func (s *scoreOptions) check(o *batch.Offline) (err error) {
	const most = 1 << 20 // parts
	switch {
	case o.Out == "":
		return errors.New("out: found nothing, want the file of the results")
	case s.Shard != "" && s.Parts > 0:
		return errors.New("found --shard together with --parts, want one of them")
	case s.Parts > most:
		return fmt.Errorf("parts: found %d, want at most %d", s.Parts, most)
	case s.Shard != "":
		k, n, _ := strings.Cut(s.Shard, "/")
		o.Shard, err = strconv.Atoi(k)
		if err == nil {
			o.Shards, err = strconv.Atoi(n)
		}
		if err != nil || o.Shard < 1 || o.Shard > o.Shards || o.Shards > most {
			return fmt.Errorf("shard: found %.40q, want K/N with K from 1 to N, such as 3/16", s.Shard)
		}
	case s.Parts > 0 && o.In == "-":
		return errors.New("parts: found standard input, want a file")
	}
	return nil
}

// run answers the lines.
func (s *scoreOptions) run(cmd *cobra.Command, o *batch.Offline) error {
	serving := serveOptions{Precision: s.Precision, Pooling: s.Pooling, Memory: s.Memory,
		onDemand: onDemand{KeepAlive: "-1", Adapter: s.Adapter}}
	lib, err := serving.library(s.Model, nil, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	if lib.Host() == nil {
		return errors.New("model: found networks of hippo fit alone, want a language model; hippo predict runs those")
	}
	server, err := serve.New(serve.Options{Library: lib.Host(), Version: version(), Concurrent: s.Together})
	if err != nil {
		return err
	}
	defer server.Close()
	ctx, stop := whileRead(cmd.Context())
	defer stop()
	if _, err := lib.Preload(ctx, server.Preload); err != nil {
		return err
	}
	o.Endpoints, o.Do, o.Together = server.BatchEndpoints(), server.AnswerLine, s.Together
	o.By = strings.Join(append(append(s.Model, s.Adapter...), s.Precision, s.Pooling), "\n")
	p := newRowCounter("lines done")
	o.Progress = p.add
	var t batch.Tally
	var held []*disk.LockedError
	if s.Parts > 0 {
		t, held, err = o.Parts(ctx, s.Parts)
	} else {
		t, err = o.Run(ctx)
	}
	p.close()
	if err != nil && ctx.Err() != nil {
		fmt.Fprintf(os.Stderr, "interrupted; %d lines are done; the same command continues\n", t.Lines)
		return stopped(ctx, false)
	}
	if err != nil {
		return err
	}
	return errors.Join(s.print(cmd, t), printHeld(held))
}

// print prints the numbers of lines answered.
func (s *scoreOptions) print(cmd *cobra.Command, t batch.Tally) error {
	if s.JSON {
		return plainJSON(cmd.OutOrStdout()).Encode(t)
	}
	text := status.Count(t.Lines) + " lines"
	if t.Before > 0 {
		text += fmt.Sprintf(", %s of them before", status.Count(t.Before))
	}
	if t.Failed > 0 {
		text += fmt.Sprintf("; %s have an error", status.Count(t.Failed))
	}
	_, err := io.WriteString(os.Stderr, text+"\n")
	return err
}

// printHeld prints which runs other processes are still making.
func printHeld(held []*disk.LockedError) error {
	for _, h := range held {
		if _, err := fmt.Fprintf(os.Stderr, "still to come: %s, from %s\n", h.Dir, h.Holder); err != nil {
			return err
		}
	}
	return nil
}
