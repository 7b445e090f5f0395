package hippo

import (
	"errors"
	"fmt"
	"os"

	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/release"
)

// ErrBase is the error of an adapter for a model that it was not made for.
var ErrBase = release.ErrBase

// Adapter has Load give the model the adapter in a folder: one that hippo train --lora.rank made, or the PEFT library
// (LoRA, arXiv:2106.09685). An adapter that says which weights it was made for takes no others (ErrBase).
func Adapter(dir string) LoadOption {
	return func(o *loadOptions) error {
		if dir == "" {
			return errors.New("adapter: found no folder, want that of an adapter")
		}
		if o.adapter != "" {
			return fmt.Errorf("adapter: found %s besides %s, want one: a model has one adapter", dir, o.adapter)
		}
		o.adapter = dir
		return nil
	}
}

// WithAdapter returns the model with the adapter in a folder. Both have the same weights in memory: the adapter is all
// that is read, and any number of adapters may be used beside each other. None of them can be changed any more.
func (m *Model) WithAdapter(dir string) (*Model, error) {
	net, err := m.net.Beside()
	if err != nil {
		return nil, err
	}
	other := &Model{net: net, tok: m.tok, dir: m.dir, ends: m.ends, weights: m.weights}
	if err := other.attach(dir); err != nil {
		return nil, err
	}
	return other, nil
}

// attach gives the model itself the adapter in a folder.
func (m *Model) attach(dir string) error {
	a, err := release.ReadAdapter(dir)
	if err != nil {
		return err
	}
	weights := ""
	if a.Weights != "" {
		if weights, err = m.weights(); err != nil {
			return err
		}
	}
	if err := a.Attach(m.net, m.dir, weights); err != nil {
		return err
	}
	m.adapter = a.Dir
	return nil
}

// AdapterDir is the folder that the model's adapter was read from, "" for a model without.
func (m *Model) AdapterDir() string { return m.adapter }

// Merge adds the changes of the adapter to the weights of the model, so that it can be saved as a model of its own. The
// model must have been loaded without a Precision, and have its weights for itself.
func (m *Model) Merge() error {
	err := m.net.Merge()
	if err == nil {
		m.adapter = ""
	}
	return err
}

// findBase is dir or, of the folder of an adapter alone, the model that it was made for.
func (o *loadOptions) findBase(dir string) (string, error) {
	if !isAdapterAlone(dir) {
		return dir, nil
	}
	if o.adapter != "" {
		return "", fmt.Errorf("adapter: found %s for %s, which is an adapter itself: want the model that both are for",
			o.adapter, dir)
	}
	o.adapter = dir
	return AdapterBase(dir, func(name string) (string, error) {
		_, err := os.Stat(name)
		return name, err
	})
}

// isAdapterAlone tells whether a folder has an adapter and no model.
func isAdapterAlone(dir string) bool {
	if release.IsGGUF(dir) || !release.IsAdapter(dir) {
		return false
	}
	_, err := model.Resolve(dir)
	return err != nil
}

// AdapterBase is where the model is that the adapter in a folder was made for: where it was then or, if nothing is
// there now, where find finds a model of its name. It is dir itself where that is no folder of an adapter alone.
func AdapterBase(dir string, find func(name string) (path string, err error)) (string, error) {
	if !isAdapterAlone(dir) {
		return dir, nil
	}
	a, err := release.ReadAdapter(dir)
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(a.Path); a.Path != "" && err == nil {
		return a.Path, nil
	}
	if a.Name != "" {
		if path, err := find(a.Name); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("%s: found an adapter, but not the model that it was made for, %q at %q; want that "+
		"model with --adapter %s", dir, a.Name, a.Path, dir)
}
