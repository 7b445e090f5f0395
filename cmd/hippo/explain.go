package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hippo-ssm/hippo/explain/figure"
)

func newExplain() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "explain VIEW",
		Short: "See what a model is, what it has learned, and what it remembers",
		Long: `Draw the mathematics of state spaces, and what a model does with a text. Each VIEW writes one
self-contained file: a page for a browser (.html) unless --out names another, pictures for papers (.png, .svg; a file
for each figure), or the numbers (.json; .npz for numpy.load). Repeat --out for several; --open shows the page.

hippo diff A B --open draws what moved between two models.`,
		Example: `  hippo explain ssm convolution
  hippo explain influence runs/tiny "Call me Ishmael" --open
  hippo explain memory runs/tiny --file chapter.txt --out memory.html --out memory.npz
  hippo explain lens runs/tiny "Call me Ishmael" --out lens.png
  hippo explain show influence.json --out influence.svg`,
	}
	cmd.AddCommand(newExplainSSM(), newExplainModel(), newExplainInfluence(), newExplainMemory(), newExplainLens(),
		newExplainPaths(), newExplainSurprise(), newExplainShow(), oldName(newExplainCompare()))
	return cmd
}

// explainOutput holds the flags that select where a page is written.
type explainOutput struct {
	paths []string // files to write; "-" stands for JSON to standard output
	name  string   // NAME.html is written if there is no path
	open  bool     // open the page in a browser
	frame int      // the frame that PNG and SVG show
}

// register adds the flags of a command that writes NAME.html by default.
func (o *explainOutput) register(cmd *cobra.Command, name string) {
	o.name = name
	endings := strings.Join(figure.Endings(), ", ")
	cmd.Flags().StringArrayVar(&o.paths, "out", nil, fmt.Sprintf("file to write: %s by its ending; - for "+
		"JSON to standard output; repeat for several (default %s.html)", endings, name))
	cmd.Flags().BoolVar(&o.open, "open", false, "show the page in a browser")
	cmd.Flags().IntVar(&o.frame, "frame", 0, "frame of moving figures that PNG and SVG show, counted from 0")
	var bare []string
	for _, ending := range figure.Endings() {
		bare = append(bare, strings.TrimPrefix(ending, "."))
	}
	completeFlag(cmd, "out", completeFiles(bare...))
}

// check returns an error if the flags are wrong. A view that computes for long calls it first.
func (o *explainOutput) check() error {
	for _, path := range o.paths {
		if path == "-" {
			continue
		}
		if err := figure.CheckEnding(path); err != nil {
			return fmt.Errorf("--out %w", err)
		}
		if dir := filepath.Dir(path); dir != "." {
			if info, err := os.Stat(dir); err != nil {
				return fmt.Errorf("--out %w", err)
			} else if !info.IsDir() {
				return fmt.Errorf("--out %s: found a file %s, want a folder", path, dir)
			}
		}
	}
	if o.open && len(o.paths) > 0 && o.page() == "" {
		return errors.New("--open: found no page among the files, want --out FILE.html")
	}
	if o.frame < 0 {
		return fmt.Errorf("--frame: found %d, want 0 or more", o.frame)
	}
	return nil
}

// page returns the first path with the ending .html, or "".
func (o *explainOutput) page() string {
	for _, path := range o.paths {
		if strings.EqualFold(filepath.Ext(path), ".html") {
			return path
		}
	}
	return ""
}

// write writes a page to all files, and opens it in a browser if --open is set.
func (o *explainOutput) write(cmd *cobra.Command, p *figure.Page) error {
	if err := o.check(); err != nil {
		return err
	}
	if len(o.paths) == 0 {
		o.paths = []string{o.name + ".html"}
	}
	for _, path := range o.paths {
		if err := cmd.Context().Err(); err != nil {
			return err
		}
		if path == "-" {
			if err := p.WriteJSON(cmd.OutOrStdout()); err != nil {
				return err
			}
			continue
		}
		files, err := p.Write(path, o.frame)
		if err != nil {
			return err
		}
		for _, file := range files {
			fmt.Fprintf(cmd.ErrOrStderr(), "written: %s\n", file)
		}
	}
	if o.open {
		return openInBrowser(o.page())
	}
	return nil
}

// openInBrowser opens a file in the system's browser, which continues when this program ends.
func openInBrowser(path string) error {
	path, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	program, args := "xdg-open", []string{path}
	switch runtime.GOOS {
	case "darwin":
		program = "open"
	case "windows":
		program, args = "rundll32", []string{"url.dll,FileProtocolHandler", path}
	}
	cmd := exec.Command(program, args...)
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("--open: %w; open %s in a browser yourself", err, path)
	}
	return cmd.Process.Release()
}

// drawing makes a command write the page that draw returns, by default to NAME.html.
func drawing(cmd *cobra.Command, name string,
	draw func(cmd *cobra.Command, args []string) (*figure.Page, error)) *cobra.Command {
	var out explainOutput
	out.register(cmd, name)
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return out.draw(cmd, args, draw) }
	return cmd
}

// draw writes the page that the function draw returns.
func (o *explainOutput) draw(cmd *cobra.Command, args []string,
	draw func(cmd *cobra.Command, args []string) (*figure.Page, error)) error {
	if err := o.check(); err != nil {
		return err
	}
	page, err := draw(cmd, args)
	if err != nil {
		return err
	}
	if page.Command == "" {
		page.Command = commandLine(os.Args)
	}
	return o.write(cmd, page)
}

func newExplainShow() *cobra.Command {
	var out explainOutput
	cmd := &cobra.Command{
		Use:   "show FILE.json",
		Short: "Draw the JSON of an explanation again",
		Long: `Draw a page again that another explain command wrote as .json: as a page for a browser, as pictures, or
as numbers. Without --out it is written next to FILE, as .html.`,
		Example: `  hippo explain show influence.json --open
  hippo explain show influence.json --out paper/influence.svg --frame 12
  hippo explain show influence.json --out numbers.npz`,
		Args:              wantArgs(1, 1),
		ValidArgsFunction: completeFiles("json"),
	}
	out.register(cmd, "FILE")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := out.check(); err != nil {
			return err
		}
		p, err := figure.Read(args[0])
		if err != nil {
			return err
		}
		out.name = strings.TrimSuffix(args[0], filepath.Ext(args[0]))
		return out.write(cmd, p)
	}
	return cmd
}
