//go:build !darwin && !dragonfly && !freebsd && !linux && !windows

package disk

import "errors"

// Space returns errors.ErrUnsupported.
func Space(string) (free int64, err error) { return 0, errors.ErrUnsupported }
