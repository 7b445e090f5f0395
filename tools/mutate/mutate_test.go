package main

import (
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const toyCode = `package toy

import "math"

const most = 4

type number float64

// Norm is the length of x, at most limit.
func Norm[T ~float32 | ~float64](x []T, limit T) T {
	sum := T(0)
	for _, v := range x {
		sum += v * v
	}
	if n := T(math.Sqrt(float64(sum))); n < limit || limit < 0 {
		return n
	}
	return limit
}

// Fill counts down from n, at most to most.
func Fill(n int) (all []int) {
	for i := n; i > 0 && len(all) < most; i-- {
		all = append(all, i)
	}
	return all
}

// Twice is 2·(n+1): a change of one number follows that of the sum.
func Twice(n int) int { return (n + 1) * 2 }

// Unseen is tested by nobody.
func Unseen(a, b number) number { return -a + b }

// Never ends if its step is dropped.
func Steps(n int) (steps int) {
	for n > 1 {
		n /= 2
		steps++
	}
	return steps
}
`

const toyTest = `package toy

import (
	"os"
	"slices"
	"testing"
)

func TestNorm(t *testing.T) {
	if n := Norm([]float64{3, 4}, 9); n != 5 {
		t.Error(n)
	}
	if n := Norm([]float32{3, 4}, 2); n != 2 {
		t.Error(n)
	}
	if n := Norm([]float64{3, 4}, -1); n != 5 {
		t.Error(n)
	}
}

func TestFill(t *testing.T) { // that something is left out only TestParts sees
	if x := Fill(3); len(x) == 3 && !slices.Equal(x, []int{3, 2, 1}) {
		t.Error(x)
	}
}

func TestTwice(t *testing.T) {
	if n := Twice(0); n != 2 { // as 1 times 2 without the sum, and not with another sum
		t.Error(n)
	}
}

func TestParts(t *testing.T) {
	for _, n := range []int{0, 3} {
		t.Run([]string{"none", "", "", "all/three"}[n], func(t *testing.T) {
			if x := Fill(n); len(x) != n {
				t.Error(x)
			}
		})
	}
}

func TestSteps(t *testing.T) {
	if n := Steps(8); n != 3 {
		t.Error(n)
	}
	if _, err := os.Stat("left"); err == nil {
		t.Error("another run has left a file")
	}
	os.WriteFile("left", nil, 0o666)
}

func TestFailsAnyway(t *testing.T) { t.Error("always") }
`

// TestToy checks the mutants of a small package, some of which survive its weak tests. A second call continues with the
// saved results. Known equivalent mutants do not count.
func TestToy(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles a package")
	}
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(dir, filepath.FromSlash(name))
		err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o777), os.WriteFile(path, []byte(text), 0o666))
		if err != nil {
			t.Fatal(err)
		}
	}
	write("go.mod", "module toy\n\ngo 1.26\n")
	write("toy/toy.go", toyCode)
	write("toy/toy_test.go", toyTest)
	t.Chdir(dir)
	o := options{results: filepath.Join(dir, "results.jsonl"), record: filepath.Join(dir, "record.jsonl"),
		split: "^TestParts$"}
	if err := mutate(t.Context(), "./toy", o); !errors.Is(err, errSurvivors) {
		t.Fatalf("found the error %v, want survivors", err)
	}
	covered := func(want int) {
		t.Helper()
		text, err := os.ReadFile(filepath.Join(dir, "results.cover"))
		if lines := strings.Count(string(text), "\n"); lines != want || err != nil {
			t.Errorf("%d tests were run alone, %v, want %d", lines, err, want)
		}
	}
	covered(8) // six tests, and two subtests of one
	s, err := load("./toy")
	if err != nil {
		t.Fatal(err)
	}
	st, err := openStore(o.results, []string{"./toy"})
	if err != nil {
		t.Fatal(err)
	}
	status := map[string]string{}
	for _, m := range s.mutants() {
		if !st.recall(m) {
			t.Errorf("%s: no result", m.Mutant)
		}
		if m.Nth == 0 {
			status[m.Function+": "+m.Mutant] = m.Status
		}
	}
	for text, want := range map[string]string{
		"Norm: v * v → v / v":                      "killed",
		"Norm: v * v → v":                          "killed",
		"Norm: sum += v * v → -=":                  "killed",
		"Norm: n < limit → n <= limit":             "survived",
		"Norm: n < limit || limit < 0 → limit < 0": "killed",
		"Norm: limit < 0 → limit <= 0":             "survived",
		"Twice: 1 → 1 + 1":                         "killed",
		"Twice: 2 → 2 + 1":                         "killed",
		"Twice: n + 1 → n":                         "killed",
		"Twice: n + 1 → n - 1":                     "killed",
		"Norm: 0 → 0 + 1":                          "killed",
		"Norm: math.Sqrt(float64(sum)) → 1.06·math.Sqrt(float64(sum))": "killed",
		"Fill: len(all) < most → len(all) <= most":                     "survived",
		"Fill: len(all) < most → len(all) >= most":                     "killed",
		"Fill: i > 0 && len(all) < most → i > 0":                       "uncovered",
		"Fill: i > 0 && len(all) < most → len(all) < most":             "killed",
		"Fill: all = append(all, i) → nothing":                         "killed",
		"Unseen: -a + b → -a - b":                                      "uncovered",
		"Unseen: -a → a":                                               "uncovered",
		"Steps: n /= 2 → nothing":                                      "killed",
		"Steps: steps++ → the other way":                               "killed",
	} {
		if status[text] != want {
			t.Errorf("%s: found %q, want %q", text, status[text], want)
		}
	}

	if text, err := os.ReadFile(o.results); !strings.Contains(string(text), `"by":"TestParts/`) || err != nil {
		t.Errorf("no part of a test has killed a mutant: %v", err)
	}

	// Known equivalent mutants are not survivors, and a better test kills the others.
	write("tools/mutate/equivalent.txt", "# a comment\ntoy/toy.go\tNorm\tn < limit → *\tboth are limit\n"+
		"toy/toy.go\tUnseen\t*\tnothing\n")
	write("toy/toy_test.go", strings.Replace(toyTest, "func TestSteps", `
func TestMost(t *testing.T) {
	if x := Fill(9); len(x) != 4 {
		t.Error(x)
	}
	if n := Norm([]float64{3, 4}, 0); n != 0 {
		t.Error(n)
	}
}

func TestSteps`, 1))
	if err := mutate(t.Context(), "./toy", o); err != nil {
		t.Fatal(err)
	}
	covered(9) // only the new test had to run
	if _, err := os.Stat(filepath.Join(dir, "toy", "left")); err == nil {
		t.Error("a test has left a file in the package's folder")
	}
	line, err := os.ReadFile(o.record)
	if err != nil {
		t.Fatal(err)
	}
	var sum summary
	if err := json.Unmarshal(line, &sum); err != nil || sum.All != len(s.mutants()) || sum.Survived > 0 ||
		sum.Equivalent != 6 {
		t.Errorf("found %s of %d mutants, %v, want all killed but 6", line, len(s.mutants()), err)
	}
}

