package model

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/hippo-ssm/hippo/checkpoint"
	"github.com/hippo-ssm/hippo/internal/brief"
	"github.com/hippo-ssm/hippo/internal/disk"
)

// NetworkFile is the name of a network's configuration in its folder.
const NetworkFile = "network.json"

// configFile returns the name and the content of network.json.
func (m *Network) configFile() (name string, text []byte, err error) {
	text, err = json.MarshalIndent(m.Config, "", "  ")
	return NetworkFile, append(text, '\n'), err
}

// FindNetwork loads the network in dir, or in dir/best or dir/last of a task's run. It returns nil if there is none.
func FindNetwork(dir string) (*Network, error) {
	if info, err := os.Stat(dir); err == nil && !info.IsDir() {
		return nil, fmt.Errorf("%s: found a file, want the folder of a task's run", dir)
	}
	path, err := folderOf(dir, NetworkFile)
	if err != nil || path == "" {
		return nil, err
	}
	return LoadNetwork(path)
}

// NetworkOf is FindNetwork, but returns an error if there is no network.
func NetworkOf(dir string) (*Network, error) {
	m, err := FindNetwork(dir)
	if err == nil && m == nil {
		err = fmt.Errorf("%s: found no %s, want the folder of a task's run", dir, NetworkFile)
	}
	return m, err
}

// HasNetwork reports whether FindNetwork finds a network in dir.
func HasNetwork(dir string) (bool, error) {
	if info, err := os.Stat(dir); err == nil && !info.IsDir() {
		return false, nil
	}
	path, err := folderOf(dir, NetworkFile)
	return path != "", err
}

// networkIn returns an error if dir is the folder of a network, for use where a language model is wanted.
func networkIn(dir string) error {
	path, err := folderOf(dir, NetworkFile)
	if err != nil || path == "" {
		return err
	}
	var c NetworkConfig
	if err := disk.ReadJSON(filepath.Join(path, NetworkFile), &c); err != nil {
		return err
	}
	if c.Signal.Columns() {
		return fmt.Errorf("%s: found a network of hippo fit or hippo forecast, want a language model; hippo predict "+
			"%s DATA predicts rows with it, hippo info describes it", dir, dir)
	}
	return fmt.Errorf("%s: found a network of hippo task, want a language model; hippo info describes it and hippo "+
		"explain looks inside", dir)
}

// LoadNetwork reads a network from its folder.
func LoadNetwork(dir string) (m *Network, err error) {
	err = checkpoint.ReadDir(dir, func() error {
		m, err = readNetwork(dir)
		return err
	}, NetworkFile, WeightsFile)
	return m, err
}

func readNetwork(dir string) (*Network, error) {
	path := filepath.Join(dir, NetworkFile)
	c := NetworkConfig{Model: DefaultConfig()}
	if err := disk.ReadJSON(path, &c); err != nil {
		return nil, err
	}
	f, err := checkpoint.OpenSafetensors(filepath.Join(dir, WeightsFile))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if err := checkFile(f, &c.Model); err != nil { // before the layers are built
		return nil, err
	}
	m, err := NewNetwork(c)
	if err != nil {
		return nil, brief.Error(fmt.Errorf("%s: %w", path, err))
	}
	return m, m.Load(ownWeights(f))
}
