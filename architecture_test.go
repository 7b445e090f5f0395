// Package hippo_test tests package hippo. It also checks the rules of the code: imports go downwards only, only the
// lowest packages access the memory of tensors, libraries neither print nor exit, and files stay short. This file lists
// all that a rule allows, so each exception is a change that gets reviewed.
package hippo_test

import (
	"cmp"
	"go/ast"
	"go/token"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/hippo-ssm/hippo"

// layer is a package and the packages that it may import in addition to the standard library, separated by spaces.
type layer struct {
	dir     string // from the root; "." is the root itself
	ours    string // packages of this module, all from earlier rows of the table
	modules string // other modules
}

// house lists every package, lowest first. A new package needs a row, and a new import needs a word in the row of its
// package. Tests may import any package.
var house = []layer{
	// Tools that do not depend on models.
	{"internal/parallel", "", ""},
	{"internal/hugepage", "", "golang.org/x/sys"},
	{"internal/counter", "", ""},
	// The package that detects the processor's features.
	{"internal/kernel", "internal/counter internal/parallel internal/hugepage", "golang.org/x/sys"},
	{"ssm", "", "gonum.org/v1/gonum"},
	{"internal/brief", "", ""},
	{"internal/fault", "", ""},
	{"internal/testkit/disktest", "", ""}, // for tests only, so no row below names it
	{"internal/testkit/hubtest", "", ""},  // likewise
	{"internal/disk", "internal/brief", "golang.org/x/sys github.com/gofrs/flock"},
	{"internal/config", "internal/brief internal/disk", "github.com/goccy/go-yaml github.com/spf13/pflag"},
	{"internal/events", "internal/disk", ""},
	{"internal/status", "", "golang.org/x/term"},
	{"internal/licenses", "", ""},
	{"internal/origin", "", ""},
	{"internal/wav", "", ""},
	{"data", "internal/disk internal/status",
		"github.com/klauspost/compress github.com/bmatcuk/doublestar golang.org/x/sys"},
	{"tokenizer/token", "internal/disk", ""},
	{"tokenizer/regex", "internal/fault", ""},
	{"tokenizer/added", "tokenizer/token tokenizer/regex", ""},
	{"tokenizer/normalize", "tokenizer/regex", "golang.org/x/text"},
	{"tokenizer/pretokenize", "tokenizer/regex", ""},
	{"tokenizer/chars", "tokenizer/token tokenizer/added", ""},
	{"tokenizer/bpe", "tokenizer/token tokenizer/added tokenizer/pretokenize tokenizer/regex", ""},
	{"tokenizer/words", "tokenizer/bpe", ""},
	{"tokenizer/pipeline", "tokenizer/token tokenizer/added tokenizer/normalize tokenizer/pretokenize tokenizer/bpe " +
		"tokenizer/words", ""},
	{"tokenizer/hf", "tokenizer/token tokenizer/regex tokenizer/added tokenizer/normalize tokenizer/pretokenize " +
		"tokenizer/bpe tokenizer/words tokenizer/pipeline internal/fault", "golang.org/x/text"},
	{"tokenizer/sentencepiece", "tokenizer/token tokenizer/added tokenizer/normalize tokenizer/bpe tokenizer/words " +
		"tokenizer/pipeline", ""},
	{"tokenizer/trie", "tokenizer/token tokenizer/added tokenizer/bpe", ""},
	{"tokenizer/gguf", "tokenizer/token tokenizer/regex tokenizer/added tokenizer/normalize tokenizer/pretokenize " +
		"tokenizer/chars tokenizer/bpe tokenizer/pipeline tokenizer/hf tokenizer/sentencepiece tokenizer/trie",
		"golang.org/x/text"},
	{"tokenizer", "tokenizer/token tokenizer/added tokenizer/chars tokenizer/bpe tokenizer/hf " +
		"tokenizer/sentencepiece tokenizer/trie internal/brief internal/disk", ""},
	{"internal/testkit/toytext", "", ""}, // for tests only, so no row below names it
	{"chat/template", "internal/brief internal/disk internal/fault", ""},
	{"checkpoint", "internal/brief internal/disk internal/fault internal/parallel", "golang.org/x/sys"},
	{"internal/testkit/golden", "checkpoint", ""},            // likewise for tests
	{"internal/testkit/fixedseed", "", "pgregory.net/rapid"}, // likewise

	// The engine.
	{"tensor", "internal/hugepage", ""},
	{"engine", "tensor internal/counter", ""},
	{"engine/cpu", "engine tensor internal/counter internal/kernel internal/parallel", ""},
	{"engine/reference", "engine tensor internal/counter", ""},
	{"engine/compose", "engine tensor internal/counter", ""},
	// Built only with the tag gpu, like engine/gpu.
	{"internal/vulkan", "", "github.com/ebitengine/purego golang.org/x/sys"},
	{"internal/gpukernel", "", ""},
	{"engine/gpu", "engine engine/compose internal/vulkan internal/gpukernel tensor", ""},
	{"internal/testkit/smallengine", "engine engine/compose tensor internal/counter", ""}, // likewise for tests
	// The only package that imports the CPU's engine.
	{"engine/native", "engine engine/cpu", ""},
	{"optim", "engine tensor", ""},
	{"autograd", "engine tensor", ""},

	// Models.
	{"nn", "engine autograd tensor ssm", ""},
	{"mixer", "engine nn autograd tensor ssm internal/config", ""},
	{"model", "engine engine/native mixer nn autograd tensor checkpoint internal/brief internal/config " +
		"internal/disk internal/parallel", ""},
	{"onnx", "model engine engine/compose tensor internal/counter", "google.golang.org/protobuf"},
	{"internal/testkit/onnxtest", "", "google.golang.org/protobuf"}, // for tests
	{"release", "mixer model engine tokenizer chat/template checkpoint internal/brief internal/config internal/disk " +
		"tokenizer/gguf", ""},
	{"release/hub", "checkpoint internal/brief internal/disk", ""},

	// Uses of models.
	{"generate/sample", "internal/kernel", ""},
	{"generate/constrain", "tokenizer internal/fault", ""},
	{"generate", "model autograd tensor tokenizer generate/sample generate/constrain internal/parallel", ""},
	{"chat", "generate release model tokenizer chat/template internal/brief internal/disk", ""},
	{"chat/terminal", "chat generate internal/brief internal/config internal/status", "golang.org/x/term"},
	{"session", "generate generate/sample model tokenizer checkpoint internal/brief internal/disk " +
		"internal/parallel", ""},
	{"session/receipt", "session generate generate/sample model tokenizer", ""},
	{"session/store", "session generate generate/sample model internal/disk", ""},
	{"verify", "model mixer nn autograd engine/native engine/reference engine tensor", ""},
	{"quantize", "checkpoint engine autograd tensor nn mixer model internal/parallel", ""},
	{"task", "data tokenizer internal/wav", "gonum.org/v1/gonum"},
	{"table", "internal/brief internal/disk internal/wav", "gonum.org/v1/gonum golang.org/x/text " +
		"github.com/parquet-go/parquet-go " +
		"github.com/klauspost/compress github.com/andybalholm/brotli github.com/pierrec/lz4"},
	{"cluster", "internal/disk", "github.com/ebitengine/purego"}, // purego only with the tag mpi
	{"train", "cluster engine model nn optim autograd tensor checkpoint data internal/brief internal/config " +
		"internal/disk " +
		"internal/events internal/status", ""},
	{"train/text", "cluster train engine chat chat/template generate generate/sample release model nn autograd " +
		"tensor checkpoint tokenizer data quantize internal/brief internal/config internal/disk internal/status " +
		"engine/native", ""},
	{"train/labelled", "train engine task model nn autograd tensor checkpoint internal/config internal/status", ""},
	{"watch", "session generate generate/sample model tokenizer checkpoint internal/brief internal/disk train/text",
		"github.com/prometheus/client_golang"},
	{"compare", "train model data internal/config internal/disk internal/status train/text", "gonum.org/v1/gonum"},
	// The next two are for tests only, so no row below names them.
	{"internal/testkit/toytask", "task", ""},
	{"internal/testkit/toymodel", "model nn autograd engine optim tensor", ""},
	{"web", "", ""},
	{"explain/figure", "web internal/disk internal/parallel", "gonum.org/v1/plot golang.org/x/image"},
	{"explain/action", "autograd engine mixer tensor internal/kernel internal/parallel", ""},
	{"explain/theory", "explain/figure ssm", "gonum.org/v1/gonum"},
	{"explain/course", "explain/theory ssm", "gonum.org/v1/gonum"},
	{"internal/testkit/toyfigure", "explain/figure", ""}, // for tests
	{"explain", "explain/figure generate/sample model mixer nn autograd engine tensor tokenizer internal/kernel " +
		"internal/parallel", ""},
	{"explain/heads", "explain model mixer autograd tensor", ""},
	{"explain/influence", "explain explain/action explain/figure model autograd engine tensor internal/parallel", ""},
	{"explain/memory", "explain explain/figure model mixer autograd engine tensor internal/kernel internal/parallel",
		"gonum.org/v1/gonum"},
	{"explain/lens", "explain explain/figure model tokenizer internal/parallel", ""},
	{"explain/paths", "explain explain/figure model mixer tokenizer", ""},
	{"explain/anatomy", "explain explain/figure explain/memory model mixer nn autograd tensor ssm", ""},
	{"explain/surprise", "explain explain/figure data model autograd tokenizer internal/parallel", ""},
	{"explain/changes", "explain explain/figure model mixer nn autograd tokenizer", ""},
	{"experiment", "explain/figure generate/sample train task model internal/config internal/disk internal/status " +
		"internal/wav train/labelled",
		"gonum.org/v1/gonum"},
	{"sweep", "train explain/figure internal/disk", ""},
	{"fit/smooth", "", "gonum.org/v1/gonum"},
	{"fit/classic", "", "gonum.org/v1/gonum"},
	{"internal/testkit/sequences", "", ""}, // for tests and tools/trials
	{"internal/testkit/series", "", ""},    // for tests and tools/trials
	{"internal/testkit/logs", "", ""},      // for tests and tools/faults
	{"fit", "onnx fit/classic fit/smooth explain/anatomy explain/figure table train task model " +
		"internal/brief internal/config internal/disk internal/status train/labelled", "gonum.org/v1/gonum"},
	{"evidence", "compare experiment fit train explain/figure internal/brief internal/disk",
		"github.com/goccy/go-yaml gonum.org/v1/gonum"},
	{"inspect", "experiment fit model release release/hub tokenizer chat/template checkpoint internal/brief " +
		"internal/disk internal/status train/text tokenizer/sentencepiece", ""},
	{"internal/testkit/buckettest", "session/store", ""}, // for tests
	{"serve/fleet", "session/store", ""},
	{"serve/records", "serve/fleet session internal/disk", ""},
	{"serve/batch", "serve/records serve/fleet session/store internal/disk", ""},
	{"serve/request", "serve/batch serve/fleet session internal/brief internal/disk", ""},
	{"serve/host", "serve/request session session/store chat chat/template generate generate/constrain " +
		"generate/sample model engine tokenizer internal/brief", ""},
	{"serve/reply", "serve/host serve/request session session/receipt chat chat/template generate " +
		"generate/constrain tokenizer", ""},
	{"serve/openai", "serve/reply serve/host serve/records serve/request serve/batch session generate tokenizer", ""},
	{"serve/anthropic", "serve/reply serve/host serve/request serve/batch chat generate", ""},
	{"serve/ollama", "serve/reply serve/host serve/request session chat generate internal/brief", ""},
	{"serve/sessions", "serve/reply serve/host serve/records serve/request explain/figure session generate " +
		"generate/sample model tokenizer internal/disk", ""},
	{"serve/rows", "serve/request", ""},
	{"serve/views", "serve/sessions explain explain/figure explain/influence explain/lens explain/memory " +
		"explain/paths explain/surprise data", ""},
	{"serve", "serve/openai serve/anthropic serve/ollama serve/sessions serve/rows serve/reply serve/host " +
		"serve/records serve/request serve/batch serve/fleet session session/store internal/origin",
		"github.com/prometheus/client_golang"},
	{"internal/testkit/servetest", "serve serve/openai serve/sessions serve/rows serve/host serve/batch " +
		"explain/figure fit session session/store chat chat/template generate generate/sample model nn tokenizer " +
		"tokenizer/bpe tokenizer/gguf internal/testkit/toymodel", ""}, // for tests
	{"dashboard", "web internal/disk internal/origin",
		"github.com/goccy/go-yaml github.com/yuin/goldmark"},
	{"bench", "serve serve/host serve/sessions explain/figure data chat session session/store generate " +
		"generate/sample release model mixer nn optim autograd engine engine/native tensor tokenizer chat/template " +
		"checkpoint internal/kernel internal/parallel internal/config internal/disk internal/status train " +
		"train/text cluster", ""},

	// The entry points: the root package, servers, converters and commands.
	{".", "engine engine/native train task chat session generate generate/sample release model checkpoint tokenizer " +
		"data internal/config fit train/text", ""},
	{"serve/library", ". serve/host serve/request serve/rows session session/store fit chat release release/hub " +
		"model engine checkpoint internal/brief internal/status", ""},
	{"convert", ". fit inspect quantize train/text data chat chat/template release model checkpoint tokenizer " +
		"tokenizer/gguf tokenizer/trie internal/brief internal/config internal/disk internal/status", ""},
	{"tools/ggufs", "checkpoint release internal/disk", ""},
	{"tools/soak", "", ""},
	{"tools/trials", "fit internal/testkit/sequences internal/testkit/series", ""},
	{"tools/faults", ". watch train model tokenizer internal/testkit/logs internal/disk internal/status", ""},
	{"tools/mutate", "", "github.com/spf13/pflag"},
	{"cmd/hippo", ". engine engine/gpu chat/terminal convert inspect bench verify serve serve/batch serve/host " +
		"serve/library serve/ollama serve/reply serve/sessions web cluster " +
		"dashboard compare experiment explain explain/figure train task chat session session/receipt session/store " +
		"generate " +
		"generate/constrain generate/sample release release/hub model checkpoint tokenizer chat/template data " +
		"internal/brief internal/config internal/disk internal/status internal/licenses explain/theory " +
		"explain/course explain/anatomy explain/changes explain/heads explain/influence explain/lens explain/memory " +
		"explain/paths explain/surprise fit serve/views table train/text train/labelled sweep tokenizer/bpe watch " +
		"evidence",
		"github.com/spf13/cobra github.com/spf13/pflag golang.org/x/term golang.org/x/sys"},
}

// firstBlind is the first package of house that may not access the memory of a tensor. Neither may the packages after
// it.
const firstBlind = "optim"

// ofOneEngine maps a package of one engine to the packages that may import it. All others work with any engine. Kernels
// may also compute on numbers copied to the host.
var ofOneEngine = map[string]string{
	"engine/cpu":       "engine/native",
	"engine/gpu":       "cmd/hippo",
	"engine/native":    "model train/text bench verify .",
	"engine/reference": "verify",
	"internal/kernel":  "engine/cpu generate/sample explain explain/action explain/memory bench",
}

// maxLines is the maximum number of lines of a file written by hand.
const maxLines = 500

// maxColumns is the maximum length of a line of Go written by hand. A tab counts as tabColumns.
const (
	maxColumns = 120
	tabColumns = 4
)

// libraries returns the files that a build uses, without tests.
func libraries(t *testing.T) (*token.FileSet, []source) {
	fset, all := sources(t)
	return fset, slices.DeleteFunc(all, func(s source) bool { return s.test || s.tagged })
}

// floor returns the index of a package in house, or -1.
func floor(dir string) int {
	return slices.IndexFunc(house, func(l layer) bool { return l.dir == dir })
}

// TestImportsGoDown checks that house allows every import of every package, and only imports of earlier rows.
func TestImportsGoDown(t *testing.T) {
	for i, l := range house {
		for _, dir := range strings.Fields(l.ours) {
			if f := floor(dir); f < 0 || f >= i {
				t.Errorf("table house: %s may import %s, which does not stand before it", l.dir, dir)
			}
		}
	}
	fset, files := libraries(t)
	for _, s := range files {
		f := floor(s.dir)
		if f < 0 {
			t.Errorf("%s: package %s is not in the table house of architecture_test.go: give it a row", s.path, s.dir)
			continue
		}
		l := house[f]
		for _, spec := range s.syntax.Imports {
			if !l.mayImport(importPath(spec)) {
				t.Errorf("%s imports %s: besides the standard library %s may import, of this module: %s; of others: %s",
					s.position(fset, spec), importPath(spec), l.dir,
					cmp.Or(l.ours, "nothing"), cmp.Or(l.modules, "nothing"))
			}
		}
	}
}

func importPath(spec *ast.ImportSpec) string {
	p, err := strconv.Unquote(spec.Path.Value)
	if err != nil {
		panic(err) // impossible: the parser has accepted the path
	}
	return p
}

// mayImport reports whether the table allows an import. No row lists "C": there is no cgo here.
func (l layer) mayImport(p string) bool {
	if p == module {
		return slices.Contains(strings.Fields(l.ours), ".")
	}
	if dir, ok := strings.CutPrefix(p, module+"/"); ok {
		return slices.Contains(strings.Fields(l.ours), dir)
	}
	first, _, _ := strings.Cut(p, "/")
	if !strings.Contains(first, ".") { // the standard library: its paths do not begin with a domain
		return p != "C"
	}
	return slices.ContainsFunc(strings.Fields(l.modules), func(m string) bool {
		return p == m || strings.HasPrefix(p, m+"/")
	})
}

// TestEnginesAreNeutral checks that house lets only the packages in ofOneEngine import a package of one engine.
func TestEnginesAreNeutral(t *testing.T) {
	for _, l := range house {
		for _, p := range strings.Fields(l.ours) {
			if may, ours := ofOneEngine[p]; ours && !slices.Contains(strings.Fields(may), l.dir) {
				t.Errorf("table house: %s may import %s, which only %s may: take the model's Backend", l.dir, p, may)
			}
		}
	}
}

// TestPackageComments checks that every package has a package comment.
func TestPackageComments(t *testing.T) {
	_, files := libraries(t)
	said := map[string]bool{}
	for _, s := range files {
		start := "Package " + s.syntax.Name.Name + " "
		if s.syntax.Name.Name == "main" {
			start = "" // the comment of a command may begin with any words
		}
		said[s.dir] = said[s.dir] || s.syntax.Doc != nil && strings.HasPrefix(s.syntax.Doc.Text(), start)
	}
	for dir, ok := range said {
		if !ok {
			t.Errorf("%s has no package comment: say what it is, and which paper or format it follows", dir)
		}
	}
}

// TestTensorsAreOpaque checks that no package above the engine accesses a tensor's memory. Operations do the
// arithmetic, and CopyFrom and CopyTo move data in and out, so that another device can be added under package autograd.
func TestTensorsAreOpaque(t *testing.T) {
	fset, files := libraries(t)
	for _, s := range files {
		if floor(s.dir) < floor(firstBlind) {
			continue
		}
		ast.Inspect(s.syntax, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || len(call.Args) > 0 {
				return true
			}
			sel, ok := call.Fun.(*ast.SelectorExpr)
			if ok && (sel.Sel.Name == "Data" || sel.Sel.Name == "Grad") {
				t.Errorf("%s calls %s(): package %s may not look inside a tensor; use an operation of autograd, or "+
					"CopyTo", s.position(fset, sel), sel.Sel.Name, s.dir)
			}
			return true
		})
	}
}

