package evidence

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestCalls checks that callsOf finds the calls of hippo on a page, with the words that the shell would pass.
func TestCalls(t *testing.T) {
	for text, want := range map[string]string{
		"hippo list":                                                             "list",
		"./hippo run x \"a b\" 'c d' # hippo no":                                 "run|x|a b|c d",
		"hippo a \\\n    --b c\n":                                                "a|--b|c",
		"X=1 HIPPO_CPU=avx2 ./hippo a > f.txt 2>&1":                              "a",
		"cat f | hippo a 2>err <in - && echo hippo":                              "a|-",
		"for s in 7 8; do for t in u v; do hippo a --s $s --t ${t}x; done; done": "a|--s|7|--t|ux",
		"(cd x && nice -n 5 ../hippo a) & echo hippo b":                          "a",
		"text=$(hippo a \"$PWD/b\") ":                                            "a|$PWD/b",
		"hippo a 'it'\"'\"'s' b\\ c \"\\\"d\\\"\" ''":                            "a|it's|b c|\"d\"|",
		"echo hippo a; go run ./cmd/hippo-x a":                                   "",
		"hippo a --q 'open":                                                      "a|--q|open",
	} {
		var got []string
		for _, c := range calls(text) {
			got = append(got, strings.Join(c.args, "|"))
		}
		if strings.Join(got, " and ") != want {
			t.Errorf("%s\nfound %q, want %q", text, got, want)
		}
	}
	found := callsOf("a\n```sh\nls\n\nhippo a\nhippo b \\\n  c\nhippo d\n```\n```\nhippo no\n```\n")
	var lines []int
	for _, c := range found {
		lines = append(lines, c.line)
	}
	if !slices.Equal(lines, []int{5, 6, 8}) {
		t.Errorf("found calls at the lines %v, want 5, 6, 8", lines)
	}
}

// TestEverySystemIsListed checks that the table of docs/evidence.md lists all systems in order, each with a command, a
// picture or result, existing tests, and the code without which these fail. It also checks that missing parts are
// reported.
func TestEverySystemIsListed(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "docs", "evidence.md"))
	if err != nil {
		t.Fatal(err)
	}
	var r Report
	if n, err := (&Book{root: ".."}).checkSystems(&r, "page", string(text)); n != 39 || err != nil {
		t.Errorf("found %d systems, %v, want 39", n, err)
	}
	for i, row := range systemRow.FindAllStringSubmatch(string(text), -1) {
		if row[1] != strconv.Itoa(i+1) {
			t.Errorf("found the system %s, want %d", row[1], i+1)
		}
	}
	if r.Faults != nil {
		t.Errorf("found %q", r.Faults)
	}
	r = Report{}
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "x_test.go"), []byte("func TestX(t *testing.T) {}"), 0o666); err != nil {
		t.Fatal(err)
	}
	_, err = (&Book{root: root}).checkSystems(&r, "page", "| 1 | a | none | b | none | none |\n"+
		"| 2 | a | `hippo c NAME` | [x](#one) | `TestX` | a |\n"+
		"| 3 | a | `hippo c` | [x](#two-three), [y](z.svg) | `TestX`, `TestY` | a |\n"+
		"# One\nNothing.\n## Two, `three`\n| a |\n|---|\n")
	if got := strings.Join(slices.Concat(r.Faults, r.Notes), "\n"); err != nil || got != "page: system 1: found the "+
		"command none, want a call of hippo\npage: system 1: found b, want links to a picture or result, or the "+
		"command's pictures\npage: system 1: found none, want the names of tests\npage: system 1: found nothing that "+
		"was taken out of the code, want what its tests fail without\npage: system 2: found the command "+
		"`hippo c NAME`, want a call of hippo\npage: system 3: found no test TestY\n"+
		"page: no result of system 2 is kept" {
		t.Errorf("found %s, %v", got, err)
	}
}

// FuzzCalls checks that no text makes the shell parser panic.
func FuzzCalls(f *testing.F) {
	f.Add("for s in 1; do hippo a $s \"b\\\" ${c\"; done # x")
	f.Fuzz(func(t *testing.T, text string) {
		for _, c := range callsOf("```sh\n" + text + "\n```\n") {
			if c.line > strings.Count(text, "\n")+2 {
				t.Errorf("line %d", c.line)
			}
		}
	})
}

