//go:build unix

package text

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/data"
	"github.com/hippo-ssm/hippo/train"
)

// TestCacheCutShort truncates the token file of a run while it trains. The run ends with an error that names the file
// and a checkpoint. From this checkpoint it continues to the same weights as an undisturbed run.
func TestCacheCutShort(t *testing.T) {
	for name, at := range map[string]int{"before an update": 3, "before an evaluation": 4} {
		t.Run(name, func(t *testing.T) {
			c := small(t)
			c.Train.SaveEvery = 5 // the last save is then not one of the loop's own
			file := filepath.Join(t.TempDir(), "long.txt")
			if err := os.WriteFile(file, []byte(strings.Repeat("call me ishmael, some years ago; ", 1000)),
				0o666); err != nil {
				t.Fatal(err)
			}
			c.Data = []string{file}
			alone := c
			alone.Out = filepath.Join(t.TempDir(), "alone")
			mustRun(t, alone)

			c.Cache = filepath.Join(t.TempDir(), "cache")
			cut := ""
			_, err := Run(context.Background(), c, train.Events{Step: func(p train.Progress) {
				if p.Step != at {
					return
				}
				files, err := filepath.Glob(filepath.Join(c.Cache, "*.tok"))
				if err != nil || len(files) != 1 {
					t.Fatalf("token files %q, %v", files, err)
				}
				cut = files[0]
				if err := os.Truncate(cut, 200); err != nil {
					t.Fatal(err)
				}
			}})
			var lost *data.LostError
			if !errors.As(err, &lost) || lost.Path != cut || !strings.Contains(err.Error(), "--resume") {
				t.Fatalf("the run ended with %v, want the loss of %s", err, cut)
			}
			again, err := ReadRun(c.Out)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := Resume(context.Background(), again, train.Events{}); err != nil {
				t.Fatal(err)
			}
			if weights(t, c.Out) != weights(t, alone.Out) {
				t.Error("other weights than those of a run that was left alone")
			}
		})
	}
}

// TestRenamedData checks that a run continues with its text under another name, and that the error says what to do if
// the text is not found.
func TestRenamedData(t *testing.T) {
	c := small(t)
	ctx, stop := context.WithCancel(context.Background())
	if res, err := Run(ctx, c, train.Events{Step: func(p train.Progress) {
		if p.Step == 3 {
			stop()
		}
	}}); err != nil || !res.Interrupted {
		t.Fatal(res, err)
	}
	again, err := ReadRun(c.Out)
	if err != nil {
		t.Fatal(err)
	}
	moved := filepath.Join(t.TempDir(), "moved.md")
	if err := os.Rename(c.Data[0], moved); err != nil {
		t.Fatal(err)
	}
	_, err = Resume(context.Background(), again, train.Events{})
	if err == nil || !strings.Contains(err.Error(), c.Data[0]) || !strings.Contains(err.Error(), "--data") {
		t.Errorf("without the text: %v", err)
	}
	again.Data = []string{moved}
	if _, err := Resume(context.Background(), again, train.Events{}); err != nil {
		t.Error(err)
	}
}
