package experiment

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestPublishedForPublishedSettingsOnly checks that a published result is shown for a run of the unchanged recipe, with
// any seed and in any folder, and for no other run. Results published for certain options of a task stay with these.
func TestPublishedForPublishedSettingsOnly(t *testing.T) {
	for name, c := range map[string]struct {
		entry, recipe string
		change        func(*Config)
		kept          bool
		changed       string
	}{
		"as it is": {"recall", "h3", func(*Config) {}, true, ""},
		"the same": {"recall(length=20)", "h3", func(*Config) {}, true, ""},
		"elsewhere": {"recall", "h3", func(c *Config) {
			c.Out, c.Seed, c.EvalEvery, c.Shards = "x", 7, 2,
				4
		}, true, ""},
		"harder":        {"recall(length=40)", "h3", func(*Config) {}, false, "length: 20 -> 40"},
		"another model": {"recall", "h3", func(c *Config) { c.Model.DModel = 8 }, false, "model.d_model: 32 -> 8"},
		"shorter":       {"recall", "attention", func(c *Config) { c.Epochs = 1 }, false, "epochs: "},
		"of a task":     {"etth1(horizon=168)", "s4", func(*Config) {}, true, ""},
		"not of it":     {"etth1(horizon=168)", "s4", func(c *Config) { c.Optim.LR = 1 }, false, "optim.lr: "},
	} {
		s, err := Find(c.entry, c.recipe)
		if err != nil {
			t.Fatal(err)
		}
		c.change(&s.Config)
		r := &Result{
			Task: s.Config.Task, Recipe: c.recipe, Published: 12, Where: "a paper", Config: s.Config,
			Extra: []ExtraScore{{Name: "longer", Published: 34}},
		}
		dir := t.TempDir()
		if err := r.write(dir); err != nil { // as an earlier version did
			t.Fatal(err)
		}
		if r, err = ReadResult(dir); err != nil {
			t.Fatal(err)
		}
		if kept := r.Published == 12 && r.Where != "" && r.Extra[0].Published == 34; kept != c.kept {
			t.Errorf("%s: found the published results %g (%s) and %g, kept should be %v", name, r.Published, r.Where,
				r.Extra[0].Published, c.kept)
		}
		if gone := r.Published == 0 && r.Where == "" && r.Extra[0].Published == 0; gone == c.kept {
			t.Errorf("%s: found the published results %g (%s) and %g, gone should be %v", name, r.Published, r.Where,
				r.Extra[0].Published, !c.kept)
		}
		got := strings.Join(r.Changed, ", ")
		if !strings.HasPrefix(got, c.changed) || (got == "") != (c.changed == "") {
			t.Errorf("%s: found the changes %q, want %q", name, got, c.changed)
		}
	}
}

// TestFolder checks that the folder of a run needs no quotes in a shell and is valid on every system, and that a folder
// of an earlier version is found.
func TestFolder(t *testing.T) {
	for entry, want := range map[string]string{
		"digits":                        "digits",
		"digits(copies=16)":             "digits-copies=16",
		"induction(length=8,vocab=5)":   "induction-length=8,vocab=5",
		"x(file=a b/c*d,say='it',v=-1)": "x-file=a%20b%2Fc%2Ad,say=%27it%27,v=-1",
		"x(o=a(b))":                     "x-o=a%28b%29",
	} {
		if got := plainName(entry); got != want {
			t.Errorf("%s: found the folder %s, want %s", entry, got, want)
		}
	}
	s, err := Find("digits(copies=16)", "")
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	fresh, old := filepath.Join(root, "digits-copies=16", s.Config.Recipe+"-seed1"),
		filepath.Join(root, "digits(copies=16)", s.Config.Recipe+"-seed1")
	if got := s.Folder(root); got != fresh {
		t.Errorf("found the folder %s, want %s", got, fresh)
	}
	if err := os.MkdirAll(old, 0o777); err != nil {
		t.Fatal(err)
	}
	if got := s.Folder(root); got != old {
		t.Errorf("found the folder %s where an earlier version had made %s", got, old)
	}
	if err := os.MkdirAll(fresh, 0o777); err != nil {
		t.Fatal(err)
	}
	if got := s.Folder(root); got != fresh {
		t.Errorf("found the folder %s, want %s where both are", got, fresh)
	}
}
