package train

import (
	"context"
	"errors"
	"fmt"

	"github.com/hippo-ssm/hippo/internal/disk"
)

// Claim takes the folder of a run for this process.
func Claim(dir string) (*disk.Lock, error) {
	lock, err := disk.ClaimDir(dir)
	if err != nil {
		return nil, fmt.Errorf("out: %w", err)
	}
	return lock, nil
}

// InFolder does something in a folder that is claimed for it: no other process runs there meanwhile, on any machine
// that shares it. See disk.Claim.
func InFolder(ctx context.Context, dir string, do func(context.Context) error) error {
	begun := false
	err := disk.Claim(ctx, disk.Inside(dir), true, func(ctx context.Context) error {
		begun = true
		lock, err := Claim(dir)
		if err != nil {
			return err
		}
		return errors.Join(do(ctx), lock.Release())
	})
	if err != nil && !begun {
		return fmt.Errorf("out: %w", err)
	}
	return err
}
