package experiment

import (
	"slices"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/task"
)

// TestRecipesAreOfTasks checks that every recipe belongs to an existing task.
func TestRecipesAreOfTasks(t *testing.T) {
	if len(recipes) != len(task.All()) {
		t.Errorf("found the recipes of %d tasks, want those of %d", len(recipes), len(task.All()))
	}
}

// TestRecipes reads the settings of every recipe of every task, and makes its model for some data.
func TestRecipes(t *testing.T) {
	for _, x := range task.All() {
		if x.About == "" || x.Source == "" || len(Recipes(x)) == 0 {
			t.Errorf("%s: found no About, Source or Recipes", x.Name)
		}
		for _, r := range Recipes(x) {
			s, err := Find(x.Name, r.Name)
			if err != nil {
				t.Error(err)
				continue
			}
			if err := s.Config.Validate(); err != nil {
				t.Errorf("%s %s: %v", x.Name, r.Name, err)
			}
			if (r.Published != 0) != (r.Where != "") {
				t.Errorf("%s %s: published %g, where %q: want both or none", x.Name, r.Name, r.Published, r.Where)
			}
			set := &task.Set{Vocab: 9, Outputs: 9, Everywhere: s.Config.Pool == "mean", MaxLength: 64}
			if _, err := model.NewNetwork(s.Config.Network(set)); err != nil {
				t.Errorf("%s %s: %v", x.Name, r.Name, err)
			}
		}
	}
}

func TestFindErrors(t *testing.T) {
	for _, test := range [][3]string{
		{"inductions", "", `found "inductions", want one of induction,`},
		{"induction", "h4", `found the model "h4", want one of h3,`},
		{"induction(lenght=3)", "", "did you mean length?"},
		{"induction(length=0)", "", "length"},
		{"induction(length=3", "", "want NAME(OPTION=VALUE,...)"},
	} {
		if _, err := Find(test[0], test[1]); err == nil || !strings.Contains(err.Error(), test[2]) {
			t.Errorf("%s %s: error %v, want %q", test[0], test[1], err, test[2])
		}
	}
}

// TestFindOptions checks that an option in the entry overrides that of the recipe, and that the resulting entry lists
// the options that are not at their defaults.
func TestFindOptions(t *testing.T) {
	for entry, want := range map[string]string{
		"induction": "induction(loss=answer)", "induction(loss=all)": "induction",
		"induction(length=30, vocab=8)": "induction(vocab=8,loss=answer)",
	} {
		s, err := Find(entry, "h3")
		if err != nil {
			t.Fatal(err)
		}
		if s.Config.Task != want {
			t.Errorf("%s: entry %s, want %s", entry, s.Config.Task, want)
		}
	}
}

// TestTestExamples checks that a run returns test examples of its task, and names their range in errors.
func TestTestExamples(t *testing.T) {
	s, err := Find("induction(length=12)", "")
	if err != nil {
		t.Fatal(err)
	}
	set, err := s.Config.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	r, n := &Result{Config: s.Config}, set.Test.Len()
	for _, i := range []int{0, n - 1} {
		var want task.Example
		set.Test.Example(i, &want)
		if got, err := r.TestExample(t.Context(), i); err != nil || !slices.Equal(got.Tokens, want.Tokens) {
			t.Errorf("example %d: found %v (%v), want %v", i, got, err, want.Tokens)
		}
	}
	for _, i := range []int{-1, n} {
		if _, err := r.TestExample(t.Context(), i); err == nil || !strings.Contains(err.Error(), "want 0 to") {
			t.Errorf("example %d: error %v, want the numbers that there are", i, err)
		}
	}
}
