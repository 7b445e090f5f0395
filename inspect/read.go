package inspect

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hippo-ssm/hippo/chat/template"
	"github.com/hippo-ssm/hippo/checkpoint"
	"github.com/hippo-ssm/hippo/experiment"
	"github.com/hippo-ssm/hippo/fit"
	"github.com/hippo-ssm/hippo/internal/brief"
	"github.com/hippo-ssm/hippo/internal/disk"
	"github.com/hippo-ssm/hippo/internal/status"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/release"
	"github.com/hippo-ssm/hippo/tokenizer"
	"github.com/hippo-ssm/hippo/tokenizer/sentencepiece"
)

// unfinished lists the suffixes of incomplete downloads.
var unfinished = []string{".incomplete", ".part", ".partial", ".crdownload", ".download", ".aria2", ".tmp"}

// Path describes the file or folder at a path. If only a part can be read, the report holds that part, and the error
// describes the problem. Kind is empty if nothing can be read.
func Path(path string) (*Report, error) {
	r := &Report{Path: path}
	return r, r.read()
}

func (r *Report) read() error {
	info, err := os.Stat(r.Path)
	if err != nil {
		return err
	}
	ending := filepath.Ext(r.Path)
	switch {
	case info.IsDir():
		return r.readFolder()
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s: found no regular file, want a file or a folder", r.Path)
	case slices.Contains(unfinished, ending):
		return fmt.Errorf("%s: found an unfinished download of %s so far: hippo pull NAME resumes its own",
			r.Path, status.Bytes(info.Size()))
	case ending == ".json" && !strings.HasSuffix(r.Path, checkpoint.IndexSuffix):
		return r.readJSON()
	case ending == filepath.Ext(sentencepiece.ModelName):
		return r.readTokenizer()
	}
	return r.readCheckpoint()
}

// readFolder describes the model in a folder, or a task's run.
func (r *Report) readFolder() error {
	network, err := model.FindNetwork(r.Path)
	if err != nil {
		return err
	}
	if network != nil && network.Config.Signal.Columns() {
		r.Kind, r.network = kindFit, network
		r.Fit, err = fit.ReadResult(r.Path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}
	if network != nil {
		r.Kind, r.network = kindTask, network
		r.Task, err = experiment.ReadResult(r.Path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}
	dir, err := model.Resolve(r.Path)
	if err != nil {
		return errors.Join(err, r.inFolder())
	}
	r.Kind, r.Folder = kindFolder, dir
	var problems []error
	if r.Family, err = release.ModelType(dir); err != nil {
		return err
	}
	if f, err := release.OpenWeights(dir); err == nil {
		r.setWeights(f)
		r.LeftOut = release.LeftOut(dir, f)
		problems = append(problems, f.Close())
	}
	m, _, err := release.Describe(r.Path) // also reports problems of the weights
	if err == nil {
		r.setModel(m)
	}
	problems = append(problems, err)
	tok, err := tokenizer.Load(dir)
	if err == nil {
		r.setTokenizer(tok)
	} else if !errors.Is(err, fs.ErrNotExist) {
		problems = append(problems, err)
	}
	c, err := template.Load(dir)
	r.Template = len(c.Source(false))
	return errors.Join(append(problems, err)...)
}

// inFolder returns an error that names other files in a folder without a model.
func (r *Report) inFolder() error {
	entries, err := os.ReadDir(r.Path)
	if err != nil {
		return err
	}
	var files, pieces []string
	for _, e := range entries {
		path := filepath.Join(r.Path, e.Name())
		switch {
		case checkpoint.HasEnding(e.Name()), e.Name() == tokenizer.FileName,
			strings.HasSuffix(e.Name(), checkpoint.IndexSuffix):
			files = append(files, path)
		case slices.Contains(unfinished, filepath.Ext(e.Name())):
			pieces = append(pieces, path)
		}
	}
	switch {
	case len(entries) == 0:
		return errors.New("the folder is empty")
	case len(files) > 0:
		return fmt.Errorf("hippo info describes these files in it: %s", brief.Line(brief.List(files, ", ")))
	case len(pieces) > 0:
		return fmt.Errorf("it holds unfinished downloads: %s", brief.Line(brief.List(pieces, ", ")))
	}
	return nil
}

// readJSON describes a tokenizer.json or a config.json.
func (r *Report) readJSON() error {
	if filepath.Base(r.Path) != model.ConfigFile {
		return r.readTokenizer()
	}
	data, err := disk.ReadText(r.Path, disk.MaxText)
	if err != nil {
		return err
	}
	c, err := release.ParseConfig(data)
	if err != nil {
		return fmt.Errorf("%s: %w", r.Path, err)
	}
	plan, err := c.Plan()
	if err != nil {
		return fmt.Errorf("%s: %w", r.Path, err)
	}
	r.Kind, r.Config = kindConfig, fmt.Sprintf("%d: %s", len(plan), brief.Line(compact(plan)))
	r.Family, err = release.ModelType(filepath.Dir(r.Path))
	return err
}

func (r *Report) readTokenizer() error {
	tok, err := tokenizer.Load(r.Path)
	if err != nil {
		if filepath.Ext(r.Path) == ".json" && filepath.Base(r.Path) != tokenizer.FileName {
			err = fmt.Errorf("%w; want a tokenizer.json, a config.json, an index (NAME%s) or the folder of one",
				err, checkpoint.IndexSuffix)
		}
		return err
	}
	r.Kind = kindTokenizer
	r.setTokenizer(tok)
	return nil
}

// readCheckpoint describes a file of tensors, and the model that hippo convert would write.
func (r *Report) readCheckpoint() error {
	f, err := checkpoint.Open(r.Path)
	if err != nil {
		return err
	}
	defer f.Close()
	r.Kind = kindCheckpoint
	r.setWeights(f)
	m, config, err := release.DescribeCheckpoint(f, release.ShapeOptions{})
	if err != nil {
		r.Problem = err.Error()
	} else {
		r.Config = cmp.Or(config, "the tensors")
		r.setModel(m)
	}
	if f.Format() == checkpoint.FormatGGUF {
		r.Family, _ = f.Values()["general.architecture"].(string)
		r.LeftOut = release.LeftOut("", f)
		texts, err := release.ReadGGUFTexts(r.Path)
		if err != nil {
			r.NoTexts = err.Error()
		}
		r.Template = len(texts.Template)
		r.setTokenizer(texts.Tokenizer)
	} else if config != "" {
		r.Family, _ = release.ModelType(filepath.Dir(r.Path)) // the file was read before
	}
	return nil
}
