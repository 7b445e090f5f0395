package tokenizer

import (
	"bytes"
	"github.com/hippo-ssm/hippo/tokenizer/bpe"
	"github.com/hippo-ssm/hippo/tokenizer/pretokenize"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
)

func TestHuggingFace(t *testing.T) {
	type test struct {
		text string
		want []int32
	}
	id := func(b byte) int32 { return int32(slices.Index(pretokenize.ByteOrder[:], b)) }
	for name, c := range map[string]struct {
		file  object
		size  int
		end   int32
		tests []test
	}{
		// 245 tokens: 2 specials, 243 bytes; then ab 245, " ab" 246, "  " 247, and the added runs of 4, 3 and 2 spaces.
		"neox": {neoxStyle(), 251, 0, []test{
			{"ab ab", []int32{245, 246}},
			{"a<|endoftext|>ab<|padding|>", []int32{2 + id('a'), 0, 245, 1}},
			{"ab     ab", []int32{245, 248, 246}},        // longest run first
			{"ab       ab", []int32{245, 248, 249, 245}}, // 4, then 3, and no space before ab
			{"\n ab", []int32{2 + id('\n') - 13, 246}},   // the byte's number, minus the missing ones before it
		}},
		"llama3": {llama3Style(), 265, 263, []test{
			{"hello", []int32{259}},
			{"hellohe", []int32{259, 256}},
			{" world", []int32{260}}, // no merge gives it
			{"1234", []int32{261, id('4')}},
			{"<|begin|>he<|end|>", []int32{262, 256, 264}},
		}},
		"deepseek": {deepseekStyle(t), 258, -1, []test{
			{"ab<｜begin▁of▁sentence｜>ab", []int32{256, 257, 256}},
		}},
		"prefix": {prefixStyle(), 258, 257, []test{
			{"", []int32{}},
			{"a a", []int32{256, 256}},
			{" a<|endoftext|>a", []int32{256, 257, 256}},
			{"\na", []int32{id(' '), id('\n'), id('a')}},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			tok := parseTest(t, c.file)
			if got := tok.VocabSize(); got != c.size {
				t.Errorf("vocabulary of %d, want %d", got, c.size)
			}
			if end, ok := tok.EndOfText(); ok != (c.end >= 0) || ok && end != c.end {
				t.Errorf("end of text is %d, %v, want %d", end, ok, c.end)
			}
			for _, s := range c.tests {
				got := encode(t, tok, s.text)
				if !slices.Equal(got, s.want) {
					t.Errorf("%q is %v, want %v", s.text, got, s.want)
				}
				back := string(tok.Decode(nil, got))
				if name != "prefix" && back != s.text {
					t.Errorf("%q comes back as %q", s.text, back)
				}
			}
		})
	}
}

func TestMissingByte(t *testing.T) {
	tok := parseTest(t, neoxStyle())
	_, err := tok.Encode(nil, []byte("ab<|endoftext|>ab ab\xffab\xff"))
	if want := "tokenizer: byte offset 20: byte 0xff has no token in this vocabulary"; err == nil ||
		err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
	_, err = tok.Encode(nil, []byte(strings.Repeat("ab", 20)+"\xc0"))
	if want := "tokenizer: byte offset 40: byte 0xc0 has no token in this vocabulary"; err == nil ||
		err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
}

