package disk

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/internal/brief"
)

// TestReadText checks that a file of the maximum size is read, and that one byte more, and a missing file, are errors.
func TestReadText(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte("hippo"), 0o666); err != nil {
		t.Fatal(err)
	}
	if got, err := ReadText(path, 5); err != nil || string(got) != "hippo" {
		t.Errorf("got %q, %v", got, err)
	}
	if _, err := ReadText(path, 4); err == nil || !strings.Contains(err.Error(),
		path+": found 5 bytes, want a file of at most 4") {
		t.Errorf("got %v", err)
	}
	if _, err := ReadText(path+"x", 4); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

// TestReadJSON checks that errors name the file and stay short, whatever the file contains.
func TestReadJSON(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file.json")
	var v struct{ N int }
	for _, text := range []string{`{"N": 1`, `{"N": ` + strings.Repeat("1", 1<<20) + `}`} {
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		if err := ReadJSON(path, &v); err == nil || !strings.HasPrefix(err.Error(), path+": ") ||
			len(err.Error()) > 2*brief.MaxError {
			t.Errorf("%.20q: got %.200v", text, err)
		}
	}
	if err := os.WriteFile(path, []byte(`{"N": 7}`), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := ReadJSON(path, &v); err != nil || v.N != 7 {
		t.Errorf("got %d, %v", v.N, err)
	}
}
