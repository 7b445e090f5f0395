package hippo

import (
	"errors"
	"fmt"
	"os"

	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/release"
)

// ErrBase reports that an adapter was trained for another model.
var ErrBase = release.ErrBase

// Adapter makes Load attach the adapter in a folder to the model. Adapters come from hippo train --lora.rank or from
// the PEFT library (LoRA, arXiv:2106.09685). If the adapter records the weights that it was trained for and the model
// has other weights, the error is ErrBase.
func Adapter(dir string) LoadOption {
	return func(o *loadOptions) error {
		if dir == "" {
			return errors.New("adapter: found no folder, want one of an adapter")
		}
		if o.adapter != "" {
			return fmt.Errorf("adapter: found %s in addition to %s, want one: a model has one adapter", dir, o.adapter)
		}
		o.adapter = dir
		return nil
	}
}

// WithAdapter returns another model, with the weights of m and the adapter in dir. Both models share the weights in
// memory, and only the adapter is read. Any number of adapters may be in use at once. After this call none of these
// models can be changed.
func (m *Model) WithAdapter(dir string) (*Model, error) {
	net, err := m.net.Beside()
	if err != nil {
		return nil, err
	}
	other := &Model{net: net, tok: m.tok, dir: m.dir, ends: m.ends, weights: m.weights}
	if err := other.attach(dir); err != nil {
		return nil, err
	}
	net.Place()
	return other, nil
}

// attach attaches the adapter in dir to m itself.
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

// AdapterDir returns the folder of the model's adapter, or "" if it has none.
func (m *Model) AdapterDir() string { return m.adapter }

// Merge adds the adapter's changes to the weights of the model, which can then be saved without the adapter. The model
// must have been loaded without a Precision and must not share its weights with another model.
func (m *Model) Merge() error {
	err := m.net.Merge()
	if err == nil {
		m.adapter = ""
	}
	return err
}

// findBase returns dir or, if dir holds only an adapter, the folder of the model that the adapter was trained for.
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

// isAdapterAlone reports whether a folder holds an adapter and no model.
func isAdapterAlone(dir string) bool {
	if !release.IsAdapter(dir) {
		return false
	}
	_, err := model.Resolve(dir) // fails for a GGUF file
	return err != nil
}

// AdapterBase returns the folder of the model that the adapter in dir was trained for. It is the folder recorded with
// the adapter or, if that no longer exists, the one that find returns for the model's name. If dir holds a model, or no
// adapter, AdapterBase returns dir.
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
