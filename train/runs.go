package train

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

	"github.com/hippo-ssm/hippo/internal/disk"
	"github.com/hippo-ssm/hippo/model"
)

// BestOf returns the best measurement on validation data of the run in folder out. It reads the run's result if there
// is one, as runs of fit and of tasks have, else its last checkpoint.
func BestOf(out string) (best Point, err error) {
	var result struct {
		Curve []Point `json:"curve"`
	}
	err = disk.ReadJSON(filepath.Join(out, "result.json"), &result)
	if errors.Is(err, fs.ErrNotExist) {
		var s *Saved
		if s, _, err = readAnyFormat(filepath.Join(out, model.LastDir)); err == nil {
			result.Curve = s.History.Points
		}
	}
	switch {
	case err != nil:
		return best, err
	case len(result.Curve) == 0:
		return best, fmt.Errorf("%s: found no measurement on validation data", out)
	}
	best = result.Curve[0]
	for _, p := range result.Curve[1:] {
		if p.Valid.Better(best.Valid) {
			best = p
		}
	}
	return best, nil
}

// Runs returns the folders below root that hold a run with a checkpoint, as slash-separated paths, most recent first.
func Runs(root string) []string {
	type run struct {
		dir string
		at  time.Time
	}
	var found []run
	const deepest = 5 // runs/task/TASK/RECIPE-seedN, and those of tables and comparisons in folders of their own
	// Skip folders that cannot be read.
	_ = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			return nil
		}
		for _, sub := range []string{model.LastDir, model.BestDir} {
			if info, err := os.Stat(filepath.Join(path, sub)); err == nil && info.IsDir() {
				found = append(found, run{filepath.ToSlash(path), info.ModTime()})
				return filepath.SkipDir
			}
		}
		if strings.Count(filepath.ToSlash(strings.TrimPrefix(path, root)), "/") >= deepest {
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
