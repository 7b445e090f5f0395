package train

import (
	"cmp"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/hippo-ssm/hippo/model"
)

// Runs returns the folders below root that hold a run with a checkpoint, with slashes, the last written first.
func Runs(root string) []string {
	type run struct {
		dir string
		at  time.Time
	}
	var found []run
	const deepest = 5 // runs/task/TASK/RECIPE-seedN, and those of tables and comparisons in folders of their own
	// Folders that cannot be read are not offered.
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
