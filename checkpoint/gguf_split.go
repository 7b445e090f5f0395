package checkpoint

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"

	"github.com/hippo-ssm/hippo/internal/brief"
)

// The parts into which llama.cpp's gguf-split divides a GGUF file are named NAME-00001-of-00003.gguf and so on. The
// first has all values. Each part has its number, from 0 on, the number of parts, and the number of tensors in all
// parts.
const (
	splitNumber  = "split.no"
	splitCount   = "split.count"
	splitTensors = "split.tensors.count"
)

var splitName = regexp.MustCompile(`^(.*)-(\d{5})-of-(\d{5})\.gguf$`)

// withParts opens the other parts of a GGUF file, if it is one of several, as one file with the values of the first
// part and the tensors of all parts. It closes f if that is not possible.
func (f *File) withParts() (*File, error) {
	count, err := f.splitValue(splitCount, maxShards)
	if err == nil && count <= 1 {
		return f, nil
	}
	all := &File{path: f.path, format: FormatGGUF, tensors: map[string]*Tensor{}, shards: []*File{f}}
	if err == nil {
		err = all.openParts(count)
	}
	if err != nil {
		all.Close()
		return nil, brief.Error(fmt.Errorf("checkpoint: %s: %w", f.path, err))
	}
	return all, nil
}

// openParts opens all parts of a split file except the one that is open already.
func (f *File) openParts(count int) error {
	given, err := f.shards[0].part(count)
	if err != nil {
		return err
	}
	match := splitName.FindStringSubmatch(filepath.Base(f.path))
	if match == nil || match[2] != fmt.Sprintf("%05d", given+1) || match[3] != fmt.Sprintf("%05d", count) {
		return fmt.Errorf("found part %d of %d, want it under the name NAME-%05d-of-%05d.gguf, "+
			"by which the others are found", given+1, count, given+1, count)
	}
	parts := make([]*File, count)
	parts[given] = f.shards[0]
	var problems []error
	for i := range parts {
		if i == given {
			continue
		}
		name := fmt.Sprintf("%s-%05d-of-%05d.gguf", match[1], i+1, count)
		path, err := inFolder(filepath.Dir(f.path), name)
		if err == nil {
			parts[i], err = open(path, (*File).readGGUF)
		}
		if errors.Is(err, os.ErrNotExist) {
			err = fmt.Errorf("%s: missing, want %d parts", name, count)
		}
		if err != nil {
			problems = append(problems, err)
			continue
		}
		f.shards = append(f.shards, parts[i])
		if no, err := parts[i].part(count); err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", name, err))
		} else if no != i {
			problems = append(problems, fmt.Errorf("%s: found part %d in it, want part %d", name, no+1, i+1))
		}
	}
	if err := errors.Join(problems...); err != nil {
		return err
	}
	return f.joinParts(parts)
}

// joinParts takes the values of the first part and the tensors of all parts.
func (f *File) joinParts(parts []*File) error {
	f.keyValues, f.meta = parts[0].keyValues, parts[0].meta
	for _, part := range parts {
		for _, name := range part.names {
			if err := f.add(part.tensors[name]); err != nil {
				return fmt.Errorf("%s: %w: it is a part of another file", part.path, err)
			}
		}
	}
	want, err := parts[0].splitValue(splitTensors, 1<<31)
	if err == nil && want != len(f.names) {
		err = fmt.Errorf("%s: found %d tensors in all parts, want %d: a part is of another file", splitTensors,
			len(f.names), want)
	}
	return err
}

// part returns the number of the part that f is, from 0 on.
func (f *File) part(count int) (int, error) {
	found, err := f.splitValue(splitCount, maxShards)
	if err != nil {
		return 0, err
	}
	if found != count {
		return 0, fmt.Errorf("%s: found %d, want %d: it is a part of another file", splitCount, found, count)
	}
	return f.splitValue(splitNumber, count-1)
}

// splitValue returns a number from 0 to most. It is 0 if the file has none.
func (f *File) splitValue(key string, most int) (int, error) {
	v, there := f.keyValues[key]
	if !there {
		return 0, nil
	}
	n, err := strconv.Atoi(fmt.Sprint(v))
	if err != nil || n < 0 || n > most {
		return 0, fmt.Errorf("%s: found %s, want a whole number from 0 to %d", key, brief.Value(v), most)
	}
	return n, nil
}