// TestLibrariesAreSilent checks that only commands print, log or exit.
func TestLibrariesAreSilent(t *testing.T) {
	fset, files := libraries(t)
	for _, s := range files {
		if strings.HasPrefix(s.dir, "cmd/") || strings.HasPrefix(s.dir, "tools/") {
			continue
		}
		names := map[string]string{} // from the names of imports in this file to their paths
		for _, spec := range s.syntax.Imports {
			p := importPath(spec)
			names[path.Base(p)] = p
			if spec.Name != nil {
				names[spec.Name.Name] = p
			}
		}
		ast.Inspect(s.syntax, func(n ast.Node) bool {
			found := ""
			switch n := n.(type) {
			case *ast.CallExpr:
				if f, ok := n.Fun.(*ast.Ident); ok && (f.Name == "print" || f.Name == "println") {
					found = f.Name
				}
			case *ast.SelectorExpr:
				if x, ok := n.X.(*ast.Ident); ok && isLoud(names[x.Name], n.Sel.Name) {
					found = x.Name + "." + n.Sel.Name
				}
			}
			if found != "" {
				t.Errorf("%s uses %s: libraries return errors and write to writers they are given", s.position(fset, n),
					found)
			}
			return true
		})
	}
}

// isLoud reports whether an identifier of the standard library prints, logs or exits.
func isLoud(pkg, name string) bool {
	switch pkg {
	case "fmt":
		return strings.HasPrefix(name, "Print")
	case "os":
		return name == "Exit" || name == "Stdout" || name == "Stderr"
	}
	return pkg == "log"
}
