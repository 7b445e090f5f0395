package tokenizer

import (
	"encoding/json"
	"github.com/hippo-ssm/hippo/tokenizer/pipeline"
	"github.com/hippo-ssm/hippo/tokenizer/sentencepiece"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
)

// spCase is a SentencePiece model and the library's results for the texts, see gen/sentencepiece.js.
type spCase struct {
	Model   []byte
	IDs     [][]int32
	Decoded []*string // nil if the library writes its own sign for unknown characters
}

func spCases(t testing.TB) (texts []string, cases map[string]spCase) {
	t.Helper()
	data, err := os.ReadFile("testdata/sentencepiece.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Texts []string
		Cases map[string]spCase
	}
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	if len(file.Texts) < 40 || len(file.Cases) < 6 {
		t.Fatalf("%d texts and %d cases", len(file.Texts), len(file.Cases))
	}
	return file.Texts, file.Cases
}

// TestSentencePiece compares ids and decoded texts with those of the library SentencePiece, which finds no control
// symbols in a text.
func TestSentencePiece(t *testing.T) {
	texts, cases := spCases(t)
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			tok, err := sentencepiece.Parse(c.Model)
			if err != nil {
				t.Fatal(err)
			}
			for i, text := range texts {
				ids, err := EncodeOrdinary(tok, nil, []byte(text))
				if err != nil || !slices.Equal(ids, c.IDs[i]) {
					t.Errorf("%q is %v (%v), want %v", text, ids, err, c.IDs[i])
				}
				if want := c.Decoded[i]; want != nil {
					if got := string(DecodeText(tok, nil, c.IDs[i])); got != *want {
						t.Errorf("%v decodes to %q, want %q", c.IDs[i], got, *want)
					}
				}
			}
			all := strings.Join(texts, "")
			want := encode(t, tok, all)
			for size := 1; size < 40; size += 3 {
				got, err := collect(tok, iotest.HalfReader(strings.NewReader(all)), size)
				if err != nil || !slices.Equal(got, want) {
					t.Fatalf("in pieces of %d bytes the ids are others (%v)", size, err)
				}
			}
		})
	}
}

// TestSentencePieceFiles checks that a model is found in a folder, and is the same after saving and loading.
func TestSentencePieceFiles(t *testing.T) {
	_, cases := spCases(t)
	for name, c := range cases {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, sentencepiece.ModelName), c.Model, 0o644); err != nil {
			t.Fatal(err)
		}
		tok, err := Load(dir)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		again := filepath.Join(dir, "saved")
		if err := tok.Save(again); err != nil {
			t.Fatal(err)
		}
		saved, err := Load(again)
		if err != nil || saved.Fingerprint() != tok.Fingerprint() || saved.Kind() != tok.Kind() {
			t.Errorf("%s: saved it is another one (%v)", name, err)
		}
		text := "<s>hello world</s> 日本語"
		if a, b := encode(t, tok, text), encode(t, saved, text); !slices.Equal(a, b) || a[0] != 1 {
			t.Errorf("%s: %v, saved %v", name, a, b)
		}
	}
}

func TestSentencePieceErrors(t *testing.T) {
	piece := func(text string, kind sentencepiece.Kind) sentencepiece.Piece {
		return sentencepiece.Piece{Text: text, Score: -1, Kind: kind}
	}
	for want, m := range map[string]*sentencepiece.Model{
		"it has no pieces":            {},
		"piece 1 is empty":            {Pieces: []sentencepiece.Piece{piece("a", 1), piece("", 1)}},
		`pieces 0 and 1 are both "a"`: {Pieces: []sentencepiece.Piece{piece("a", 1), piece("a", 4)}},
		"are both unknown":            {Pieces: []sentencepiece.Piece{piece("a", 2), piece("b", 2)}},
		"has the type 9":              {Pieces: []sentencepiece.Piece{piece("a", 9)}},
		"want a text such as <0x0A>":  {Pieces: []sentencepiece.Piece{piece("a", 6)}},
		"piece 0 has 300 bytes":       {Pieces: []sentencepiece.Piece{piece(strings.Repeat("a", 300), 1)}},
		"precompiled_charsmap: it ends before its": {Pieces: []sentencepiece.Piece{piece("a", 1)},
			Charsmap: []byte("ab")},
	} {
		if _, err := sentencepiece.Parse(m.Marshal()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
	for want, data := range map[string]string{
		"it is not a protocol buffer": "\x80", "field 1 is cut off": "\x0a\x05ab", "wire type 3": "\x0b",
		"model_type is 3": "\x12\x02\x18\x03", "treat_whitespace_as_suffix": "\x12\x03\xc0\x01\x01",
	} {
		if _, err := sentencepiece.Parse([]byte(data)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want one with %q", data, err, want)
		}
	}
}

// FuzzSentencePiece checks that an accepted model encodes texts the same way whole and in pieces, and is the same after
// saving and loading.
func FuzzSentencePiece(f *testing.F) {
	_, cases := spCases(f)
	for _, c := range cases {
		f.Add(c.Model)
	}
	text := []byte("ab  the word\tworld <s>\n日e\u0301\xff<tool> ")
	f.Fuzz(func(t *testing.T, data []byte) {
		tok, err := sentencepiece.Parse(data)
		if err != nil {
			return
		}
		ids, err := tok.Encode(nil, text)
		pieces, pieceErr := collect(tok, iotest.OneByteReader(strings.NewReader(string(text))), 1)
		if err == nil && (pieceErr != nil || !slices.Equal(pieces, ids)) {
			t.Fatalf("in pieces %v (%v), at once %v", pieces, pieceErr, ids)
		}
		for _, id := range ids {
			if id < 0 || int(id) >= tok.VocabSize() {
				t.Fatalf("id %d of %d", id, tok.VocabSize())
			}
		}
		saved, err := tok.(*pipeline.Tokenizer).Marshal()
		if err != nil {
			t.Fatal(err)
		}
		again, err := parseFile(saved)
		if err != nil || again.Fingerprint() != tok.Fingerprint() {
			t.Fatalf("saved it is another one (%v)", err)
		}
	})
}
