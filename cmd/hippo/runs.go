package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hippo-ssm/hippo/internal/config"
	"github.com/hippo-ssm/hippo/train"
)

// runsDir is the folder in which runs are saved if the user names no folder.
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

// wantModel returns an error if there is no folder of that name.
func wantModel(dir string) error {
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		return nil // its reader reports other problems
	}
	return noModel(dir)
}

// missingModel reports that a name is not that of a folder.
type missingModel struct{ error }

// noModel returns the error for a name that is not that of a folder. The error lists the runs that exist.
func noModel(dir string) error {
	found := train.Runs(runsDir)
	if len(found) == 0 {
		return missingModel{fmt.Errorf("no model %s: there is no such folder, and no run in %s; hippo train makes one",
			dir, runsDir)}
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
	return missingModel{fmt.Errorf("no model %s: there is no such folder; the runs here, newest first, are %s%s",
		dir, list, meant)}
}
