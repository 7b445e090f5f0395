package release

import (
	"fmt"
	"path/filepath"

	"github.com/hippo-ssm/hippo/internal/brief"
	"github.com/hippo-ssm/hippo/internal/disk"
	"github.com/hippo-ssm/hippo/model"
)

// maxConfig is the maximum size of a configuration in bytes.
const maxConfig = 1 << 20

// ParseConfig parses a config.json, in hippo's flat form or in that of any family.
func ParseConfig(data []byte) (model.Config, error) {
	p, err := parse(data)
	return p.config, brief.Error(err)
}

// ReadConfig reads and validates DIR/config.json.
func ReadConfig(dir string) (model.Config, error) {
	p, err := readConfig(filepath.Join(dir, model.ConfigFile), 0)
	return p.config, err
}

// ModelType returns the model_type of DIR/config.json, by which the transformers library identifies families, supported
// or not. It returns "" if there is none.
func ModelType(dir string) (string, error) {
	data, err := disk.ReadText(filepath.Join(dir, model.ConfigFile), maxConfig)
	return brief.Line(hfType(pythonJSON(data))), err
}

// readConfig reads and validates a configuration. heads overrides its number of attention heads, 0 for no change.
func readConfig(path string, heads int) (published, error) {
	data, err := disk.ReadText(path, maxConfig)
	if err != nil {
		return published{}, err
	}
	p, err := parse(data)
	if err == nil {
		if heads > 0 {
			p.config.NumHeads = heads
		}
		err = p.config.Validate()
	}
	if err != nil {
		return p, brief.Error(fmt.Errorf("%s: %w", path, err))
	}
	return p, nil
}
