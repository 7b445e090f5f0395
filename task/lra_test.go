package task

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// files maps names of files to their contents.
type files map[string]string

// write writes the files into a new folder.
func (f files) write(t testing.TB) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for name, text := range f {
		at := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// packed returns the files as a .tar.gz archive.
func (f files) packed(t testing.TB) string {
	t.Helper()
	var out bytes.Buffer
	zip := gzip.NewWriter(&out)
	archive := tar.NewWriter(zip)
	for name, text := range f {
		if err := archive.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644,
			Size: int64(len(text))}); err != nil {
			t.Fatal(err)
		}
		if _, err := archive.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := archive.Close(); err != nil {
		t.Fatal(err)
	}
	if err := zip.Close(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// mustOpen opens a task with options modified by change.
func mustOpen[O any](t *testing.T, task *Task, dir string, change func(*O)) *Set {
	t.Helper()
	set, err := openTask(t, task, dir, change)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// examples returns all examples of a split.
func examples(s Split) []Example {
	list := make([]Example, s.Len())
	for i := range list {
		s.Example(i, &list[i])
	}
	return list
}

// same reports whether two lists of examples are equal.
func same(a, b []Example) bool { return fmt.Sprint(a) == fmt.Sprint(b) }

var someReviews = files{
	"aclImdb/train/pos/0_9.txt":   "good good",
	"aclImdb/train/neg/1_2.txt":   "bad",
	"aclImdb/train/neg/0_3.txt":   "dü bad film é",
	"aclImdb/test/pos/0_10.txt":   "godzilla",
	"aclImdb/test/neg/0_1.txt":    strings.Repeat("bo", 40),
	"aclImdb/train/unsup/0_0.txt": "no label",
	"aclImdb/README":              "about",
}

func TestTextIsTheReviewsOfTheFolderAndOfTheArchive(t *testing.T) {
	few := func(o *textOptions) { o.MaxLength, o.MinCount = 12, 3 }
	set := mustOpen(t, Text, someReviews.write(t), few)
	// In the first eleven characters of each review, d occurs five times, o four times and a space three times. No
	// other character occurs as often.
	if set.Vocab != 3+3 || set.Outputs != 2 || set.Pairs || set.MaxLength != 12 || set.Valid != nil {
		t.Fatalf("the set is %+v", set)
	}
	const d, o, space = 3, 4, 5
	want := []Example{
		{Tokens: []int32{d, 1, space, 1, 1, d, space, 1, 1, 1, 1, 2}, Targets: []int32{0}}, // "dü bad film"
		{Tokens: []int32{1, 1, d, 2}, Targets: []int32{0}},
		{Tokens: []int32{1, o, o, d, space, 1, o, o, d, 2}, Targets: []int32{1}},
	}
	if got := examples(set.Train); !same(got, want) {
		t.Errorf("found %v, want %v", got, want)
	}
	if test := examples(set.Test); len(test) != 2 || len(test[0].Tokens) != 12 || test[1].Tokens[0] != 1 {
		t.Errorf("the test split is %v", test)
	}
	if len(set.Notes) != 2 || !strings.Contains(set.Notes[0], "3 reviews") {
		t.Errorf("the notes are %q", set.Notes)
	}
	archive := mustOpen(t, Text, files{"aclImdb_v1.tar.gz": someReviews.packed(t)}.write(t), few)
	if !same(examples(archive.Train), want) || !same(examples(archive.Test), examples(set.Test)) {
		t.Error("the archive gives other examples than the folder")
	}
}

func TestTextInBytesAndWithReviewsHeldOut(t *testing.T) {
	set := mustOpen(t, Text, someReviews.write(t),
		func(o *textOptions) { o.Units, o.MaxLength, o.Valid = "bytes", 5, 0.4 })
	if set.Vocab != 259 || set.Train.Len() != 2 || set.Valid == nil || set.Valid.Len() != 1 {
		t.Fatalf("the set is %+v", set)
	}
	for _, ex := range append(examples(set.Train), examples(set.Valid)...) {
		if ex.Targets[0] == 0 && len(ex.Tokens) == 5 &&
			!slices.Equal(ex.Tokens, []int32{3 + 'd', 3 + 0xc3, 3 + 0xbc, 3 + ' ', 2}) {
			t.Errorf("the bytes are %v", ex.Tokens)
		}
	}
}

func TestTextSaysWhatIsWrongWithItsFiles(t *testing.T) {
	whole := someReviews.packed(t)
	for _, c := range []struct {
		name  string
		files files
		words []string
	}{
		{"nothing", files{}, []string{"aclImdb/train/pos/", "aclImdb_v1.tar.gz", "ai.stanford.edu"}},
		{"no archive", files{"aclImdb_v1.tar.gz": "this is no archive at all"}, []string{"aclImdb_v1.tar.gz", "gzip"}},
		{"cut", files{"aclImdb_v1.tar.gz": whole[:len(whole)-40]},
			[]string{"aclImdb_v1.tar.gz: after", "unexpected EOF"}},
		{"one kind", files{"aclImdb_v1.tar.gz": files{"train/pos/1.txt": "a"}.packed(t)},
			[]string{"0 reviews in train/neg and 1 in train/pos"}},
		{"no test", files{"train/pos/1.txt": "a", "train/neg/1.txt": "b"}, []string{"test"}},
		{"empty file", files{"train/pos/1.txt": "", "train/neg/1.txt": "b", "test/neg/1.txt": "b",
			"test/pos/1.txt": "b"}, []string{"train/pos/1.txt", "empty"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := openTask[textOptions](t, Text, c.files.write(t), nil)
			wantError(t, err, append(c.words, "task text:")...)
		})
	}
}

func TestOpeningStopsWhenItIsCanceled(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for _, dir := range []string{someReviews.write(t), files{"aclImdb_v1.tar.gz": someReviews.packed(t)}.write(t)} {
		if _, err := Text.Open(ctx, dir, Text.Options()); err == nil {
			t.Error("a canceled context opens the task")
		}
	}
}

// somePairs holds the files of the retrieval task. The last line of the first has no newline, and its first text is
// long.
var somePairs = files{
	"tsv_data/new_aan_pairs.train.tsv": "1.0\ta\tb\tabba\tcab\r\n0\tc\td\t\"q\tabba\n0.0\te\tf\t" +
		strings.Repeat("a", 1<<17) + "\té",
	"tsv_data/new_aan_pairs.eval.tsv": "1\ta\tb\tz\ta\n",
	"tsv_data/new_aan_pairs.test.tsv": "0\ta\tb\tb\tb\n",
}

func TestRetrievalReadsPairs(t *testing.T) {
	six := func(o *retrievalOptions) { o.MaxLength = 6 }
	set := mustOpen(t, Retrieval, somePairs.write(t), six)
	// a occurs ten times, b five times, then " c q é once each.
	if set.Vocab != 3+6 || !set.Pairs || set.MaxLength != 6 {
		t.Fatalf("the set is %+v", set)
	}
	want := []Example{
		{Tokens: []int32{3, 4, 4, 3, 2}, Second: []int32{6, 3, 4, 2}, Targets: []int32{1}},
		{Tokens: []int32{5, 7, 2}, Second: []int32{3, 4, 4, 3, 2}, Targets: []int32{0}},
		{Tokens: []int32{3, 3, 3, 3, 3, 2}, Second: []int32{8, 2}, Targets: []int32{0}},
	}
	if got := examples(set.Train); !same(got, want) {
		t.Errorf("found %v, want %v", got, want)
	}
	if got := examples(set.Valid); !same(got,
		[]Example{{Tokens: []int32{1, 2}, Second: []int32{3, 2}, Targets: []int32{1}}}) {
		t.Errorf("the split held out is %v", got)
	}
	zipped := files{}
	for name, text := range somePairs {
		zipped[strings.TrimPrefix(name, "tsv_data/")+".gz"] = string(gzipped(t, []byte(text)))
	}
	if !same(examples(mustOpen(t, Retrieval, zipped.write(t), six).Train), want) {
		t.Error("packed files give other examples")
	}
}

func TestRetrievalSaysWhatIsWrongWithItsFiles(t *testing.T) {
	for _, c := range []struct {
		name, train string
		words       []string
	}{
		{"columns", "1\ta\tb\tc\td\n1\ta\tb\tc\n", []string{"new_aan_pairs.train.tsv", "line 2", "found 4 columns"}},
		{"more columns", "1\ta\tb\tc\td\te\n", []string{"line 1", "found 6 columns"}},
		{"label", "2\ta\tb\tc\td\n", []string{"line 1", `label: found "2"`}},
		{"NaN", "NaN\ta\tb\tc\td\n", []string{"line 1", `label: found "NaN"`}},
		{"no text", "1\ta\tb\tc\t\n", []string{"line 1", "text2: is empty"}},
		{"a blank line", "1\ta\tb\tc\td\n\n1\ta\tb\tc\td\n", []string{"line 2", "found 1 columns"}},
		{"empty", "", []string{"new_aan_pairs.train.tsv", "empty"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := openTask[retrievalOptions](t, Retrieval, files{"new_aan_pairs.train.tsv": c.train}.write(t), nil)
			wantError(t, err, append(c.words, "task retrieval:")...)
		})
	}
	_, err := openTask[retrievalOptions](t, Retrieval, files{"a": ""}.write(t), nil)
	wantError(t, err, "new_aan_pairs.train.tsv", "tsv_data/new_aan_pairs.train.tsv.gz", "long-range-arena")
	_, err = openTask[retrievalOptions](t, Retrieval, files{"new_aan_pairs.train.tsv": "1\ta\tb\tc\td\n"}.write(t), nil)
	wantError(t, err, "new_aan_pairs.eval.tsv")
	zip := string(gzipped(t, []byte(strings.Repeat("1\ta\tb\tc\td\n", 100))))
	_, err = openTask[retrievalOptions](t, Retrieval, files{"new_aan_pairs.train.tsv.gz": zip[:len(zip)-10]}.write(t),
		nil)
	wantError(t, err, "new_aan_pairs.train.tsv.gz", "unexpected EOF")
}

func FuzzRetrieval(f *testing.F) {
	for _, text := range somePairs {
		f.Add([]byte(text[:min(len(text), 200)]))
	}
	f.Add([]byte("1\t\xff\t\t\xf0\x9f\t\xf0\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		texts := &sharedTexts{index: map[[32]byte]int32{}}
		s := &pairSplit{texts: texts, limit: 5}
		if s.read(context.Background(), bytes.NewReader(text)) != nil {
			return
		}
		var counts characterCounts
		for i, times := range s.occurrences() {
			counts.add(texts.list.at(i), times)
		}
		s.codes = counts.characters(1)
		for _, ex := range examples(s) {
			for _, seq := range [][]int32{ex.Tokens, ex.Second} {
				if len(seq) < 2 || len(seq) > 5 || slices.Max(seq) >= int32(s.codes.size()) {
					t.Fatalf("%q gives %v of %d codes", text, seq, s.codes.size())
				}
			}
		}
	})
}

// TestSplitsAreThoseOfTorch checks torch.randperm(10) with the seed 42, and the first words of MT19937 with its default
// seed 5489.
func TestSplitsAreThoseOfTorch(t *testing.T) {
	if got, want := torchPermutation(10, 42), []int{2, 6, 1, 8, 4, 5, 0, 9, 3, 7}; !slices.Equal(got, want) {
		t.Errorf("the permutation of 10 is %v, want %v", got, want)
	}
	words := newMersenne(5489)
	var last uint32
	for range 10000 {
		last = words.next()
	}
	if last != 4123659995 { // the 10000th value that the C++ standard requires of std::mt19937, [rand.predef]
		t.Errorf("word 10000 is %d, want 4123659995", last)
	}
	order := torchPermutation(2000, 42)
	slices.Sort(order)
	for i, x := range order {
		if i != x {
			t.Fatal("not a permutation")
		}
	}
}
