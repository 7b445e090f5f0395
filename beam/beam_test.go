package hippobeam

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/io/fileio"
	_ "github.com/apache/beam/sdks/v2/go/pkg/beam/io/filesystem/local"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/io/textio"
	_ "github.com/apache/beam/sdks/v2/go/pkg/beam/runners/prism"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/testing/ptest"

	"github.com/hippo-ssm/hippo"
	"github.com/hippo-ssm/hippo/fit"
)

func TestMain(m *testing.M) { ptest.MainWithDefault(m, "prism") }

// linesOf reads the lines of a file, sorted.
func linesOf(t *testing.T, path string) []string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	slices.Sort(lines)
	return lines
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
}

// TestScore checks that a pipeline gives the same result for each line as one process, and loads the model once.
func TestScore(t *testing.T) {
	dir := t.TempDir()
	cfg, err := hippo.Preset("tiny")
	if err != nil {
		t.Fatal(err)
	}
	cfg.Data, cfg.Out, cfg.Cache = []string{filepath.Join(dir, "text.txt")}, filepath.Join(dir, "run"), "none"
	cfg.Model.DModel, cfg.Model.NumHeads, cfg.Train.Steps, cfg.Train.SampleEvery = 16, 2, 1, 0
	write(t, cfg.Data[0], strings.Repeat("Call me Ishmael. Some years ago.\n", 200))
	if _, err := hippo.Train(t.Context(), cfg, hippo.TrainEvents{}); err != nil {
		t.Fatal(err)
	}
	var lines strings.Builder
	for n := range 30 {
		fmt.Fprintf(&lines, `{"custom_id":"%d","text":"line %d"}`+"\n\n", n, n)
	}
	lines.WriteString("no JSON\n")
	write(t, filepath.Join(dir, "a.jsonl"), lines.String())
	write(t, filepath.Join(dir, "b.jsonl"), `{"text":"Call me"}`+"\n")

	before := loads
	p, s := beam.NewPipelineWithRoot()
	o := ScoreOptions{Models: []string{cfg.Out}, Precision: hippo.Stored, Together: 7}
	textio.Write(s, filepath.Join(dir, "out"), Score(s, textio.Read(s, filepath.Join(dir, "?.jsonl")), o))
	ptest.RunAndValidate(t, p)
	if loads-before != 1 {
		t.Errorf("the model was loaded %d times, want once", loads-before)
	}

	alone := &scoreFn{ScoreOptions: o}
	if err := alone.Setup(t.Context()); err != nil {
		t.Fatal(err)
	}
	var want []string
	emit := func(line string) { want = append(want, line) }
	for line := range strings.Lines(lines.String() + `{"text":"Call me"}`) {
		if err := alone.ProcessElement(t.Context(), strings.TrimSuffix(line, "\n"), emit); err != nil {
			t.Fatal(err)
		}
	}
	if err := alone.FinishBundle(t.Context(), emit); err != nil {
		t.Fatal(err)
	}
	slices.Sort(want)
	got := linesOf(t, filepath.Join(dir, "out"))
	if len(want) != 32 || !slices.Equal(got, want) || !strings.Contains(strings.Join(got, "\n"), `"perplexity":`) {
		t.Errorf("found %d results\n%s\nwant %d\n%s", len(got), strings.Join(got, "\n"), len(want),
			strings.Join(want, "\n"))
	}
}

// TestPredict checks that a pipeline predicts each row of each file, and reports the file that it cannot read.
func TestPredict(t *testing.T) {
	dir := t.TempDir()
	table := func(rows int) string {
		var b strings.Builder
		b.WriteString("x,y\n")
		for n := range rows {
			fmt.Fprintf(&b, "%d,%s\n", n%7, []string{"low", "high"}[n%7/4])
		}
		return b.String()
	}
	c := fit.DefaultConfig()
	c.Data, c.Target, c.Out = []string{filepath.Join(dir, "train.csv")}, []string{"y"}, filepath.Join(dir, "run")
	c.Model.DModel, c.Epochs = 8, 1
	write(t, c.Data[0], table(300))
	if _, err := fit.Run(t.Context(), c, nil, fit.Events{}); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "1.csv"), table(20))
	write(t, filepath.Join(dir, "2.csv"), table(10))
	write(t, filepath.Join(dir, "3.csv"), "z\n1\n")

	before := loads
	p, s := beam.NewPipelineWithRoot()
	files := fileio.ReadMatches(s, fileio.MatchFiles(s, filepath.Join(dir, "?.csv")), fileio.ReadUncompressed())
	textio.Write(s, filepath.Join(dir, "out"), Predict(s, files, c.Out))
	ptest.RunAndValidate(t, p)
	if loads-before != 1 {
		t.Errorf("the network was loaded %d times, want once", loads-before)
	}
	for name, n := range map[string]int{`1.csv","row":{`: 20, `2.csv","row":{`: 10, `3.csv","error":"`: 1} {
		found := 0
		for _, line := range linesOf(t, filepath.Join(dir, "out")) {
			if strings.Contains(line, name) {
				found++
			}
		}
		if found != n {
			t.Errorf("found %d lines with %s, want %d\n%s", found, name, n, strings.Join(linesOf(t,
				filepath.Join(dir, "out")), "\n"))
		}
	}
}
