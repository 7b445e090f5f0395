package release

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/hippo-ssm/hippo/chat/template"
	"github.com/hippo-ssm/hippo/internal/disk"
	"github.com/hippo-ssm/hippo/model"
)

// ChatFiles lists the files of a model's folder that describe its chat format, and the configuration that it was
// published with. They are copied to models that are made from it.
var ChatFiles = []string{template.ConfigFile, template.SourceFile, template.GenerationFile, PublishedFile}

// ChatTexts returns the contents of ChatFiles by name for the model at a path: from its folder, from inside its GGUF
// file, or from the folder of another checkpoint file.
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
		if t.Published != nil {
			texts[PublishedFile] = t.Published
		}
		return texts, err
	}
	dir := folderOf(path)
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
	if text, err := disk.ReadText(filepath.Join(dir, model.ConfigFile), maxConfig); err == nil &&
		isHF(hfType(pythonJSON(text))) {
		texts[PublishedFile] = text
	}
	return texts, nil
}

// folderOf returns path if it is a folder, else the folder that contains it.
func folderOf(path string) string {
	if info, err := os.Stat(path); err != nil || !info.IsDir() {
		return filepath.Dir(path)
	}
	return path
}

// WriteChatTexts writes the result of ChatTexts into a folder.
func WriteChatTexts(dir string, texts map[string][]byte) error {
	for _, name := range sortedKeys(texts) {
		if err := os.WriteFile(filepath.Join(dir, name), texts[name], 0o666); err != nil {
			return err
		}
	}
	return nil
}
