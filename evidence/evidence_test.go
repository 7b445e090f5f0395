package evidence

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// runResult writes the result of a run.
func runResult(t *testing.T, dir, text string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "result.json"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// newTree returns the root of a new tree with a page, recipes and no results.
func newTree(t *testing.T, page, recipes string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range map[string]string{"docs/evidence.md": page, recipesFile: recipes, resultsFile: ""} {
		path := filepath.Join(root, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// open opens a tree.
func open(t *testing.T, root string) *Book {
	t.Helper()
	book, err := Open(root)
	if err != nil {
		t.Fatal(err)
	}
	return book
}

const someRecipes = `code: [docs]
recipes:
  - name: demo
    commands: ["hippo task table --out runs/evidence/demo"]
    one: 'printf %s "$task $model $seed" >"$out.txt"; mkdir "$out"; cp "$RESULT" "$out/result.json"'
    seeds: 3
    beside:
      - {task: recall(loss=answer), model: h3, who: paper, score: 88, from: a table}
      - {task: recall(loss=answer), who: guessing, score: 5, from: arithmetic}
  - {name: text, commands: [hippo compare h3 --out runs/evidence/text], seeds: 1}
  - {name: none, commands: [hippo compare h3 --out runs/evidence/none], seeds: 1}
`

// demoResult returns the result of a run as JSON.
func demoResult(seed int, accuracy float64, version string) string {
	return fmt.Sprintf(`{"task":"recall(loss=answer)","recipe":"h3","params":12,"steps":3,"cpu_seconds":30,
		"machine":"a machine","config":{"out":"x"},"seed":%d,"version":%q,"date":"2026-11-22T10:00:00Z",
		"test":{"loss":1,"accuracy":%g,"count":5},"extra":[{"name":"length 40","loss":2,"accuracy":%g,"count":5},
		{"name":"by distance","loss":1,"accuracy":%[3]g,"count":5}]}`, seed, version, accuracy, accuracy/2)
}

// TestFill checks that results are written into the parts that name their recipes: one row for all seeds, with the
// expected range of another seed, the results beside it and those that are better, commit, date, seeds and machine. A
// later run replaces an earlier one, and the rest of the page does not change.
func TestFill(t *testing.T) {
	runs := t.TempDir()
	const before, after = "# Page\n\n<!-- commands: demo -->\n<!-- end -->\n" +
		"<!-- results: demo text none -->\nold\n<!-- end -->\n",
		"\n<!-- typed: none -->\nby hand\n<!-- end -->\nThe end.\n"
	root := newTree(t, before+after, someRecipes)
	text := func() string {
		t.Helper()
		got, err := os.ReadFile(filepath.Join(root, "docs", "evidence.md"))
		if err != nil {
			t.Fatal(err)
		}
		return string(got)
	}
	take := func() {
		t.Helper()
		book := open(t, root)
		if left, err := book.Take(runs); err != nil || len(left) > 0 {
			t.Fatal(left, err)
		}
		if changed, err := book.Fill(true); err != nil || !slices.Equal(changed, []string{"docs/evidence.md"}) {
			t.Fatalf("changed %q, %v", changed, err)
		}
	}
	const version = "0123456789abcdef"
	seed := func(n int) string { return filepath.Join(runs, "demo", "recall", fmt.Sprint("h3-seed", n)) }
	runResult(t, seed(1), demoResult(1, 90, version))
	runResult(t, seed(2), demoResult(2, 80, version))
	if changed, err := open(t, root).Fill(false); err != nil || len(changed) != 1 || text() != before+after {
		t.Errorf("checked: %q, %v, want the page's name and the page as it was", changed, err)
	}
	runResult(t, filepath.Join(runs, "text", "h3", "seed-1"), `{
		"run":{"model":"h3*2","seed":1,"steps":7,"train_s":300,"valid_loss":1.25},"baseline":{"bigram":1.375},
		"params":99,"machine":"a machine","version":"0123456789abcdef","date":"2026-11-22T10:00:00Z"}`)
	take()
	for _, want := range []string{
		"<!-- commands: demo -->\n```sh\nhippo task table --out runs/evidence/demo\n```\n<!-- end -->\n",
		"| `language` | `h3*2` | 99 | 1.25 nats | bigram counts 1.375 | 1.2500 |  | 7 | 5m0s | 1 | 0123456, " +
			"2026-11-22 |\n",
		"| `recall(loss=answer)` | `h3` | 12 | 85.0 % (80.0 to 90.0) | paper 88.0; guessing 5.0 | 1.0000 | " +
			"length 40: 42.5 % (40.0 to 45.0) | 3 | 30s | 1, 2 | 0123456, 2026-11-22 |\n",
		"\nWorse than what stands beside it, in 1 of 2 rows:\n\n" +
			"- `recall(loss=answer)`, `h3` has 85.0 %: behind paper 88.0\n",
		"Machine: a machine.\n", "No results of none are stored",
		"<!-- typed: none -->\nby hand\n<!-- end -->\nThe end.\n",
	} {
		if !strings.Contains(text(), want) {
			t.Errorf("the page has no %q:\n%s", want, text())
		}
	}
	if changed, err := open(t, root).Fill(false); err != nil || len(changed) > 0 {
		t.Errorf("filled, and checked: %q, %v", changed, err)
	}
	runResult(t, seed(1), strings.Replace(demoResult(1, 100, "fedcba9876543210"), "11-22", "11-23", 1))
	runResult(t, seed(3), demoResult(3, 90, version))
	take()
	for _, want := range []string{"| 90.0 % (80.0 to 100.0) | 40.3 to 100.0 |", "fedcba9, 2026-11-23"} {
		if !strings.Contains(text(), want) || strings.Contains(text(), "Worse than") {
			t.Errorf("after another run of seed 1 the page has no %q:\n%s", want, text())
		}
	}
	runResult(t, filepath.Join(runs, "none"), `{
		"run":{"model":"h3*2","seed":1,"steps":7,"train_s":300,"valid_loss":1.25},
		"params":99,"machine":"a machine","version":"0123456789abcdef","date":"2026-11-22T10:00:00Z"}`)
	take()
	if strings.Contains(text(), "by hand") || !strings.Contains(text(), "<!-- typed: none -->\n| task |") {
		t.Errorf("what was typed by hand stays beside a result:\n%s", text())
	}
	runResult(t, seed(1), demoResult(1, 0, "unknown"))
	if left, err := open(t, root).Take(runs); err != nil || len(left) != 1 || !strings.Contains(left[0], "h3-seed1") {
		t.Errorf("a result of an unknown commit: left out %q, %v, want it", left, err)
	}
	if _, err := open(t, root).Take(t.TempDir()); err == nil {
		t.Error("a folder without runs: no error")
	}
}

// TestExpected checks that the expected range is Student's prediction interval. For the 3 scores 90, 80 and 100, t is
// 4.3027 and the half width is 4.3027·10·√(4/3) = 49.7.
func TestExpected(t *testing.T) {
	row := []result{{Score: 90, Unit: "nats"}, {Score: 80, Unit: "nats"}, {Score: 100, Unit: "nats"}}
	got := expected(row)
	if math.Abs(got.low-40.32) > .02 || math.Abs(got.high-139.69) > .02 {
		t.Errorf("found %v, want 40.32 to 139.69", got)
	}
	same := []result{{Score: 99.5, Unit: "%"}, {Score: 99.5, Unit: "%"}, {Score: 99.5, Unit: "%"}}
	if got := expected(same); got.low != 98.5 || got.high != 100 {
		t.Errorf("three times 99.5 %%: found %v, want 98.5 to 100", got)
	}
	if got := expected(row[:2]); got.text("nats") != "" || got.low > -1e300 {
		t.Errorf("two seeds: found %v, want no bounds", got)
	}
}

// TestFillGroups checks that a groups table has a column for each group with the word, and a row for each result.
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
		book := &Book{recipes: []Recipe{{Name: "demo"}}, results: []result{r}}
		got, err := book.fillPage(head+"old\n<!-- end -->\n", "docs/x.md")
		if err != nil || !strings.HasPrefix(got, head+want) {
			t.Errorf("found %s, %v, want %s", got, err, want)
		}
	}
}

// TestFillBenches checks that a table of measurements has the rows of its file, with the rounding and headers of the
// part's first line, and their origin. Rows without an origin are refused.
func TestFillBenches(t *testing.T) {
	root := t.TempDir()
	file := filepath.Join(root, "speed.jsonl")
	const first = "<!-- bench: speed.jsonl context mode h3_tokens_per_s:1=H3_hybrid ratio:2 more parts.1.x=x " +
		"parts.2.x -->\n"
	const page = "before\n" + first + "old\n<!-- end -->\nafter\n"
	const row = `{"bench":"speed","context":512,"mode":"exact","h3_tokens_per_s":20.06,"ratio":2.006,` +
		`"parts":[1,{"x":7}]}` + "\n"
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	write(row)
	if _, err := (&Book{root: root}).fillPage(page, "x.md"); err == nil || !strings.Contains(err.Error(), "origin") {
		t.Errorf("rows without an origin: got %v", err)
	}
	write(row + `{"bench":"origin","commit":"0123456789","date":"2026-11-22T14:00:00Z","machine":"a machine"}` + "\n")
	got, err := (&Book{root: root}).fillPage(page, "x.md")
	const want = "before\n" + first + "| context | mode | H3 hybrid | ratio | more | x | parts.2.x |\n" +
		"|---:|---:|---:|---:|---:|---:|---:|\n| 512 | exact | 20.1 | 2.01 |  | 7 |  |\n\n" +
		"0123456, 2026-11-22. Machine: a machine.\n<!-- end -->\nafter\n"
	if err != nil || got != want {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
	for value, shown := range map[string]bool{"exact": true, "stopped": false} {
		chosen := strings.Replace(page, "mode ", "mode=="+value+" ", 1)
		got, err := (&Book{root: root}).fillPage(chosen, "x.md")
		if err != nil || strings.Contains(got, "| 512 | 20.1 |") != shown || strings.Contains(got, "| mode |") {
			t.Errorf("rows of mode %s: got %q, %v", value, got, err)
		}
	}
	if _, err := (&Book{root: root}).fillPage(strings.Replace(page, "ratio:2", "ratio:x", 1), "x.md"); err == nil {
		t.Error("decimals that are no number: no error")
	}
	book := &Book{root: root, recipes: []Recipe{{Name: "slow", File: "none.jsonl"}}}
	for old, want := range map[string]string{"": "No results of slow are stored", "| typed |\n": "| typed |"} {
		got, err := book.fillPage("<!-- bench: none.jsonl x -->\n"+old+"<!-- end -->\n", "x.md")
		if err != nil || !strings.Contains(got, want) {
			t.Errorf("a file that is not there, after %q: found %q, %v, want %q", old, got, err, want)
		}
	}
}

// TestMergedRows checks that rows with equal cells in all + columns are merged, and list the values that differ.
func TestMergedRows(t *testing.T) {
	file := filepath.Join(t.TempDir(), "x.jsonl")
	const rows = `{"mixer":"h3","l":1,"us":6,"d":8} {"mixer":"s4","l":1,"us":7,"d":8} {"mixer":"h3","l":2,"d":8}`
	if err := os.WriteFile(file, []byte(rows), 0o644); err != nil {
		t.Fatal(err)
	}
	for words, want := range map[string]string{
		"+mixer l us:1 d":        "| h3 | 1, 2 | 6.0, – | 8 |\n| s4 | 1 | 7.0 | 8 |\n",
		"+mixer +l us:1 d":       "| h3 | 1 | 6.0 | 8 |\n| s4 | 1 | 7.0 | 8 |\n| h3 | 2 |  | 8 |\n",
		"mixer l==2|3 us:e":      "| h3 |  |\n",
		"mixer d:e l==1|2 us==6": "| h3 | 8.0e+00 |\n",
		"mixer l us:1 d":         "| h3 | 1 | 6.0 | 8 |\n| s4 | 1 | 7.0 | 8 |\n| h3 | 2 |  | 8 |\n",
	} {
		got, err := benchRows(file, strings.Fields(words), false)
		if _, body, _ := strings.Cut(got, "---:|\n"); err != nil || body != want {
			t.Errorf("%s: found %s, %v, want %s", words, got, err, want)
		}
	}
}

// TestFillForecasts checks that a result of hippo forecast is a row with its error, its pinball loss in standard
// deviations, the share of true values in its interval, and the errors of simple forecasts.
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
		"linear 0.75 | 1.0000 | in the 80 % interval: 79.0 % | 3 | 1m1s | 2 | 0123456, 2026-11-22 |\n"
	if got := (&Book{}).table([]result{r}); !strings.Contains(got, want) || strings.Contains(got, "Worse") {
		t.Errorf("found %s, want %s", got, want)
	}
}

// TestCurve checks that sizes are interpolated linearly in their logarithm: if 100 and 400 parameters have 3 and 2
// bits, 2.5 bits need 200. It also checks that the picture is drawn only when pages are written.
func TestCurve(t *testing.T) {
	root := t.TempDir()
	book := &Book{root: root}
	for i, r := range []result{
		{Model: "base", Params: 100, Score: 3.5}, {Model: "base", Params: 400, Score: 2.5},
		{Model: "base", Params: 1600, Score: 1.5}, {Model: "new", Params: 100, Score: 3},
		{Model: "new", Params: 400, Score: 1.9}, {Model: "new", Params: 400, Score: 2.1},
	} {
		name := []string{"small", "middle", "large"}[i%3]
		if r.Model == "new" {
			name = []string{"small", "middle", "middle"}[i%3]
		}
		r.Command, r.Unit, r.Task, r.Machine = name, bitsPerByte, "language", "a machine"
		book.results = append(book.results, r)
	}
	for _, name := range []string{"small", "middle", "large"} {
		book.recipes = append(book.recipes, Recipe{Name: name})
	}
	const head = "<!-- curve: x.png base small middle large -->\n"
	const want = "![bits/byte by number of parameters](x.png)\n\n" +
		"| parameters of `base` | bits/byte | `new` has it with |\n|---:|---:|---:|\n" +
		"| 100 | 3.5 | fewer than 1 of them |\n| 400 | 2.5 | 0.5 of them |\n| 1600 | 1.5 | none of its sizes |\n\n" +
		"Machine: a machine.\n"
	for _, drawing := range []bool{false, true} {
		book.drawing = drawing
		got, err := book.fillPage(head+"old\n<!-- end -->\n", "x.md")
		if err != nil || got != head+want+"<!-- end -->\n" {
			t.Errorf("found %s, %v, want %s", got, err, want)
		}
		if _, err := os.Stat(filepath.Join(root, "x.png")); (err == nil) != drawing {
			t.Errorf("drawing %v: %v", drawing, err)
		}
	}
	for head, want := range map[string]string{
		"x.png base": "want a picture, a model, and recipes", "x.png none small": "found no results of none",
	} {
		if _, err := book.fillPage("<!-- curve: "+head+" -->\n<!-- end -->\n", "x.md"); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", head, err, want)
		}
	}
}

// TestLearning checks that at most twenty scores of a run are kept, including the last one, and that they are drawn by
// epochs with a text on the change in the last fifth of the run.
func TestLearning(t *testing.T) {
	dir := t.TempDir()
	var points []string
	for i := range 50 {
		points = append(points, fmt.Sprintf(`{"epoch":%d,"train_loss":%d,"valid":{"loss":1,"accuracy":%d}}`,
			i+1, 100-i, min(i, 40)))
	}
	runResult(t, dir, `{"task":"recall","recipe":"h3","seed":3,"params":12,"machine":"a machine","version":"0123456789",
		"date":"2026-11-22T10:00:00Z","config":{"out":"x"},"test":{"loss":0.5,"accuracy":90,"count":5},"curve":[`+
		strings.Join(points, ",")+`]}`)
	r, err := readRun(filepath.Join(dir, "result.json"))
	if err != nil {
		t.Fatal(err)
	}
	if n := len(r.Curve); n != 17 || r.Curve[0] != (moment{2, 1, 99}) || r.Curve[n-1] != (moment{50, 40, 51}) {
		t.Errorf("found %v", r.Curve)
	}
	r.Command = "demo"
	book := &Book{root: dir, drawing: true, recipes: []Recipe{{Name: "demo"}}, results: []result{r}}
	got, err := book.fillPage("<!-- learning: x.png recall demo -->\n<!-- end -->\n", "x.md")
	if want := "| `h3` | 3 | 37.0 | 40.0 | 63 | 51 |\n"; err != nil || !strings.Contains(got, want) {
		t.Errorf("found %s, %v, want %s", got, err, want)
	}
	if _, err := os.Stat(filepath.Join(dir, "x.png")); err != nil {
		t.Error(err)
	}
	_, err = book.fillPage("<!-- learning: x.png mqar demo -->\n<!-- end -->\n", "x.md")
	if err == nil || !strings.Contains(err.Error(), "no curve of the task mqar") {
		t.Errorf("found %v", err)
	}
}

// TestTestedLanguage checks that a run with test text is scored in bits per byte. The column of further measurements
// has the perplexities by word and by GPT-2 token, and the validation loss.
func TestTestedLanguage(t *testing.T) {
	dir := t.TempDir()
	runResult(t, dir, `{"run":{"model":"h3*2","seed":1,"steps":7,"train_s":300,"valid_loss":1.25,"test":{"text":"t",
		"loss":1.5,"bits_per_byte":2.164,"word_perplexity":4000,"gpt2_perplexity":700}},
		"params":99,"machine":"a machine","version":"0123456789abcdef","date":"2026-11-22T10:00:00Z"}`)
	r, err := readRun(filepath.Join(dir, "result.json"))
	if err != nil || r.Score != 2.164 || r.Unit != "bits/byte" || r.Loss != 1.5 {
		t.Fatalf("found %+v, %v", r, err)
	}
	const want = "by word: 4000 perplexity; by GPT-2 token: 700 perplexity; validation: 1.25 nats"
	if got := measured([]result{r}); got != want {
		t.Errorf("found %q, want %q", got, want)
	}
}

// TestSimpleMethods checks that scores of simple methods are shown beside a run's own, in bits for coded targets.
func TestSimpleMethods(t *testing.T) {
	dir := t.TempDir()
	runResult(t, dir, `{"task":"speech","recipe":"h3","seed":3,"params":12,"machine":"a machine","version":"0123456789",
		"date":"2026-11-22T10:00:00Z","config":{"out":"x"},"coded":"sample",
		"test":{"loss":0.6931471805599453,"accuracy":90,"count":5},
		"simple":[{"name":"linear","loss":1.3862943611198906}]}`)
	r, err := readRun(filepath.Join(dir, "result.json"))
	if err != nil {
		t.Fatal(err)
	}
	r.Command = "demo"
	typed := Beside{Task: "speech", Who: "linear", Score: 7, From: "no result kept"}
	got := (&Book{recipes: []Recipe{{Name: "demo", Beside: []Beside{typed}}}}).beside([]result{r})
	if r.Score != 1 || r.Unit != "bits/sample" || len(got) != 1 || got[0].Who != "linear" || got[0].Score != 2 {
		t.Errorf("found %+v beside %+v, want 1 bit beside 2", got, r)
	}
}
