package session

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/hippo-ssm/hippo/tokenizer"
)

// TestTextOfNeedsNoModel checks that TextOf returns the ids of the session from a file, encrypted or not, and an error
// for a damaged file or a wrong key.
func TestTextOfNeedsNoModel(t *testing.T) {
	s := told(t, language(t, hybrid))
	path := filepath.Join(t.TempDir(), "story")
	for _, k := range [][]byte{nil, key} {
		if err := s.Save(path, FileOptions{Key: k}); err != nil {
			t.Fatal(err)
		}
		ids, info, err := TextOf(path, k)
		if err != nil || !slices.Equal(ids, s.IDs()) || info.Identity.Tokenizer != tokenizer.Bytes().Fingerprint() {
			t.Errorf("found %d ids of tokenizer %s, %v; want %d", len(ids), info.Identity.Tokenizer, err, len(s.IDs()))
		}
	}
	if _, _, err := TextOf(path, slices.Repeat([]byte{1}, 32)); !errors.Is(err, ErrKey) {
		t.Errorf("with another key: %v", err)
	}
	data, err := os.ReadFile(path)
	if err == nil {
		data[len(data)/2] ^= 1
		err = os.WriteFile(path, data, 0o666)
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := TextOf(path, key); !errors.Is(err, ErrDamaged) {
		t.Errorf("of a damaged file: %v", err)
	}
}