// TestCheck checks that Check reports each kind of fault and note.
func TestCheck(t *testing.T) {
	runs := t.TempDir()
	runResult(t, filepath.Join(runs, "demo", "a"), demoResult(1, 90, "0123456789abcdef"))
	runResult(t, filepath.Join(runs, "other", "a"), demoResult(1, 90, "0123456789abcdef"))
	const page = "```sh\nhippo good\nhippo bad --flag\n```\n" +
		"| a | b |\n|---|---|\n| x | 12 |\n\nIt was 7 at 0123456.\n" +
		"<!-- results: demo -->\n<!-- end -->\n<!-- typed: none -->\n| a |\n|---|\n| 1 |\n| 2 |\n<!-- end -->\n"
	root := newTree(t, page, strings.Replace(someRecipes, "[docs]", "[docs, nowhere]", 1))
	book := open(t, root)
	if _, err := book.Take(runs); err != nil {
		t.Fatal(err)
	}
	report, err := book.Check(func(args []string) error {
		if args[0] == "bad" {
			return errors.New("unknown flag")
		}
		return nil
	})
	if err == nil {
		err = book.Ages(t.Context(), report)
	}
	if err != nil {
		t.Fatal(err)
	}
	for text, lines := range map[string][]string{
		"docs/evidence.md: its parts are not as":                      report.Faults,
		"docs/evidence.md:3: hippo bad --flag: unknown flag":          report.Faults,
		"docs/evidence.md:5: a table of figures of no recipe":         report.Faults,
		`found a result of "other", which no recipe computes`:         report.Faults,
		"demo: found the code nowhere":                                report.Faults,
		"docs/evidence.md: 2 rows of none are typed by hand":          report.Notes,
		"none: no result kept: hippo evidence run none computes it":   report.Notes,
		"demo: 1 of 1 rows have fewer seeds than the 3 of the recipe": report.Notes,
		"demo: 1 of 1 rows have fewer than 3 seeds, and so no range":  report.Notes,
		"typed by hand, from the commits that lines 9 name":           report.Notes,
		"ages of results are not known: no whole history of git":      report.Notes,
	} {
		if !slices.ContainsFunc(lines, func(line string) bool { return strings.Contains(line, text) }) {
			t.Errorf("found no %q in\n%s", text, strings.Join(lines, "\n"))
		}
	}
	if report.Calls != 5 {
		t.Errorf("%d calls were parsed, want 2 of the page and 3 of recipes", report.Calls)
	}
}

// TestAges checks that Ages counts the commits that changed a result's code since it was measured.
func TestAges(t *testing.T) {
	root := newTree(t, "# Page\n", someRecipes)
	git := func(args ...string) string {
		t.Helper()
		cmd := exec.Command("git", append([]string{"-C", root, "-c", "user.name=n", "-c", "user.email=e"}, args...)...)
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(args, err)
		}
		return strings.TrimSpace(string(out))
	}
	git("init", "--quiet")
	git("add", ".")
	git("commit", "--quiet", "-m", "one")
	commit := git("rev-parse", "HEAD")
	runs := t.TempDir()
	runResult(t, filepath.Join(runs, "demo", "a"), demoResult(1, 90, commit))
	runResult(t, filepath.Join(runs, "demo", "b"), demoResult(2, 90, "0000000000"))
	runResult(t, filepath.Join(runs, "demo", "c"), demoResult(3, 90, "--output=x"))
	book := open(t, root)
	if _, err := book.Take(runs); err != nil {
		t.Fatal(err)
	}
	ages := func() string {
		t.Helper()
		var report Report
		if err := book.Ages(t.Context(), &report); err != nil {
			t.Fatal(err)
		}
		return strings.Join(report.Notes, "\n")
	}
	if got := ages(); strings.Contains(got, "have changed") || strings.Count(got, "is no commit") != 2 {
		t.Errorf("at the commit itself: %s", got)
	}
	for _, path := range []string{"docs/more", "other"} {
		if err := os.WriteFile(filepath.Join(root, path), nil, 0o644); err != nil {
			t.Fatal(err)
		}
		git("add", path)
		git("commit", "--quiet", "-m", path)
	}
	if got := ages(); !strings.Contains(got, "demo: 1 commits have changed its code since "+commit[:7]) {
		t.Errorf("after a commit of its code and one of other code: %s", got)
	}
}

