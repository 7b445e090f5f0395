package text

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/internal/testkit/toymodel"
	"github.com/hippo-ssm/hippo/train"
)

// TestCardsOfFolders checks from which file the card of a model is read.
func TestCardsOfFolders(t *testing.T) {
	dir := folderOf(t, map[string]string{
		"run/MODEL.md": "| data | run |", "run/best/README.md": "---\ndata: best\n---", "run/last/x": "",
		"both/MODEL.md": "| data | card |", "both/README.md": "---\ndata: readme\n---",
		"empty/MODEL.md": "nothing", "empty/README.md": "---\ndata: readme\n---", "none/x": "", "run/other/x": "",
	})
	for name, want := range map[string]string{"run": "run", "run/best": "run", "run/last": "run", "both": "card",
		"empty": "readme", "none": "", "run/other": ""} {
		got := ""
		for _, s := range readCard(filepath.Join(dir, filepath.FromSlash(name))) {
			got += s.Text
		}
		if got != want {
			t.Errorf("%s: found %q, want %q", name, got, want)
		}
	}
}

// TestFoldersOfRuns checks which folders are in use, which folder a new run gets, and how paths are made absolute.
func TestFoldersOfRuns(t *testing.T) {
	dir := folderOf(t, map[string]string{"run/last/x": "", "model/config.json": "", "other/x": ""})
	for name, want := range map[string]bool{"run": true, "model": true, "other": false, "gone": false} {
		if got := holdsRun(filepath.Join(dir, name)); got != want {
			t.Errorf("%s holds a run: %v", name, got)
		}
		c := Config{Out: filepath.Join(dir, name)}
		if err := c.checkFree(); (err != nil) != want || want && err.Error() != "out: found a run or model in "+c.Out+
			", want an empty or new folder (to continue it: hippo train --resume "+c.Out+")" {
			t.Errorf("%s: %v", name, err)
		}
		lock, err := c.claimNew()
		if (err != nil) != want {
			t.Errorf("%s is claimed: %v", name, err)
		}
		if err == nil {
			if err := lock.Release(); err != nil {
				t.Error(err)
			}
		}
	}
	if err := (&Config{}).checkFree(); err != nil {
		t.Errorf("no folder: %v", err)
	}
	c := Config{Out: filepath.Join(dir, "run")}
	lock, err := train.Claim(c.Out)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.checkFree(); err == nil || strings.Contains(err.Error(), "found a run") ||
		!strings.HasPrefix(err.Error(), "out: ") {
		t.Errorf("a run that goes on: %v", err)
	}
	if _, err := (&Config{Out: filepath.Join(dir, "model")}).claimNew(); err == nil {
		t.Error("a model's folder is claimed")
	}
	if err := lock.Release(); err != nil {
		t.Fatal(err)
	}
	if lock, err = train.Claim(filepath.Join(dir, "other")); err != nil {
		t.Fatal(err)
	}
	if _, err := (&Config{Out: filepath.Join(dir, "other")}).claimNew(); err == nil {
		t.Error("a claimed folder is claimed")
	}
	if err := lock.Release(); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	for _, want := range []string{"runs/p", "runs/p-2", "runs/p-4"} {
		c := Config{Preset: "p"}
		lock, err := c.claimNew()
		if err != nil || c.Out != filepath.FromSlash(want) {
			t.Fatalf("the new run is in %s, %v, want %s", c.Out, err, want)
		}
		defer lock.Release() // the run is in progress
		if want == "runs/p-2" {
			if err := os.MkdirAll("runs/p-3/last", 0o777); err != nil {
				t.Fatal(err)
			}
		}
	}
	t.Chdir(folderOf(t, map[string]string{"runs": "a file"}))
	if _, err := (&Config{Preset: "p"}).claimNew(); err == nil || !strings.HasPrefix(err.Error(), "out: ") {
		t.Errorf("where no folder can be made: %v", err)
	}
	t.Chdir(dir)
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	c = Config{Init: "other", Data: []string{"-", "a"}, Valid: []string{"b"}}
	err = c.Anywhere()
	at := func(name string) string { return filepath.Join(here, name) }
	if err != nil || c.Init != at("other") || !slices.Equal(c.Data, []string{"-", at("a")}) ||
		!slices.Equal(c.Valid, []string{at("b")}) {
		t.Errorf("%+v, %v", c, err)
	}
	c = Config{Init: "published/name"}
	if err := c.Anywhere(); err != nil || c.Init != "published/name" {
		t.Errorf("a name became %s, %v", c.Init, err)
	}
}

// TestRunsOfFolders checks that RunOf finds the run in a folder or around a checkpoint, and none in other folders.
func TestRunsOfFolders(t *testing.T) {
	dir := folderOf(t, map[string]string{
		"run/config.yaml": "seed: 7\n", "run/best/x": "", "run/last/x": "", "run/other/x": "", "file": "",
		"fit/config.yaml": "seed: 7\ntask: classify\n", "apart/config.yaml": "documents: apart\n",
		"net/config.yaml": "seed: 7\n", "net/best/network.json": "{}",
		"text/config.yaml": "seed: 7\nsubtask: x\n", "bad/config.yaml": "sed: 7\n",
	})
	if train.ConfigFile != "config.yaml" {
		t.Fatalf("the settings of a run are in %s", train.ConfigFile)
	}
	for name, want := range map[string]string{"run": "run 7 join", "run/best": "run 7 join", "run/last": "run 7 join",
		"run/other": "", "fit": "", "net": "", "file": "", "gone": "", "apart": "apart 1 apart"} {
		c, out, err := RunOf(filepath.Join(dir, filepath.FromSlash(name)))
		got := ""
		if out != "" {
			got = fmt.Sprint(filepath.Base(out), " ", c.Seed, " ", c.Documents)
		}
		if got != want || err != nil {
			t.Errorf("%s: found %q, %v, want %q", name, got, err, want)
		}
	}
	for name, want := range map[string]string{"bad": "sed", "text": "subtask"} {
		_, _, err := RunOf(filepath.Join(dir, name))
		toymodel.WantError(t, err, want)
	}
	if _, err := ReadRun(filepath.Join(dir, "run")); err == nil ||
		!strings.Contains(err.Error(), "found no checkpoint to resume from (") {
		t.Errorf("a run without a checkpoint: %v", err)
	}
}