func TestFileErrors(t *testing.T) {
	set := func(file object, value any, path ...string) object {
		at := file
		for _, key := range path[:len(path)-1] {
			at = at[key].(object)
		}
		at[path[len(path)-1]] = value
		return file
	}
	split := func(change object) object {
		step := splitStep("a+")
		for key, value := range change {
			step[key] = value
		}
		return object{"type": "Sequence", "pretokenizers": []any{step, byteLevel(false)}}
	}
	for name, c := range map[string]struct {
		file any
		want string
	}{
		"kind":           {object{"hippo": object{"kind": "words"}}, `hippo.kind is "words"`},
		"end":            {set(neoxStyle(), object{"end_of_text": -1}, "hippo"), "end_of_text: found -1, want 0 to"},
		"no alphabet":    {object{"hippo": object{"kind": "chars"}}, "alphabet is empty"},
		"alphabet order": {object{"hippo": object{"kind": "chars", "alphabet": "ba"}}, "'a' after 'b'"},
		"empty":          {object{}, "model.vocab is empty"},
		"no object":      {[]int{1}, "cannot unmarshal array"},
		"model":          {set(neoxStyle(), "WordPiece", "model", "type"), `model.type is "WordPiece"`},
		"dropout":        {set(neoxStyle(), 0.1, "model", "dropout"), "model.dropout is 0.1"},
		"prefix": {set(neoxStyle(), "##", "model", "continuing_subword_prefix"),
			`continuing_subword_prefix is "##"`},
		"suffix":    {set(neoxStyle(), "</w>", "model", "end_of_word_suffix"), `end_of_word_suffix is "</w>"`},
		"no scores": {set(neoxStyle(), "Unigram", "model", "type"), "a list with scores for Unigram"},
		"scores":    {set(neoxStyle(), []any{[]any{"a", -1}}, "model", "vocab"), "ids by text for BPE"},
		"score":     {set(neoxStyle(), []any{[]any{"a"}}, "model", "vocab"), "want a text and its score"},
		"twice in list": {set(neoxStyle(), []any{[]any{"a", -1}, []any{"a", -2}}, "model", "vocab"),
			`ids 0 and 1 are both "a"`},
		"unknown": {set(fallback(), "<none>", "model", "unk_token"), `model.unk_token is "<none>", which is not`},
		"normalizer": {set(neoxStyle(), object{"type": "Nmt"}, "normalizer"),
			`normalizer: "Nmt" is not supported`},
		"normalizers": {set(neoxStyle(), object{"type": "Sequence",
			"normalizers": []any{object{"type": "NFC"}, object{"type": "BertNormalizer"}}}, "normalizer"),
			`"BertNormalizer" is not supported`},
		"nested":  {set(neoxStyle(), nest(9), "normalizer"), "more than 8 Sequences"},
		"replace": {set(neoxStyle(), object{"type": "Replace"}, "normalizer"), "Replace: pattern is missing"},
		"charsmap": {set(neoxStyle(), object{"type": "Precompiled", "precompiled_charsmap": "AAAAAAA="}, "normalizer"),
			"precompiled_charsmap: the trie is empty"},
		"growing": {set(neoxStyle(), object{"type": "Sequence", "normalizers": slices.Repeat([]any{object{
			"type": "Replace", "pattern": object{"String": "a"}, "content": strings.Repeat("a", 40)}}, 2)},
			"normalizer"),
			"more than 1024 times as long"},
		"post": {set(neoxStyle(), object{"type": "Pairs"}, "post_processor"), `post_processor: step 0: "Pairs" is not`},
		"post id": {set(neoxStyle(), object{"type": "BertProcessing", "cls": []any{"a", 1}, "sep": []any{"b", 9999}},
			"post_processor"), "post_processor: id 9999"},
		"template": {set(neoxStyle(), object{"type": "TemplateProcessing", "single": []any{
			object{"SpecialToken": object{"id": "<s>"}}}}, "post_processor"), `"<s>" is not among special_tokens`},
		"decoder": {set(neoxStyle(), object{"type": "WordPiece"}, "decoder"),
			`decoder: step 0: "WordPiece" is not supported`},
		"other step": {set(neoxStyle(),
			object{"type": "Sequence", "pretokenizers": []any{object{"type": "UnicodeScripts"}, byteLevel(true)}},
			"pre_tokenizer"), `step 0: "UnicodeScripts" is not supported`},
		"scheme": {set(neoxStyle(), object{"type": "Metaspace", "replacement": "_", "prepend_scheme": "often"},
			"pre_tokenizer"), `prepend_scheme "often"`},
		"replacement": {set(neoxStyle(), object{"type": "Metaspace", "replacement": "__"}, "pre_tokenizer"),
			`replacement: found "__", want one character`},
		"bad pattern": {set(neoxStyle(), split(object{"pattern": object{"Regex": "a++"}}), "pre_tokenizer"),
			`pattern "a++"`},
		"no pattern": {set(neoxStyle(), split(object{"pattern": object{}}), "pre_tokenizer"),
			"step 0: pattern is missing"},
		"behavior": {set(neoxStyle(), split(object{"behavior": "Dropped"}), "pre_tokenizer"),
			`behavior "Dropped"`},
		"many steps": {set(neoxStyle(), object{"type": "Sequence",
			"pretokenizers": slices.Repeat([]any{object{"type": "Whitespace"}}, 9)}, "pre_tokenizer"), "9 steps"},
		"empty added": {set(neoxStyle(), []any{addedJSON(300, "")}, "added_tokens"), "added_tokens[0] \"\": empty"},
		"added id":    {set(neoxStyle(), []any{addedJSON(5, "<x>")}, "added_tokens"), "which already stands for"},
		"added far":   {set(neoxStyle(), []any{addedJSON(1<<21, "<x>")}, "added_tokens"), "out of proportion"},
		"added twice": {set(neoxStyle(), []any{addedJSON(300, "ab")}, "added_tokens"), "in model.vocab it is 245"},
		"far id":      {set(neoxStyle(), object{"a": 1 << 30}, "model", "vocab"), `"a" has id 1073741824`},
		"huge id":     {set(neoxStyle(), object{"a": 1 << 40}, "model", "vocab"), "cannot unmarshal number"},
		"negative id": {set(neoxStyle(), object{"a": -1}, "model", "vocab"), `"a" has id -1`},
		"same id": {set(neoxStyle(), object{"b": 1, "c": 1, "a": 0}, "model", "vocab"),
			`"b" and "c" both have id 1`},
		"empty token": {set(neoxStyle(), object{"": 0}, "model", "vocab"), "token of id 0 is empty"},
		"merge": {set(neoxStyle(), []any{"a b", "a c"}, "model", "merges"),
			`model.merges[1] is "a" and "c", but "ac" is not`},
		"merge form":   {set(neoxStyle(), []any{"ab"}, "model", "merges"), `merge "ab", want two tokens`},
		"merge length": {set(neoxStyle(), []any{[]any{"a", "b", "c"}}, "model", "merges"), "merge of 3 tokens"},
		"merge type":   {set(neoxStyle(), []any{7}, "model", "merges"), "a merge: json"},
	} {
		if _, err := parseFile(toJSON(t, c.file)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one with %q", name, err, c.want)
		}
	}
}

