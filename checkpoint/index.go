package checkpoint

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hippo-ssm/hippo/internal/brief"
	"github.com/hippo-ssm/hippo/internal/disk"
)

// IndexSuffix is the suffix of the name of the index of a model in several safetensors files.
const IndexSuffix = ".safetensors.index.json"

// maxShards limits the cost of a hostile index. The largest published models have some hundreds of files.
const maxShards = 10_000

// OpenIndex opens the safetensors files that an index (NAME.safetensors.index.json) names as one file with the tensors
// of all. It does not open files of other folders, whether the index names them or links lead to them (see inFolder).
// If the index and the files disagree, the error lists all tensors that they disagree about.
func OpenIndex(path string) (*File, error) {
	var index struct {
		Files map[string]string `json:"weight_map"`
	}
	if err := disk.ReadJSON(path, &index); err != nil {
		return nil, fmt.Errorf("checkpoint: %w", err)
	}
	f := &File{path: path, format: FormatSafetensors, tensors: map[string]*Tensor{}, meta: map[string]string{}}
	if err := f.openShards(index.Files); err != nil {
		f.Close()
		return nil, brief.Error(fmt.Errorf("checkpoint: %s: %w", path, err))
	}
	return f, nil
}

func (f *File) openShards(files map[string]string) error {
	names := slices.Compact(slices.Sorted(maps.Values(files)))
	if len(names) == 0 || len(names) > maxShards {
		return fmt.Errorf("weight_map: found %d files, want 1 to %d", len(names), maxShards)
	}
	var problems []error
	for _, name := range names {
		path, err := inFolder(filepath.Dir(f.path), name)
		if err != nil {
			return fmt.Errorf("weight_map: %w", err)
		}
		shard, err := OpenSafetensors(path)
		if err != nil {
			return err
		}
		f.shards = append(f.shards, shard)
		maps.Copy(f.meta, shard.meta)
		for _, tensor := range shard.names {
			if files[tensor] != name {
				problems = append(problems,
					fmt.Errorf("%s: found in %s, where the index does not have it", tensor, name))
			} else if err := f.add(shard.tensors[tensor]); err != nil {
				return err
			}
		}
	}
	for _, tensor := range slices.Sorted(maps.Keys(files)) {
		if f.tensors[tensor] == nil {
			problems = append(problems, fmt.Errorf("%s: missing in %s, where the index has it", tensor, files[tensor]))
		}
	}
	return errors.Join(problems...)
}

// inFolder returns the path of a file in folder dir, for a name from another file. A link may lead to another file of
// the folder or, from a snapshot in a hub's cache (snapshots/REVISION), to the cache's folder of contents (blobs).
func inFolder(dir, name string) (string, error) {
	if name == "" || name != filepath.Base(name) || strings.ContainsAny(name, `/\:`) || name == "." || name == ".." {
		return "", fmt.Errorf("found the file %q, want the name of a file of the folder", name)
	}
	path := filepath.Join(dir, name)
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return "", err
	}
	folder, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return "", err
	}
	inside := filepath.Dir(real) == folder
	if parent := filepath.Dir(folder); filepath.Base(parent) == "snapshots" {
		inside = inside || filepath.Dir(real) == filepath.Join(filepath.Dir(parent), "blobs")
	}
	if !inside {
		return "", fmt.Errorf("found the file %q, which is a link to %s, want a file of the folder", name, real)
	}
	return path, nil
}
