package tokenizer

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/tokenizer/trie"
)

// longestLines returns a vocabulary of all bytes and some longer tokens, in the form of RWKV's file.
func longestLines() string {
	var out strings.Builder
	for b := range 256 {
		fmt.Fprintf(&out, "%d b'\\x%02x' 1\n", b+1, b)
	}
	return out.String() + "257 'ab' 2\n258 ' the' 4\n259 'é' 2\n260 \"it's\" 4\n262 '日本' 6\n"
}

func longest(t testing.TB) Tokenizer {
	t.Helper()
	tok, err := trie.Parse([]byte(longestLines()))
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

// TestFindsVocabulary checks that RWKV's file is read from a folder without a tokenizer.json, and from its own path.
func TestFindsVocabulary(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, trie.FileName)
	if err := os.WriteFile(path, []byte(longestLines()), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, where := range []string{dir, path} {
		tok, err := Load(where)
		if err != nil || tok.Kind() != "rwkv" || tok.Fingerprint() != longest(t).Fingerprint() {
			t.Errorf("%s: %v, %v", where, tok, err)
		}
	}
	if err := os.WriteFile(path, []byte("1 'a' 2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	const want = trie.FileName + ": line 1: found 'a' of 1 bytes"
	if _, err := Load(dir); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("another length: %v", err)
	}
}
