package hub

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/hippo-ssm/hippo/checkpoint"
)

// Resolve returns the path of the model that a user names. An existing path takes precedence. Otherwise name is that of
// a published model in the cache (org/name, with :file, :quantisation or :revision), and of returns the model's path.
// If there is neither, the error comes from absent and names the command that downloads the model.
func Resolve(name string, of func(Found) string, absent func(error) error) (string, error) {
	_, noPath := os.Stat(name)
	if noPath == nil {
		return name, nil
	}
	published, notName := ParseName(name)
	if notName != nil {
		if errors.Is(noPath, fs.ErrNotExist) {
			return "", absent(noPath)
		}
		return name, nil // whoever reads it reports problems
	}
	cache, err := DefaultCache()
	if err != nil {
		return "", err
	}
	found, err := cache.Find(published)
	if err == nil {
		return of(found), nil
	}
	if errors.Is(err, fs.ErrNotExist) { // nothing is cached, so it may be meant as a path
		err = absent(noPath)
		if strings.Contains(name, ":") || strings.Contains(name, "/") && !checkpoint.HasEnding(name) {
			err = fmt.Errorf("%w; if it is the name of a published model, hippo pull %s fetches it", err, published)
		}
	}
	return "", err
}

// File returns the weights' file if there is only one, or else Path.
func (f Found) File() string {
	if len(f.Weights) == 1 {
		return f.Weights[0]
	}
	return f.Path()
}
