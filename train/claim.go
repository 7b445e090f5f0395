package train

import (
	"context"
	"errors"
	"fmt"

	"github.com/hippo-ssm/hippo/internal/disk"
)

// Claim locks the folder of a run for this process.
func Claim(dir string) (*disk.Lock, error) {
	lock, err := disk.ClaimDir(dir)
	if err != nil {
		return nil, fmt.Errorf("out: %w", err)
	}
	return lock, nil
}

// InFolder calls do while the folder is claimed: no other process runs there meanwhile, on any machine that shares the
// folder. See disk.Claim.
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
