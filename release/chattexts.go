package release

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/hippo-ssm/hippo/chat/template"
	"github.com/hippo-ssm/hippo/internal/disk"
)

// ChatFiles are the files of a model's folder that say how to talk with it.
var ChatFiles = []string{template.ConfigFile, template.SourceFile, template.GenerationFile}

// ChatTexts are the contents of ChatFiles for the model at a path, by name: in the folder, inside the GGUF file, or
// beside the file of another checkpoint.
func ChatTexts(path string) (map[string][]byte, error) {
	texts := map[string][]byte{}
	if IsGGUF(path) {
		t, err := ReadGGUFTexts(path)
		for name, text := range map[string][]byte{
			template.ConfigFile: t.TokenizerConfig, template.GenerationFile: t.Generation,
		} {
			if text != nil {
				texts[name] = append(text, '\n')
			}
		}
		return texts, err
	}
	dir := path
	if info, err := os.Stat(path); err != nil || !info.IsDir() {
		dir = filepath.Dir(path)
	}
	for _, name := range ChatFiles {
		text, err := disk.ReadText(filepath.Join(dir, name), disk.MaxText)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		texts[name] = text
	}
	return texts, nil
}

// WriteChatTexts writes what ChatTexts read into a folder.
func WriteChatTexts(dir string, texts map[string][]byte) error {
	for _, name := range sortedKeys(texts) {
		if err := os.WriteFile(filepath.Join(dir, name), texts[name], 0o666); err != nil {
			return err
		}
	}
	return nil
}
