// Package convert converts models: a published checkpoint to a folder, a model to a GGUF file for llama.cpp, an adapter
// and its model to a merged model, and weights to few bits.
package convert

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/hippo-ssm/hippo"
	"github.com/hippo-ssm/hippo/checkpoint"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/release"
	"github.com/hippo-ssm/hippo/tokenizer"
)

// modelFiles lists the files of a model's folder.
var modelFiles = append([]string{model.ConfigFile, model.WeightsFile, tokenizer.FileName, release.MTPFile,
	checkpoint.ManifestFile},
	release.ChatFiles...)

// CheckOut returns an error if writing to a folder would lose something. With force, only the files of a model may be
// replaced.
func CheckOut(dir string, force bool) error {
	if dir, err := filepath.Abs(dir); err != nil {
		return err
	} else if here, err := os.Getwd(); err == nil && dir == here {
		return fmt.Errorf("%s is the folder you are in, want another: it is put in place as a whole", dir)
	}
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("%s: want a folder: %w", dir, err)
	}
	for _, e := range entries {
		isOurs := slices.Contains(modelFiles, e.Name())
		switch {
		case isOurs && !force:
			return fmt.Errorf("%s: found %s in it, want an empty or new folder (--force replaces a model)", dir,
				e.Name())
		case !isOurs:
			return fmt.Errorf("%s: found %s in it, which is no file of a model; want an empty or new folder", dir,
				e.Name())
		}
	}
	return nil
}

// WriteFolder writes a model's folder atomically: the files of save, a tokenizer, which may be nil, and further files.
func WriteFolder(dir string, save func(dir string) error, tok tokenizer.Tokenizer, more map[string][]byte) error {
	return checkpoint.WriteDirAtomic(dir, func(tmp string) error {
		if err := release.WriteChatTexts(tmp, more); err != nil {
			return err
		}
		if err := save(tmp); err != nil || tok == nil {
			return err
		}
		return tok.Save(tmp)
	})
}

// writeChanged writes the folder of a model that was changed in memory, with the tokenizer and the chat texts that it
// was loaded with.
func writeChanged(dir string, m *hippo.Model, save func(dir string) error) error {
	texts, err := release.FolderTexts(m.Dir())
	if err != nil {
		return err
	}
	m.Net().Config.Tokenizer = m.Tokenizer().Fingerprint()
	return WriteFolder(dir, save, m.Tokenizer(), texts)
}

// weightsSize returns the size in bytes of the weights in a folder or a GGUF file.
func weightsSize(dir string) (int64, error) {
	open := release.OpenWeights
	if release.IsGGUF(dir) {
		open = checkpoint.OpenGGUF
	}
	f, err := open(dir)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	return int64(f.Size()), nil
}

// samePlace reports whether two paths are the same file or folder.
func samePlace(a, b string) (bool, error) {
	x, err := os.Stat(a)
	if err != nil {
		return false, err
	}
	y, err := os.Stat(b)
	return err == nil && os.SameFile(x, y), nil // a path that does not exist yet is another place
}
