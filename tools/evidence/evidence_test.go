package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestPageIsFilled: the tables of docs/evidence.md are those of its results.
func TestPageIsFilled(t *testing.T) {
	if err := fill(filepath.Join("..", "..", "docs"), nil, true); err != nil {
		t.Error(err)
	}
}

// runResult writes a run's result.
func runResult(t *testing.T, dir, text string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "result.json"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestFill: results of runs go into the tables that name their commands, seeds in one row, with commit, day, seeds
// and machine; a later run takes the place of an earlier one, and what the page says besides stays.
func TestFill(t *testing.T) {
	root, runs := t.TempDir(), t.TempDir()
	const before, after = "# Page\n\n<!-- results: demo text none -->\nold\n<!-- end -->\n", "\nThe end.\n"
	page := filepath.Join(root, "evidence.md")
	if err := os.Mkdir(filepath.Join(root, "evidence"), 0o755); err != nil {
		t.Fatal(err)
	}
	results := filepath.Join(root, "evidence", "results.jsonl")
	for path, text := range map[string]string{page: before + after, results: ""} {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	const head = `{"task":"recall(loss=answer)","recipe":"h3","params":12,"steps":3,"cpu_seconds":61,
		"machine":"a machine",
"config":{"out":"x"},`
	one := filepath.Join(runs, "demo", "recall", "h3-seed1")
	runResult(t, one, head+`"seed":1,"version":"0123456789abcdef","date":"2026-11-22T10:00:00Z",
		"test":{"loss":1,"accuracy":90,"count":5},"extra":[{"name":"length 40","loss":2,"accuracy":50,"count":5},
		{"name":"by distance","loss":1,"accuracy":90,"count":5}]}`)
	two := filepath.Join(runs, "demo", "recall", "h3-seed2")
	runResult(t, two, head+`"seed":2,"version":"0123456789abcdef","date":"2026-11-22T11:00:00Z",
		"test":{"loss":1,"accuracy":80,"count":5},"extra":[{"name":"length 40","loss":2,"accuracy":40,"count":5}]}`)
	text := func() string {
		t.Helper()
		got, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		return string(got)
	}
	if err := fill(root, []string{runs}, true); err == nil || text() != before+after {
		t.Errorf("checked: %v, want an error and the page as it was", err)
	}
	if err := fill(root, []string{runs}, false); err != nil {
		t.Fatal(err)
	}
	runResult(t, filepath.Join(runs, "text", "h3", "seed-1"), `{
		"run":{"model":"h3*2","seed":1,"steps":7,"train_s":300,"valid_loss":1.25},
		"params":99,"machine":"a machine","version":"0123456789abcdef","date":"2026-11-22T10:00:00Z"}`)
	if err := fill(root, []string{runs}, false); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"| `language` | `h3*2` | 99 | 1.25 nats | 1.2500 |  | 7 | 5m0s | 1 | 0123456, 2026-11-22 |\n",
		"| `recall(loss=answer)` | `h3` | 12 | 85.0 % (80.0 to 90.0) | 1.0000 | " +
			"length 40: 45.0 % (40.0 to 50.0) | 3 | 1m1s | 1, 2 | 0123456, 2026-11-22 |\n",
		"Machine: a machine.\n", "No results of none are stored",
		"# Page\n\n<!-- results: demo text none -->\n", "<!-- end -->\n" + after,
	} {
		if !strings.Contains(text(), want) {
			t.Errorf("the page has no %q:\n%s", want, text())
		}
	}
	if err := fill(root, nil, true); err != nil {
		t.Errorf("filled, and checked: %v", err)
	}
	runResult(t, one, head+`"seed":1,"version":"fedcba9876543210","date":"2026-11-23T10:00:00Z",
		"test":{"loss":1,"accuracy":100,"count":5},
		"extra":[{"name":"length 40","loss":2,"accuracy":60,"count":5}]}`)
	if err := fill(root, []string{runs}, false); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"| 90.0 % (80.0 to 100.0) | 1.0000 |", "fedcba9, 2026-11-23"} {
		if !strings.Contains(text(), want) {
			t.Errorf("after another run of seed 1 the page has no %q:\n%s", want, text())
		}
	}
	runResult(t, one, head+`"seed":1,"version":"unknown","date":"2026-11-24T10:00:00Z",
		"test":{"loss":1,"accuracy":0,"count":5}}`)
	if _, left, err := collect(runs); err != nil || len(left) != 1 || !strings.Contains(left[0], "h3-seed1") {
		t.Errorf("a result of an unknown commit: left out %q, %v, want it", left, err)
	}
	if err := fill(root, []string{t.TempDir()}, false); err == nil {
		t.Error("a folder without runs: no error")
	}
}

