package hippo_test

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo"
	"github.com/hippo-ssm/hippo/generate"
)

// TestManySamples checks samples that do not fit into one batch: batches follow one another, each sample is the same as
// alone, and Stats count them all.
func TestManySamples(t *testing.T) {
	m := load(t)
	o := hippo.DefaultOptions()
	o.Temperature, o.Seed, o.MaxTokens = 1.5, 3, 8
	const n = 64 + 5
	got, open, most := make([]string, n), 0, 0
	s := m.NewSession()
	err := s.Samples(t.Context(), "the whale", n, o, func(p generate.Piece) error {
		if got[p.Sample] == "" {
			open++
			most = max(most, open)
		}
		got[p.Sample] += string(p.Text)
		if p.End != "" {
			open--
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range []int{0, 63, 64, n - 1} {
		one := o
		one.Seed += uint64(i)
		if want := write(t, m.NewSession(), "the whale", one); got[i] != want {
			t.Errorf("sample %d: got %q, want %q", i, got[i], want)
		}
	}
	if most != 64 {
		t.Errorf("%d samples were drawn side by side, want 64 of %d", most, n)
	}
	if st := s.Stats(); st.PrefillTokens != 9 || st.DecodeTokens != n*7 {
		t.Errorf("stats: %+v, want 9 tokens read and %d drawn after the first ones", st, n*7)
	}
	o.MaxTokens = 1 << 60 // too much memory for a batch: the samples are drawn one by one
	enough := errors.New("enough")
	if err := s.Samples(t.Context(), "", 1<<60, o, func(p generate.Piece) error {
		if p.Sample > 0 {
			t.Errorf("sample %d is drawn beside the first", p.Sample)
		}
		return enough
	}); !errors.Is(err, enough) {
		t.Error(err)
	}
	for _, n := range []int{0, -1} {
		err := s.Samples(t.Context(), "the", n, o, nil)
		if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("found %d, want at least 1", n)) {
			t.Errorf("%d samples: %v", n, err)
		}
	}
}

// TestAppendStops checks that Append stops when its context is done, and that it reports progress.
func TestAppendStops(t *testing.T) {
	s := load(t).NewSession()
	s.SetChunk(10)
	ctx, cancel := context.WithCancel(t.Context())
	var told []string
	s.SetProgress(func(read, total int) {
		told = append(told, fmt.Sprintf("%d/%d", read, total))
		if read == 20 {
			cancel()
		}
	})
	err := s.Append(ctx, strings.Repeat("the whale ", 10))
	if !errors.Is(err, context.Canceled) || fmt.Sprint(told) != "[10/100 20/100]" || s.Stats().PrefillTokens != 20 {
		t.Errorf("got %v after %v, %d tokens counted; want %v after 20", err, told, s.Stats().PrefillTokens,
			context.Canceled)
	}
}

// TestOptionsAreDocumented checks that the comment of Options lists its fields. The comment is all that go doc shows of
// an alias.
func TestOptionsAreDocumented(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "hippo.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	doc := ""
	for _, decl := range file.Decls {
		d, ok := decl.(*ast.GenDecl)
		if ok && d.Tok == token.TYPE && d.Specs[0].(*ast.TypeSpec).Name.Name == "Options" {
			doc = d.Doc.Text()
		}
	}
	listed := map[string]string{}
	for _, line := range regexp.MustCompile(`(?m)^\t(\w+) +(\S+) +// .+$`).FindAllStringSubmatch(doc, -1) {
		listed[line[1]] = line[2]
	}
	there := map[string]string{}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[hippo.Options]()) {
		if !f.Anonymous {
			there[f.Name] = f.Type.String()
		}
	}
	if !reflect.DeepEqual(listed, there) {
		t.Errorf("the comment lists %v, there are %v", listed, there)
	}
}

// TestSessionComesBack checks that a session saved in the middle of a text continues as if it had not been saved, with
// its marks, and that Score does not change it.
func TestSessionComesBack(t *testing.T) {
	m := load(t)
	s := m.NewSession()
	s.SetMarks(1 << 20)
	if err := s.Append(t.Context(), "the whale swims in the sea. "); err != nil {
		t.Fatal(err)
	}
	s.Mark("sea")
	o := hippo.DefaultOptions()
	o.Temperature, o.Seed, o.MaxTokens = 1.5, 4, 30
	for _, err := range s.Generate(t.Context(), "the ", o) {
		if err != nil {
			t.Fatal(err)
		}
		break
	}
	path := filepath.Join(t.TempDir(), "whale")
	if err := s.Save(path, hippo.SaveOptions{}); err != nil {
		t.Fatal(err)
	}
	again, err := m.LoadSession(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	var texts []string
	for _, s := range []*hippo.Session{s, again} {
		for _, err := range s.Continue(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
		}
		text := s.Text()
		scores, err := s.Score(t.Context(), "the whale", "sailor")
		if err != nil {
			t.Fatal(err)
		}
		read, err := s.RewindTo(t.Context(), "sea")
		if err != nil || s.Position() != 28 {
			t.Fatalf("rewound to %d, %d read again: %v", s.Position(), read, err)
		}
		texts = append(texts, fmt.Sprint(text, scores, write(t, s, "the", o)))
	}
	if texts[0] != texts[1] {
		t.Errorf("the session goes on with\n%s\nwhat was loaded with\n%s", texts[0], texts[1])
	}
}
