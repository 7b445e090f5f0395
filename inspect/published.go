package inspect

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/hippo-ssm/hippo/internal/brief"
	"github.com/hippo-ssm/hippo/internal/status"
	"github.com/hippo-ssm/hippo/release/hub"
)

// Published describes a model of a hub's cache. path is the model's path in the cache. The report is that of Path, plus
// the information in the cache.
func Published(path string, cache hub.Cache, name hub.Name) (*Report, error) {
	cached, err := cache.Show(name)
	if err != nil {
		return &Report{Path: path}, err
	}
	r, problem := Path(path)
	if r.Published = &cached; r.Kind == "" {
		r.Kind = kindPublished
	}
	return r, problem
}

// PrintCached prints the information in a hub's cache about a model.
func PrintCached(out io.Writer, s hub.Shown) error {
	t := status.NewTable(out)
	t.Row("model", "%s", brief.Line(s.Name))
	t.Row("commit", "%s", s.Commit)
	t.Row("path", "%s", s.Path)
	t.Row("family", "%s", OrUnknown(s.Family))
	t.Row("parameters", "%s (%d), most of them as %s", Parameters(s.Parameters), s.Parameters, OrUnknown(s.Precision))
	t.Row("size", "%s", status.Bytes(s.Bytes))
	return printFiles(out, t, s)
}

// printFiles adds to a table, and prints, the information from the cache that other reports do not have.
func printFiles(out io.Writer, t status.Table, s hub.Shown) error {
	t.Row("pulled", "%s", status.Minute(s.Pulled))
	if s.Problem != "" {
		t.Row("problem", "%s", s.Problem)
	}
	for _, key := range slices.Sorted(maps.Keys(s.Said)) {
		text, err := json.Marshal(s.Said[key])
		if err != nil {
			return err
		}
		t.Row(brief.Line(key), "%s", brief.Line(string(text)))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	var lines [][]string
	for _, f := range s.Files {
		lines = append(lines, []string{brief.Line(f.Path), status.Bytes(f.Size)})
	}
	fmt.Fprintln(out)
	return status.Grid(out, []string{"file", "size"}, lines, false)
}

// OrUnknown returns the text, or "unknown" if it is empty.
func OrUnknown(text string) string {
	if text == "" {
		return "unknown"
	}
	return text
}

// Parameters formats a number of parameters. 0 means unknown, as for a PyTorch file, which is not read.
func Parameters(n int64) string {
	if n == 0 {
		return OrUnknown("")
	}
	return status.Count(n)
}
