package compare

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/hippo-ssm/hippo/internal/config"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/train"
	"github.com/hippo-ssm/hippo/train/text"
)

// Entrant is a model of a comparison, with its settings.
type Entrant struct {
	Name   string
	Config text.Config
}

// Entrants returns the models that the arguments of a comparison name. An argument is a preset, a glob over presets, a
// mixer (for its tiny preset), the path of a YAML file, a list of layers such as h3*2,attention in the shape of tiny,
// or init: and the folder of a trained model to continue. Duplicates are dropped.
func Entrants(args []string) ([]Entrant, error) {
	var all []Entrant
	var p config.Problems
	var trained []string
	for _, arg := range args {
		if len(matchingPresets(arg)) == 0 && isModel(arg) {
			trained = append(trained, config.Quote(arg))
			continue
		}
		found, err := entrants(arg)
		p.AddTo(arg, err)
		for _, e := range found {
			if !slices.ContainsFunc(all, func(o Entrant) bool { return o.Name == e.Name }) {
				all = append(all, e)
			}
		}
	}
	if len(trained) > 0 {
		p.Addf("compare", "found trained models, want some to train: "+
			"'hippo eval %s' measures these side by side on the same text; %s in front continues its training; "+
			"the %s of a run's folder trains its shape again", strings.Join(trained, " "), initPrefix, train.ConfigFile)
	} else if len(all) < 2 && len(p) == 0 {
		p.Addf("compare",
			"found one model, want at least 2: presets, globs over them, mixers, lists of layers or YAML files")
	}
	return all, p.Err()
}

// looksLikeLayers matches lists of layers, but not misspelt names.
var looksLikeLayers = regexp.MustCompile(`[,(]|\*\s*\d+$`)

// initPrefix precedes the folder of a trained model that an entrant starts from.
const initPrefix = "init:"

// trainedEntrant returns an entrant with the shape and the weights of a trained model. It trains like tiny, with a
// learning rate for trained models.
func trainedEntrant(arg, path string) (Entrant, error) {
	c, err := text.Preset("tiny")
	if err == nil {
		err = c.StartFrom(path, path)
	}
	return Entrant{arg, c}, err
}

func entrants(arg string) ([]Entrant, error) {
	if path, ok := strings.CutPrefix(arg, initPrefix); ok {
		e, err := trainedEntrant(arg, path)
		return []Entrant{e}, err
	}
	names := matchingPresets(arg)
	if len(names) == 0 && slices.Contains(model.MixerNames(), arg) {
		names = []string{arg + "-tiny"}
	}
	switch {
	case len(names) > 0:
		var all []Entrant
		for _, name := range names {
			c, err := text.Preset(name)
			if err != nil {
				return nil, err
			}
			all = append(all, Entrant{name, c})
		}
		return all, nil
	case isFile(arg):
		c, err := text.Load(config.Options{File: arg})
		name := filepath.Base(arg)
		return []Entrant{{strings.TrimSuffix(name, filepath.Ext(name)), c}}, err
	case looksLikeLayers.MatchString(arg):
		c, err := text.Preset("tiny")
		c.Model.Layers, c.Model.AttnIdx, c.Model.NLayer = arg, nil, 0
		if err == nil {
			err = c.Validate()
		}
		return []Entrant{{arg, c}}, err
	case strings.ContainsAny(arg, "*?["):
		return nil, fmt.Errorf("no preset matches, want one of %s", strings.Join(text.Presets(), ", "))
	}
	known := append(text.Presets(), model.MixerNames()...)
	return nil, fmt.Errorf("no such model, want a preset, a mixer, a list of layers or a YAML file%s",
		config.DidYouMean(arg, known))
}

// isModel reports whether an argument is the folder of a model or of a training run.
func isModel(arg string) bool {
	_, err := model.Resolve(arg)
	return err == nil
}

// matchingPresets returns the presets that a glob matches. A name without a wildcard matches itself.
func matchingPresets(glob string) []string {
	var names []string
	for _, name := range text.Presets() {
		if ok, err := path.Match(glob, name); ok && err == nil {
			names = append(names, name)
		}
	}
	return names
}

// isFile reports whether an argument means a file: it has the extension of a YAML file, which lets a missing file be
// reported as such, or it exists.
func isFile(arg string) bool {
	if ext := filepath.Ext(arg); ext == ".yaml" || ext == ".yml" {
		return true
	}
	info, err := os.Stat(arg)
	return err == nil && info.Mode().IsRegular()
}