// TestFillGroups: a table of groups has a column for each group whose name has its word, and a row for each result.
func TestFillGroups(t *testing.T) {
	dir := t.TempDir()
	runResult(t, dir, `{"task":"mqar","recipe":"h3","seed":3,"params":12,"machine":"a machine","version":"0123456789",
		"date":"2026-11-22T10:00:00Z","config":{"out":"x"},
		"test":{"loss":1,"accuracy":90,"count":5,"tags":[{"name":"4 pairs","accuracy":99.5},
		{"name":"8 pairs","accuracy":7}]},
		"extra":[{"name":"by distance","loss":1,"accuracy":90,"count":5,
		"tags":[{"name":"distance 2 to 3","accuracy":5}]}]}`)
	r, err := readRun(filepath.Join(dir, "result.json"))
	if err != nil {
		t.Fatal(err)
	}
	r.Command = "demo"
	for word, want := range map[string]string{
		"pairs": "| model | parameters | 4 | 8 | seed | commit, date |\n|---|---:|---:|---:|---:|---|\n" +
			"| `h3` | 12 | 99.5 % | 7.0 % | 3 | 0123456, 2026-11-22 |\n\nMachine: a machine.\n",
		"distance": "| model | parameters | 2 to 3 | seed |",
	} {
		head := "<!-- groups: " + word + " demo -->\n"
		got, err := fillPage(head+"old\n<!-- end -->\n", []result{r})
		if err != nil || !strings.HasPrefix(got, head+want) {
			t.Errorf("found %s, %v, want %s", got, err, want)
		}
	}
}

// TestFillBenches: a table of measurements has the rows of its file, rounded and named as its first line says, and says
// where they were measured; rows without an origin are refused.
func TestFillBenches(t *testing.T) {
	root := t.TempDir()
	file := filepath.Join(root, "speed.jsonl")
	const first = "<!-- bench: speed.jsonl context mode h3_tokens_per_s:1=H3_hybrid ratio:2 more -->\n"
	const page = "before\n" + first + "old\n<!-- end -->\nafter\n"
	const row = `{"bench":"speed","context":512,"mode":"exact","h3_tokens_per_s":20.06,"ratio":2.006}` + "\n"
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	write(row)
	if _, err := fillBenches(page, root); err == nil || !strings.Contains(err.Error(), "origin") {
		t.Errorf("rows without an origin: got %v", err)
	}
	write(row + `{"bench":"origin","commit":"0123456789","date":"2026-11-22T14:00:00Z","machine":"a machine"}` + "\n")
	got, err := fillBenches(page, root)
	const want = "before\n" + first + "| context | mode | H3 hybrid | ratio | more |\n|---:|---:|---:|---:|---:|\n" +
		"| 512 | exact | 20.1 | 2.01 |  |\n\n0123456, 2026-11-22. Machine: a machine.\n<!-- end -->\nafter\n"
	if err != nil || got != want {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
	if _, err := fillBenches(strings.Replace(page, "ratio:2", "ratio:x", 1), root); err == nil {
		t.Error("decimals that are no number: no error")
	}
}

// TestFillForecasts: the result of hippo forecast is a row with its error, its pinball loss in deviations, how many
// truths were in its interval, and what simple forecasts had.
func TestFillForecasts(t *testing.T) {
	dir := t.TempDir()
	runResult(t, dir, `{"task":"forecast","params":12,"model":"s4d*2","steps":3,"cpu_seconds":61,"machine":"a machine",
		"version":"0123456789abcdef","date":"2026-11-22T10:00:00Z",
		"config":{"data":["x/ETTh1.csv"],"seed":2,"rows":100,"scale":"auto","base":"linear"},
		"plan":{"horizon":24,"local":true,"columns":[{"name":"OT","target":true,"deviation":2}]},
		"errors":[{"name":"network","target":"OT","crps":4,"mse_standardized":0.5,"coverage":79,"nominal":80},
		{"name":"linear","target":"OT","crps":4,"mse_standardized":0.75,"coverage":79,"nominal":80}]}`)
	r, err := readRun(filepath.Join(dir, "result.json"))
	if err != nil {
		t.Fatal(err)
	}
	const want = "| `forecast(ETTh1,OT,horizon=24,rows=100)` | `s4d*2,scale=window,base=linear` | 12 | 0.5 MSE | " +
		"1.0000 | in the 80 % interval: 79.0 %; linear: 0.75 MSE | 3 | 1m1s | 2 | 0123456, 2026-11-22 |\n"
	if got := table([]result{r}); !strings.Contains(got, want) {
		t.Errorf("found %s, want %s", got, want)
	}
}