// nest returns a Sequence in a Sequence, and so on, to the given depth.
func nest(depth int) any {
	if depth == 0 {
		return object{"type": "NFC"}
	}
	return object{"type": "Sequence", "normalizers": []any{nest(depth - 1)}}
}

func TestSplitByString(t *testing.T) {
	file := neoxStyle()
	delete(file, "normalizer")
	file["pre_tokenizer"] = object{"type": "Sequence", "pretokenizers": []any{
		object{"type": "Split", "pattern": object{"String": "a."}, "behavior": "Removed", "invert": true},
		object{"type": "Digits", "individual_digits": true}, object{"type": "Digits", "individual_digits": false},
		byteLevel(false)}}
	tok := parseTest(t, file).(*bpe.Tokenizer)
	if got, want := wordsOf(tok.Split, "aba.b12b"), []string{"ab", "a.", "b", "1", "2", "b"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestSaveLoad(t *testing.T) {
	chars, err := Characters(strings.NewReader("a<&>\u2028\x00\"\\é🙂\ufffd"))
	if err != nil {
		t.Fatal(err)
	}
	trained, err := bpe.Train(strings.NewReader("the cat sat on the mat, the cat"),
		bpe.TrainOptions{Merges: 10, Specials: []string{"<é \"x>", EndOfTextToken}})
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]string{}
	for name, tok := range map[string]Tokenizer{
		"bytes": Bytes(), "chars": chars, "gpt2": GPT2(), "trained": trained, "neox": parseTest(t, neoxStyle()),
		"llama3": parseTest(t, llama3Style()), "deepseek": parseTest(t, deepseekStyle(t)),
		"prefix": parseTest(t, prefixStyle()), "rwkv": longest(t),
	} {
		dir := filepath.Join(t.TempDir(), "new", "model")
		for range 2 { // the second time over existing files
			if err := tok.Save(dir); err != nil {
				t.Fatal(err)
			}
		}
		again, err := Load(dir)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if again.Kind() != tok.Kind() || again.VocabSize() != tok.VocabSize() ||
			again.Fingerprint() != tok.Fingerprint() {
			t.Errorf("%s: %s %d %s, want %s %d %s", name, again.Kind(), again.VocabSize(), again.Fingerprint(),
				tok.Kind(), tok.VocabSize(), tok.Fingerprint())
		}
		first, err := os.ReadFile(filepath.Join(dir, FileName))
		if err != nil {
			t.Fatal(err)
		}
		if err := again.Save(dir); err != nil {
			t.Fatal(err)
		}
		second, err := os.ReadFile(filepath.Join(dir, FileName))
		if err != nil {
			t.Fatal(err)
		}
		if string(first) != string(second) {
			t.Errorf("%s: saved again, the file is different", name)
		}
		if files, err := os.ReadDir(dir); err != nil || len(files) != 1 {
			t.Errorf("%s: %v left in the folder, %v", name, files, err)
		}
		if other, ok := seen[tok.Fingerprint()]; ok {
			t.Errorf("%s and %s have the same fingerprint", name, other)
		}
		seen[tok.Fingerprint()] = name
	}
}

// TestFingerprint checks that the fingerprints of the fixed kinds stay the same. With a change, trained models would
// reject their own tokenizer, so it must be deliberate (see encodingVersion).
func TestFingerprint(t *testing.T) {
	for want, tok := range map[string]Tokenizer{
		"f9de96eea6f64a0e": Bytes(),
		"7a9817b55c6c681b": GPT2(),
	} {
		if got := tok.Fingerprint(); got != want {
			t.Errorf("%s: %s, want %s", tok.Kind(), got, want)
		}
	}
	base := parseTest(t, neoxStyle()).Fingerprint()
	for name, change := range map[string]func(object){
		"a merge less":   func(f object) { f["model"].(object)["merges"] = []any{"a b", "Ġ ab"} },
		"merges swapped": func(f object) { f["model"].(object)["merges"] = []any{"a b", "Ġ Ġ", "Ġ ab"} },
		"added less":     func(f object) { f["added_tokens"] = f["added_tokens"].([]any)[:4] },
		"other splits":   func(f object) { f["pre_tokenizer"] = byteLevel(false) },
		"prefix space":   func(f object) { f["pre_tokenizer"].(object)["add_prefix_space"] = true },
		"ignore merges":  func(f object) { f["model"].(object)["ignore_merges"] = true },
	} {
		file := neoxStyle()
		change(file)
		if parseTest(t, file).Fingerprint() == base {
			t.Errorf("%s: the same fingerprint", name)
		}
	}
}

func TestParseSpec(t *testing.T) {
	dir := t.TempDir()
	if err := GPT2().Save(dir); err != nil {
		t.Fatal(err)
	}
	for spec, kind := range map[string]string{"bytes": "bytes", "gpt2": "gpt2", dir: "gpt2",
		filepath.Join(dir, FileName): "gpt2"} {
		tok, err := Parse(spec)
		if err != nil || tok.Kind() != kind {
			t.Errorf("%q: %v, %v", spec, tok, err)
		}
	}
	empty := t.TempDir()
	broken := filepath.Join(empty, "broken.json")
	if err := os.WriteFile(broken, []byte(`{"model"`), 0o644); err != nil {
		t.Fatal(err)
	}
	for spec, want := range map[string]string{
		"":      "empty name",
		"chars": "from a corpus",
		"gpt3":  `tokenizer "gpt3" is neither "bytes", "dna" nor "gpt2" nor a file`,
		empty:   FileName,
		broken:  "broken.json: unexpected end of JSON",
	} {
		if _, err := Parse(spec); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want one with %q", spec, err, want)
		}
	}
}

