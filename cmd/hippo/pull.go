package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/hippo-ssm/hippo/internal/brief"
	"github.com/hippo-ssm/hippo/internal/status"
	"github.com/hippo-ssm/hippo/release/hub"
)

// pullOptions holds the flags of hippo pull.
type pullOptions struct {
	revision      string
	files         []string
	dryRun, force bool
}

func newPull() *cobra.Command {
	var opt pullOptions
	cmd := &cobra.Command{
		Use:   "pull NAME",
		Short: "Fetch a published model from a hub",
		Long: `Fetch the model NAME, as in org/name, from a hub: huggingface.co, or the one that HF_ENDPOINT names.
Other commands then accept the name in place of a folder. Only what is needed is fetched: the configuration, the
tokenizer, the chat template, and the weights as safetensors; if there are none, a .gguf file or PyTorch's.
org/name:Q8_0 is the .gguf file of that quantisation, org/name:FILE that file, org/name:REVISION a branch, a tag or a
commit.

Files are checked by size and checksum before they get their names. A pull that ends early (Ctrl-C, a full disk, a lost
connection) saves what it has fetched, and the same command resumes. Lost connections, stalls and busy hubs are tried
again.

The cache is that of the hub's other tools, in their layout: HF_HUB_CACHE, or hub in HF_HOME, or
~/.cache/huggingface/hub. The token for private models is HF_TOKEN, HUGGING_FACE_HUB_TOKEN or the file token in
HF_HOME. It is sent only to the hub. HF_HUB_DOWNLOAD_TIMEOUT is the longest stall in seconds (default 30).`,
		Example: `  hippo pull state-spaces/mamba-130m-hf
  hippo pull org/name --dry-run
  hippo pull org/name-GGUF:Q8_0
  hippo pull org/name --revision v1.0 --file model.safetensors`,
		Args: wantArgs(1, 1),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveNoFileComp
		},
	}
	cmd.Flags().StringVar(&opt.revision, "revision", "", "branch, tag or commit (default main)")
	cmd.Flags().StringArrayVar(&opt.files, "file", nil,
		"file of the repository, in place of the chosen weights; repeat for several")
	cmd.Flags().BoolVar(&opt.dryRun, "dry-run", false, "list what would be fetched, and fetch nothing")
	cmd.Flags().BoolVar(&opt.force, "force", false, "fetch cached files again")
	jsonFlag(cmd, oneObject)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		name, err := opt.name(args[0])
		if err != nil {
			return err
		}
		client, err := hub.FromEnvironment()
		if err != nil {
			return err
		}
		return opt.run(cmd, client, name)
	}
	return cmd
}

// name returns the name of the model that the argument and the flags select together.
func (opt *pullOptions) name(text string) (hub.Name, error) {
	name, err := hub.ParseName(text)
	switch {
	case err != nil:
		return name, err
	case opt.revision != "" && name.Revision != "":
		return name, fmt.Errorf("found the revision %s and --revision %s, want one of them", name.Revision,
			opt.revision)
	case len(opt.files) > 0 && (len(name.Files) > 0 || name.Quant != ""):
		return name, fmt.Errorf("found %s and --file %s, want one of them", name, opt.files[0])
	case len(opt.files) > 0:
		name.Files = opt.files
	}
	if opt.revision != "" {
		name.Revision = opt.revision
	}
	return name, nil
}

// pullReport is what hippo pull --json prints.
type pullReport struct {
	Name    string     `json:"name"`
	Commit  string     `json:"commit"`
	Path    string     `json:"path,omitempty"` // file or folder to load the model from
	Files   []hub.File `json:"files"`
	Bytes   int64      `json:"bytes"`
	Missing int64      `json:"missing_bytes"` // before the pull
}

func (opt *pullOptions) run(cmd *cobra.Command, client *hub.Client, name hub.Name) error {
	ctx := cmd.Context()
	p := newPullProgress()
	defer p.printer.Close()
	client.Watch = hub.Watch{Bytes: p.bytes, File: p.file, Note: p.printer.Printf}
	plan, err := client.Plan(ctx, name)
	if err != nil {
		return err
	}
	r := pullReport{Name: name.String(), Commit: plan.Commit, Files: plan.Files}
	r.Bytes, r.Missing = plan.Bytes()
	if !opt.dryRun {
		found, err := client.Pull(ctx, plan, opt.force)
		if err != nil {
			if errors.Is(err, context.Canceled) {
				p.printer.Printf("interrupted: what was fetched is saved, and the same command resumes")
			}
			return err
		}
		r.Path = found.Path()
	}
	p.printer.Close()
	return show(cmd, r, r.print)
}

func (r *pullReport) print(out io.Writer) error {
	t := status.NewTable(out)
	t.Row("model", "%s", r.Name)
	t.Row("commit", "%s", r.Commit)
	if r.Path != "" {
		t.Row("path", "%s", r.Path)
		t.Row("size", "%s in %d files, of which %s were not in the cache", status.Bytes(r.Bytes), len(r.Files),
			status.Bytes(r.Missing))
		return t.Flush()
	}
	t.Row("size", "%s in %d files, of which %s are not in the cache", status.Bytes(r.Bytes), len(r.Files),
		status.Bytes(r.Missing))
	if err := t.Flush(); err != nil {
		return err
	}
	var lines [][]string
	for _, f := range r.Files {
		cached := ""
		if f.Cached {
			cached = "in the cache"
		}
		lines = append(lines, []string{brief.Line(f.Path), status.Bytes(f.Size), cached})
	}
	fmt.Fprintln(out)
	return status.Grid(out, []string{"file", "size", ""}, lines, false)
}

// pullProgress shows the progress of a pull on standard error.
type pullProgress struct {
	printer *status.Printer
	started time.Time
	from    int64 // bytes that were there at the start
}

func newPullProgress() *pullProgress {
	return &pullProgress{printer: status.New(os.Stderr, quietFor), from: -1}
}

func (p *pullProgress) bytes(done, total int64) {
	if p.from < 0 || done < p.from {
		p.from, p.started = done, time.Now()
	}
	const columns = 24
	line := status.Line{
		{Value: status.Bar(done, total, columns), Drop: 3},
		{Value: status.Bytes(done) + "/" + status.Bytes(total)},
	}
	if elapsed, came := time.Since(p.started), done-p.from; came > 0 && elapsed > 0 {
		perSecond := float64(came) / elapsed.Seconds()
		line = append(line, status.Field{Value: status.Bytes(uint64(perSecond)) + "/s", Drop: 2})
		if done < total {
			left := time.Duration(float64(total-done) / perSecond * float64(time.Second))
			line = append(line, status.Field{Key: "eta", Value: status.Duration(left), Drop: 1})
		}
	}
	p.printer.Update(line)
}

func (p *pullProgress) file(f hub.File, fetched bool) {
	how := "was in the cache"
	if fetched {
		how = "fetched and checked"
	}
	p.printer.Printf("%s, %s: %s", brief.Line(f.Path), status.Bytes(f.Size), how)
}