// TestRerun checks that Rerun computes a quick row again, and that a score outside of its range is a fault.
func TestRerun(t *testing.T) {
	runs := t.TempDir()
	for seed, score := range []float64{90, 91, 92} {
		runResult(t, filepath.Join(runs, "demo", "s", string(rune('a'+seed))),
			demoResult(seed+1, score, "0123456789abcdef"))
	}
	root := newTree(t, "# Page\n", someRecipes)
	book := open(t, root)
	if _, err := book.Take(runs); err != nil {
		t.Fatal(err)
	}
	result := filepath.Join(t.TempDir(), "result.json")
	t.Setenv("RESULT", result)
	for score, faults := range map[float64]int{93: 0, 50: 1} {
		runResult(t, filepath.Dir(result), demoResult(1, score, "0123456789abcdef"))
		for limit, want := range map[time.Duration]int{time.Second: 0, time.Minute: 1} {
			var report Report
			ran, all, err := book.Rerun(t.Context(), &Runner{Program: "false", Out: io.Discard}, limit, &report)
			if err != nil || ran != want || all != 1 || len(report.Faults) != faults*want {
				t.Errorf("score %g in %v: %d of %d rows, %q, %v, want %d of 1", score, limit, ran, all, report.Faults,
					err, want)
			}
		}
	}
}

// TestShortened checks that flags are inserted before anything that follows the call.
func TestShortened(t *testing.T) {
	for _, c := range []struct{ command, want string }{
		{"hippo bench a --json > docs/a.jsonl",
			"hippo bench a --json --shrink 32 --rounds 1 --seconds 0 > docs/a.jsonl"},
		{"for s in 1 2; do for f in A B; do hippo forecast $f --rows 7 --split 1,2,3 --out x; done; done",
			"for s in 1; do for f in A; do hippo forecast $f --split 900,100,100 --out x" +
				" --time 200ms --epochs 1 --model.d_model 8 --eval_limit 5; done; done"},
		{"hippo task heads x", "hippo task heads x"},
		{"dd if=a of=b bs=200000 && hippo compare x --test runs/data/wikitext2/test.txt --out y",
			"dd if=a of=b bs=20000 && hippo compare x --test runs/wt2-valid.txt --out y --time 300ms --seeds 1"},
	} {
		if got := shortened(c.command); got != c.want {
			t.Errorf("found %s\nwant %s", got, c.want)
		}
	}
}

// TestHostileRecipes checks that invalid recipes give one error that names the file and the recipe.
func TestHostileRecipes(t *testing.T) {
	for _, c := range []struct{ recipes, want string }{
		{"recipes: 3", "recipes.yaml"},
		{"recipes: [{name: a, commands: [hippo x], no: 1}]", `"no"`},
		{"recipes: [{name: a}]", `recipe 1 ("a"): found the commands []`},
		{"recipes: [{name: a b, commands: [hippo x]}]", "want one word"},
		{"recipes: [{name: a, commands: [x]}]", "want a call of hippo in each"},
		{"recipes: [{name: a, commands: [hippo x], seeds: 1}]", "writes runs/evidence/a"},
		{"recipes: [{name: a, commands: [hippo x], seeds: many}]", "recipes.yaml"},
		{"recipes: [{name: a, commands: [hippo x]}, {name: a, commands: [hippo x]}]", `two recipes "a"`},
		{"recipes: [{name: a, commands: [hippo x], beside: [{task: b, who: c}]}]", "want all three"},
		{"\xff", "recipes.yaml"},
	} {
		_, err := Open(newTree(t, "# Page\n", c.recipes))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: found %v, want %s", c.recipes, err, c.want)
		}
	}
	if _, err := Open(t.TempDir()); err == nil || !strings.Contains(err.Error(), "recipes.yaml") {
		t.Errorf("an empty folder: %v", err)
	}
}
