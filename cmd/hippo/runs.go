package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hippo-ssm/hippo/internal/config"
	"github.com/hippo-ssm/hippo/model"
)

// runsDir is where runs are kept if the user names no folder.
const runsDir = "runs"

// modelArgs accepts from least to most arguments. The first is the folder of a run.
func modelArgs(least, most int) cobra.PositionalArgs {
	count := wantArgs(least, most)
	return func(cmd *cobra.Command, args []string) error {
		if err := count(cmd, args); err != nil {
			return err
		}
		return wantModel(args[0])
	}
}

// wantModel returns an error if no model or run is in the folder of that name.
func wantModel(dir string) error {
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		return nil // other problems are left to its reader
	}
	return noModel(dir)
}

// noModel is the error where there is no folder of that name. It lists the runs that exist.
func noModel(dir string) error {
	found := runs()
	if len(found) == 0 {
		return fmt.Errorf("no model %s: there is no such folder, and no run in %s; hippo train makes one", dir, runsDir)
	}
	meant := config.DidYouMean(filepath.ToSlash(dir), found)
	if below := filepath.ToSlash(filepath.Join(runsDir, dir)); slices.Contains(found, below) {
		meant = "; did you mean " + below + "?"
	}
	const most = 12
	list := strings.Join(found[:min(most, len(found))], ", ")
	if more := len(found) - most; more > 0 {
		list += fmt.Sprintf(" and %d more", more)
	}
	return fmt.Errorf("no model %s: there is no such folder; the runs here, newest first, are %s%s", dir, list, meant)
}

// runs are the folders below runsDir that hold a run with a checkpoint, the one last written first.
func runs() []string {
	type run struct {
		dir string
		at  time.Time
	}
	var found []run
	const deepest = 5 // runs/task/TASK/RECIPE-seedN, and those of tables and comparisons in folders of their own
	// Folders that cannot be read are not offered.
	_ = filepath.WalkDir(runsDir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			return nil
		}
		for _, sub := range []string{model.LastDir, model.BestDir} {
			if info, err := os.Stat(filepath.Join(path, sub)); err == nil && info.IsDir() {
				found = append(found, run{filepath.ToSlash(path), info.ModTime()})
				return filepath.SkipDir
			}
		}
		if strings.Count(filepath.ToSlash(path), "/") >= deepest {
			return filepath.SkipDir
		}
		return nil
	})
	slices.SortStableFunc(found, func(a, b run) int {
		return cmp.Or(b.at.Compare(a.at), strings.Compare(a.dir, b.dir))
	})
	var names []string
	for _, r := range found {
		names = append(names, r.dir)
	}
	return names
}
