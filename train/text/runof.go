package text

import (
	"bytes"
	"cmp"
	"os"
	"path/filepath"

	"github.com/hippo-ssm/hippo/internal/config"
	"github.com/hippo-ssm/hippo/internal/disk"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/train"
)

// RunOf returns the configuration and folder of the training run in dir. dir may also be the folder of the run's best
// or last checkpoint. The returned folder is "" if there is no run.
func RunOf(dir string) (run Config, out string, err error) {
	candidates := []string{dir}
	abs, err := filepath.Abs(dir)
	if base := filepath.Base(abs); err == nil && (base == model.BestDir || base == model.LastDir) {
		candidates = append(candidates, filepath.Dir(abs))
	}
	for _, out := range candidates {
		if info, err := os.Stat(out); err == nil && !info.IsDir() {
			continue // a model in a single file
		}
		if file := filepath.Join(out, train.ConfigFile); disk.Exists(file) && !isOther(out) {
			run, err := Load(config.Options{File: file})
			var said Config
			_ = config.Load(&said, config.Options{File: file})    // its problems are in err
			run.Documents = cmp.Or(said.Documents, documentsJoin) // a run of an earlier version
			return run, out, err
		}
	}
	return Config{}, "", nil
}

// isOther reports whether the folder holds a run of hippo fit or hippo task, which also have a configuration. Of runs
// without a network, only those of hippo fit have the key task.
func isOther(out string) bool {
	has, _ := model.HasNetwork(out)
	text, _ := disk.ReadText(filepath.Join(out, train.ConfigFile), disk.MaxText)
	return has || bytes.Contains(append([]byte{'\n'}, text...), []byte("\ntask:"))
}
