package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hippo-ssm/hippo/experiment"
	"github.com/hippo-ssm/hippo/internal/disk"
	"github.com/hippo-ssm/hippo/internal/status"
)

// tableOptions holds the flags of hippo task table.
type tableOptions struct {
	experiment.TableOptions

	Print    bool `json:"print" help:"run nothing, print finished runs"`
	JSON     bool `json:"json" help:"print one JSON object a line"`
	Markdown bool `json:"markdown" help:"print a Markdown table"`
}

func newTaskTable() *cobra.Command {
	opt := tableOptions{TableOptions: experiment.TableOptions{Seeds: 1}}
	cmd := &cobra.Command{
		Use:   "table [TASK...]",
		Short: "Run models on tasks and print the results next to the published ones",
		Long: `Run models on tasks, several at the same time, each on one core, and print the results next to the
published ones. Without a task: induction heads and associative recall, with the models of the H3 paper. Finished runs
are not run again: the same command resumes an interrupted table. Several at once, on machines that share the folder of
the runs, each take runs that no other has.`,
		Example: `  hippo task table
  hippo task table --models h3-official,attention-official
  hippo task table 'recall(length=40)' --models h3,mamba,hyena --seeds 3
  hippo task table 'etth1(horizon=24)' 'etth1(horizon=168)' --data data/ETT-small`,
		ValidArgsFunction: completeTask,
	}
	return configured(cmd, &opt, func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			args = []string{"induction", "recall"}
		}
		cells, err := experiment.Cells(args, &opt.TableOptions)
		if err != nil {
			return err
		}
		if !opt.Print {
			ctx, stop := whileRead(cmd.Context())
			defer stop()
			held, err := runCells(ctx, cells, &opt)
			if err != nil {
				return err
			}
			if err := printHeld(held); err != nil {
				return err
			}
		}
		if missing := experiment.Missing(cells); missing > 0 {
			fmt.Fprintf(os.Stderr, "%d of %d runs have not been made\n", missing, len(cells))
		}
		return showList(cmd, experiment.Summarize(cells), func(out io.Writer, rows []experiment.Summary) error {
			return experiment.PrintRows(out, rows, opt.Markdown)
		})
	})
}

// runCells makes the runs that are not finished. Each run is a process of this program and uses one core.
func runCells(ctx context.Context, cells []*experiment.Cell, opt *tableOptions) ([]*disk.LockedError, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p := status.New(os.Stderr, 10*time.Second)
	defer p.Close()
	run := func(ctx context.Context, c *experiment.Cell) error { return runCell(ctx, self, c, opt) }
	held, err := experiment.RunCells(ctx, cells, &opt.TableOptions, run, func(c *experiment.Cell, left int) {
		p.Printf("%s %s, seed %d: %s in %s; %d to go\n", c.Task, c.Model, c.Seed,
			experiment.ScoreText(c.Result.Test, c.Result.Numbers),
			status.Duration(experiment.Seconds(c.Result.Seconds)), left)
	})
	if ctx.Err() != nil {
		return nil, resumable()
	}
	return held, err
}

// runCell runs one cell in its own process.
func runCell(ctx context.Context, self string, c *experiment.Cell, opt *tableOptions) error {
	args := []string{
		"task", "run", c.Task, "--model", c.Model, "--seed", fmt.Sprint(c.Seed), "--out", c.Folder(&opt.TableOptions),
		"--threads", "1", "--json",
	}
	if opt.Data != "" {
		args = append(args, "--data", opt.Data)
	}
	for _, pair := range opt.Set {
		args = append(args, "--"+pair)
	}
	cmd := exec.CommandContext(ctx, self, args...)
	cmd.Env = append(os.Environ(), "GOMAXPROCS=1")
	var said strings.Builder
	cmd.Stderr = &said
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = time.Minute
	ownGroup(cmd)
	if err := cmd.Run(); err != nil {
		lines := strings.Split(strings.TrimSpace(said.String()), "\n")
		return fmt.Errorf("%w: %s", err, lines[len(lines)-1])
	}
	return nil
}