// TestInterval checks Wilson's interval against the paper's formula, also for none and for all of n.
func TestInterval(t *testing.T) {
	for _, c := range []struct {
		k, n      int
		low, high float64
	}{{8, 10, 49.02, 94.33}, {0, 10, 0, 27.75}, {10, 10, 72.25, 100}, {0, 0, 0, 100}, {950, 1000, 93.47, 96.19}} {
		low, high := interval(c.k, c.n)
		if math.Abs(low-c.low) > 0.01 || math.Abs(high-c.high) > 0.01 {
			t.Errorf("%d of %d: found %.2f to %.2f, want %.2f to %.2f", c.k, c.n, low, high, c.low, c.high)
		}
	}
}

// TestTextsOf checks that the code of a test is its text and that of all declarations it uses, and nothing else.
func TestTextsOf(t *testing.T) {
	texts, err := textsOf(map[string][]byte{"a_test.go": []byte(`package a
func TestA(t *testing.T) { helper(1) }
func TestB(t *testing.T) { other() }
func helper(n int) { var m mine; m.go1() }
`), "b_test.go": []byte(`package a
type mine int
func (m mine) go1() { most++ }
var most = 3
func other() {}
`)})
	if err != nil || len(texts) != 2 {
		t.Fatal(texts, err)
	}
	for _, want := range []string{"TestA", "helper(n int)", "mine int", "go1() {", "most = 3"} {
		if !strings.Contains(texts["TestA"], want) || strings.Contains(texts["TestB"], want) {
			t.Errorf("%q is not in the first test of %q alone", want, texts)
		}
	}
}

// TestMutantsOfThisRepository checks that mutants are described by the changed source text.
func TestMutantsOfThisRepository(t *testing.T) {
	if testing.Short() {
		t.Skip("type-checks packages")
	}
	t.Chdir("../..")
	s, err := load("./optim")
	if err != nil {
		t.Fatal(err)
	}
	var texts []string
	for _, m := range s.mutants() {
		texts = append(texts, m.Function+": "+m.Mutant)
	}
	for _, want := range []string{
		"AdamW.Begin: 1 - math.Pow(o.Beta1, float64(o.step)) → 1 + math.Pow(o.Beta1, float64(o.step))",
		"AdamW.Scale: norm > o.Clip → norm >= o.Clip",
		"AdamW.Begin: o.step++ → nothing",
	} {
		if !slices.Contains(texts, want) {
			t.Errorf("%q is not among %d mutants", want, len(texts))
		}
	}
}
