// Package evidence keeps pages consistent with the results of runs and measurements. docs/evidence/recipes.yaml lists
// the commands that compute the rows of their tables, docs/evidence/results.jsonl stores the results, and the tables on
// the pages are written from both.
package evidence

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"

	"github.com/hippo-ssm/hippo/internal/brief"
	"github.com/hippo-ssm/hippo/internal/disk"
)

// Recipe describes how rows of a table are computed.
type Recipe struct {
	Name     string   `yaml:"name"`     // the folder below runs/evidence, or what the file contains
	Commands []string `yaml:"commands"` // as shown on pages; they read data from runs/data
	// One is a command that computes a single row: for $task, $model and $seed it writes the folder $out.
	One    string   `yaml:"one"`
	Seeds  int      `yaml:"seeds"`   // number of seeds that the commands run, 0 if they draw no random numbers
	Data   string   `yaml:"data"`    // the folder below runs/data that the commands read
	File   string   `yaml:"file"`    // JSON lines that the commands write instead of a folder; path from the root
	ByName bool     `yaml:"by_name"` // run only when named, because it needs another program or a long time
	Code   []string `yaml:"code"`    // packages that the rows depend on, besides those of all recipes
	Beside []Beside `yaml:"beside"`  // results to show beside the rows
}

// Beside is a published result, or that of a simple method, to show beside a row.
type Beside struct {
	Task  string  `yaml:"task"`
	Model string  `yaml:"model"` // "" for every model
	Who   string  `yaml:"who"`
	Score float64 `yaml:"score"`
	From  string  `yaml:"from"` // paper, table and settings, or how it was computed
}

// Book holds the pages of a tree, their recipes and their results.
type Book struct {
	root    string
	code    []string // packages that all recipes depend on
	recipes []Recipe
	results []result
	drawing bool // whether to draw pictures
}

// The files of recipes and results, relative to the root.
const (
	recipesFile = "docs/evidence/recipes.yaml"
	resultsFile = "docs/evidence/results.jsonl"
)

// Open reads the recipes and results of the tree at root.
func Open(root string) (*Book, error) {
	path := filepath.Join(root, recipesFile)
	text, err := disk.ReadText(path, disk.MaxText)
	if err != nil {
		return nil, err
	}
	var file struct {
		Code    []string `yaml:"code"`
		Recipes []Recipe `yaml:"recipes"`
	}
	if err := yaml.UnmarshalWithOptions(text, &file, yaml.Strict()); err != nil {
		return nil, brief.Error(fmt.Errorf("%s: %s", path, strings.TrimSpace(yaml.FormatError(err, false, false))))
	}
	b := &Book{root: root, code: file.Code, recipes: file.Recipes}
	named := map[string]bool{}
	for i := range b.recipes {
		r := &b.recipes[i]
		if err := r.check(); err != nil {
			return nil, fmt.Errorf("%s: recipe %d (%q): %w", path, i+1, r.Name, err)
		}
		if named[r.Name] {
			return nil, fmt.Errorf("%s: found two recipes %q, want one", path, r.Name)
		}
		named[r.Name] = true
	}
	b.results, err = readResults(filepath.Join(root, resultsFile))
	return b, err
}

// check returns an error if a recipe is invalid.
func (r *Recipe) check() error {
	switch {
	case r.Name == "" || strings.ContainsAny(r.Name, " \t\n/"):
		return fmt.Errorf("found the name %q, want one word", r.Name)
	case len(r.Commands) == 0 || slices.Contains(r.Commands, ""):
		return fmt.Errorf("found the commands %q, want at least one", r.Commands)
	case !r.ByName && slices.ContainsFunc(r.Commands, func(c string) bool { return len(calls(c)) == 0 }):
		return fmt.Errorf("found the commands %q, want a call of hippo in each, or by_name: true", r.Commands)
	case r.Seeds < 0:
		return fmt.Errorf("found %d seeds, want 0 or more", r.Seeds)
	case r.File == "" && !strings.Contains(strings.Join(r.Commands, "\n"), "runs/evidence/"+r.Name) && r.Seeds > 0:
		return fmt.Errorf("found no command that writes runs/evidence/%s, want one", r.Name)
	}
	for _, b := range r.Beside {
		if b.Task == "" || b.Who == "" || b.From == "" {
			return fmt.Errorf("beside: found the task %q, who %q, from %q, want all three", b.Task, b.Who, b.From)
		}
	}
	return nil
}

// recipe returns the recipe with the given name, or nil if there is none.
func (b *Book) recipe(name string) *Recipe {
	if i := slices.IndexFunc(b.recipes, func(r Recipe) bool { return r.Name == name }); i >= 0 {
		return &b.recipes[i]
	}
	return nil
}

// known returns an error if a name has no recipe.
func (b *Book) known(names []string) error {
	for _, name := range names {
		if b.recipe(name) == nil {
			return fmt.Errorf("found the name %q, want that of a recipe of %s", name, recipesFile)
		}
	}
	return nil
}

// of returns the results of a recipe.
func (b *Book) of(name string) []result {
	return slices.DeleteFunc(slices.Clone(b.results), func(r result) bool { return r.Command != name })
}

// kept reports whether a result of a recipe is kept.
func (b *Book) kept(r *Recipe) bool {
	if r.File != "" {
		return disk.Exists(filepath.Join(b.root, r.File))
	}
	return len(b.of(r.Name)) > 0
}

// Take stores the results below a folder of runs, which has a subfolder for each recipe. It returns a line for each
// result that lacks its commit, date or machine.
func (b *Book) Take(runs string) (left []string, err error) {
	found, left, err := collect(runs)
	if err != nil {
		return nil, err
	}
	b.results = merge(b.results, found)
	return left, writeResults(filepath.Join(b.root, resultsFile), b.results)
}

// Fill updates the generated parts of all pages, and returns the pages that changed. If write is false, it writes
// nothing.
func (b *Book) Fill(write bool) (changed []string, err error) {
	b.drawing = write
	pages, err := b.pages()
	if err != nil {
		return nil, err
	}
	for _, page := range pages {
		path := filepath.Join(b.root, page)
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		filled, err := b.fillPage(string(text), page)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", page, err)
		}
		if filled == string(text) {
			continue
		}
		changed = append(changed, page)
		if write {
			if err := disk.WriteBytes(path, []byte(filled)); err != nil {
				return nil, err
			}
		}
	}
	return changed, nil
}

// pages returns the paths of all pages of the tree, relative to its root.
func (b *Book) pages() (all []string, err error) {
	for _, pattern := range []string{"*.md", "bench/*.md", "docs/*.md", "docs/*/*.md"} {
		found, err := filepath.Glob(filepath.Join(b.root, pattern))
		if err != nil {
			return nil, err
		}
		for _, path := range found {
			name, err := filepath.Rel(b.root, path)
			if err != nil {
				return nil, err
			}
			all = append(all, filepath.ToSlash(name))
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s: found no pages, want the root of hippo's repository", b.root)
	}
	return all, nil
}
