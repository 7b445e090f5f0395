package text

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hippo-ssm/hippo/internal/disk"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/train"
)

// holdsRun reports whether a folder holds a model, or a run with a checkpoint. A run without one may be overwritten.
func holdsRun(dir string) bool {
	for _, name := range []string{model.LastDir, model.ConfigFile} {
		if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
			return true
		}
	}
	return false
}

// checkOut returns an error if the configured folder holds a run or model already.
func (c *Config) checkOut() error {
	if c.Out != "" && holdsRun(c.Out) {
		return fmt.Errorf("out: found a run or model in %s, want an empty or new folder (to continue it: "+
			"hippo train --resume %s)", c.Out, c.Out)
	}
	return nil
}

// checkFree is checkOut, but reports a run that is still in progress as such, since it cannot be resumed now.
func (c *Config) checkFree() error {
	taken := c.checkOut()
	if taken == nil {
		return nil
	}
	lock, err := disk.LockDir(c.Out)
	var locked *disk.LockedError
	if errors.As(err, &locked) {
		return fmt.Errorf("out: %w", err)
	}
	if err == nil {
		err = lock.Release()
	}
	return errors.Join(taken, err)
}

// claimNew claims the folder of a new run: the configured one, which must hold no run, or the first free one. It sets
// Out to that folder.
func (c *Config) claimNew() (*disk.Lock, error) {
	if c.Out != "" {
		if err := c.checkFree(); err != nil {
			return nil, err
		}
		lock, err := train.Claim(c.Out)
		if err != nil {
			return nil, err
		}
		if err := c.checkOut(); err != nil { // another run has just ended there
			return nil, errors.Join(err, lock.Release())
		}
		return lock, nil
	}
	for n := 1; ; n++ {
		dir := filepath.Join("runs", c.runName())
		if n > 1 {
			dir = fmt.Sprintf("%s-%d", dir, n)
		}
		if holdsRun(dir) {
			continue
		}
		lock, err := train.Claim(dir)
		var locked *disk.LockedError
		switch {
		case errors.As(err, &locked): // the folder of a run without a checkpoint so far
			continue
		case err != nil:
			return nil, err
		case !holdsRun(dir):
			c.Out = dir
			return lock, nil
		}
		if err := lock.Release(); err != nil {
			return nil, err
		}
	}
}

// runName returns a name for the run: that of the model that it starts from, or its preset.
func (c *Config) runName() string {
	if c.Base.Path == "" {
		return c.Preset
	}
	parts := strings.FieldsFunc(c.Base.Name, func(r rune) bool { return r == '/' || r == filepath.Separator })
	for _, part := range slices.Backward(parts) {
		part, _, _ = strings.Cut(part, ":")
		if !slices.Contains([]string{model.BestDir, model.LastDir, ".", "..", ""}, part) {
			return part
		}
	}
	return c.Preset
}

// Anywhere makes the paths of the texts and of the base model absolute, so that the run can be resumed from any folder.
func (c *Config) Anywhere() (err error) {
	if disk.Exists(c.Init) {
		if c.Init, err = filepath.Abs(c.Init); err != nil {
			return err
		}
	}
	if c.Data, err = absolute(c.Data); err == nil {
		c.Valid, err = absolute(c.Valid)
	}
	return err
}

func absolute(specs []string) ([]string, error) {
	out := make([]string, len(specs))
	for i, spec := range specs {
		out[i] = spec
		if spec == "-" {
			continue
		}
		var err error
		if out[i], err = filepath.Abs(spec); err != nil {
			return nil, err
		}
	}
	return out, nil
}
