package train

import (
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

// InFolder does something in a folder that is claimed for it: no other process runs there meanwhile.
func InFolder(dir string, do func() error) error {
	lock, err := Claim(dir)
	if err != nil {
		return err
	}
	return errors.Join(do(), lock.Release())
}
