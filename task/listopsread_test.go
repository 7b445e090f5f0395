package task

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// writeListOpsFiles writes three splits as files of the archive into dir. It returns the set that was written.
func writeListOpsFiles(t *testing.T, dir string) *Set {
	t.Helper()
	s := open(t, ListOps, func(o *listOpsOptions) {
		o.Train, o.Valid, o.Test, o.MinLength, o.MaxLength = 30, 5, 7, 5, 60
	})
	if err := os.MkdirAll(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	for name, split := range map[string]Split{"train": s.Train, "val": s.Valid, "test": s.Test} {
		var text bytes.Buffer
		if err := writeListOps(&text, split); err != nil {
			t.Fatal(err)
		}
		if name == "test" { // one file is compressed
			var packed bytes.Buffer
			zip := gzip.NewWriter(&packed)
			zip.Write(text.Bytes())
			zip.Close()
			name, text = "test.tsv.gz", packed
		} else {
			name += ".tsv"
		}
		if err := os.WriteFile(filepath.Join(dir, "basic_"+name), text.Bytes(), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func TestListOpsFiles(t *testing.T) {
	for _, folder := range []string{".", "listops-1000", "lra_release/lra_release/listops-1000"} {
		dir := t.TempDir()
		want := writeListOpsFiles(t, filepath.Join(dir, folder))
		got, err := ListOps.Open(t.Context(), dir, &listOpsOptions{Files: true})
		if err != nil {
			t.Fatal(err)
		}
		for i, splits := range [][2]Split{{got.Train, want.Train}, {got.Valid, want.Valid}, {got.Test, want.Test}} {
			if fmt.Sprint(splits[0]) != fmt.Sprint(splits[1]) {
				t.Errorf("%s: split %d is read as %v, want %v", folder, i, splits[0], splits[1])
			}
		}
		if got.MaxLength != want.MaxLength || got.MaxLength >= 60 || got.Vocab != 15 || got.Outputs != 10 {
			t.Errorf("%s: longest %d, want %d", folder, got.MaxLength, want.MaxLength)
		}
	}
}

// TestListOpsFileFormat checks that files have the format of the official script.
func TestListOpsFileFormat(t *testing.T) {
	e := &expressions{}
	for _, source := range []string{"[MAX 2 9 ]", "[MED [SM 8 8 ] 3 ]"} {
		tokens, err := appendTokens(nil, []byte(source))
		if err != nil {
			t.Fatal(err)
		}
		value, err := evaluate(tokens)
		if err != nil {
			t.Fatal(err)
		}
		e.add(tokens, value)
	}
	var got strings.Builder
	if err := writeListOps(&got, e); err != nil {
		t.Fatal(err)
	}
	want := "Source\tTarget\r\n( ( ( [MAX 2 ) 9 ) ] )\t9\r\n( ( ( [MED ( ( ( [SM 8 ) 8 ) ] ) ) 3 ) ] )\t4\r\n"
	if got.String() != want {
		t.Errorf("written %q, want %q", got.String(), want)
	}
}

func TestListOpsFileErrors(t *testing.T) {
	dir := t.TempDir()
	fail := func(ctx context.Context, words ...string) {
		t.Helper()
		_, err := ListOps.Open(ctx, dir, &listOpsOptions{Files: true})
		for _, w := range words {
			if err == nil || !strings.Contains(err.Error(), w) {
				t.Errorf("error %v, want one that says %q", err, w)
			}
		}
	}
	fail(t.Context(), "listops-1000/basic_train.tsv", dir, "github.com/google-research/long-range-arena")
	writeListOpsFiles(t, dir)
	train := filepath.Join(dir, "basic_train.tsv")
	for text, want := range map[string]string{
		"":                                                  "no expression",
		"Source\tTarget\r\n":                                "no expression",
		"Source,Target\n5,5\n":                              `line 1: found "Source,Target"`,
		"Source\tTarget\n5\n":                               "line 2: found 1 columns, want 2",
		"Source\tTarget\n5\t5\t5\n":                         "line 2: found 3 columns, want 2",
		"Source\tTarget\n5\t5\n[MIN 1 \t1":                  "line 3: found the end within [MIN",
		"Source\tTarget\n5\t5\n\n":                          "line 3: found 1 columns",
		"Source\tTarget\n[MAX 1 x ]\t1\n":                   `line 2: column 8: found "x"`,
		"Source\tTarget\n[MAX 1 2 ]\t1\n":                   `line 2: found target "1", want 2`,
		"Source\tTarget\n[MAX 1 2 ]\tNaN\n":                 `line 2: found target "NaN", want 2`,
		"Source\tTarget\n" + strings.Repeat("[MAX ", 1<<18): "line 2: longer than 1048576 bytes",
	} {
		if err := os.WriteFile(train, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		fail(t.Context(), train, want)
	}
	writeListOpsFiles(t, dir)
	stopped, stop := context.WithCancel(t.Context())
	stop()
	fail(stopped, "canceled")
	if _, err := ListOps.Open(stopped, "", ListOps.Options()); err == nil {
		t.Error("expressions are made although the user has stopped it")
	}
	packed := filepath.Join(dir, "basic_test.tsv.gz")
	if err := os.Truncate(packed, 100); err != nil {
		t.Fatal(err)
	}
	fail(t.Context(), packed, "unexpected EOF")
	if err := os.Remove(packed); err != nil {
		t.Fatal(err)
	}
	fail(t.Context(), "basic_test.tsv, basic_test.tsv.gz")
}

// FuzzListOpsFile checks that the reader never panics, and that an accepted file survives a round trip.
func FuzzListOpsFile(f *testing.F) {
	for _, seed := range []string{
		"Source\tTarget\r\n( ( ( [MAX 2 ) 9 ) ] )\t9\r\n", "Source\tTarget\n5\t5\n[SM 9 9 ]\t8",
		"Source\n", "", "Source\tTarget\n\t\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		e := &expressions{}
		if err := e.read(context.Background(), bytes.NewReader(text)); err != nil {
			return
		}
		var written bytes.Buffer
		if err := writeListOps(&written, e); err != nil {
			t.Fatal(err)
		}
		again := &expressions{}
		if err := again.read(context.Background(), &written); err != nil || fmt.Sprint(again) != fmt.Sprint(e) {
			t.Fatalf("%q became %v, then %v: %v", text, e, again, err)
		}
	})
}