// FuzzParseFile checks that an accepted tokenizer can encode, and is the same after saving and loading.
func FuzzParseFile(f *testing.F) {
	f.Add([]byte(`{"hippo":{"kind":"chars","alphabet":"abc"}}`))
	for _, file := range []object{neoxStyle(), llama3Style(), deepseekStyle(f), prefixStyle()} {
		f.Add(toJSON(f, file))
	}
	_, cases := referenceCases(f)
	for _, c := range cases {
		f.Add([]byte(c.File))
	}
	text := []byte("ab  ab 12<|endoftext|> hello\n日e\u0301\xff ")
	f.Fuzz(func(t *testing.T, data []byte) {
		tok, err := parseFile(data)
		if err != nil {
			return
		}
		ids, err := tok.Encode(nil, text)
		if own, ok := tok.(*bpe.Tokenizer); ok && err == nil && !own.PrefixSpace {
			if back := tok.Decode(nil, ids); string(back) != string(text) {
				t.Fatalf("%q comes back as %q", text, back)
			}
		}
		if pieces, pieceErr := collect(tok, iotest.OneByteReader(bytes.NewReader(text)), 1); err == nil &&
			(pieceErr != nil || !slices.Equal(pieces, ids)) {
			t.Fatalf("in pieces %v (%v), at once %v", pieces, pieceErr, ids)
		}
		for _, id := range ids {
			if id < 0 || int(id) >= tok.VocabSize() {
				t.Fatalf("id %d of %d", id, tok.VocabSize())
			}
		}
		if tok.Kind() == "bpe" || tok.Kind() == "unigram" {
			data, err := tok.(interface{ Marshal() ([]byte, error) }).Marshal()
			if err != nil {
				t.Fatal(err)
			}
			again, err := parseFile(data)
			if err != nil {
				t.Fatalf("saved as %s: %v", data, err)
			}
			if again.Fingerprint() != tok.Fingerprint() {
				t.Fatalf("saved as %s: another tokenizer", data)
			}
		}
	})
}
