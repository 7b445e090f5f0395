package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hippo-ssm/hippo/checkpoint"
	"github.com/hippo-ssm/hippo/release/hub"
)

// modelPath is where the model is that a user names: a path that exists, which always wins, or the name of a published
// model in the hub's cache (org/name, with :file, :quantisation or :revision).
func modelPath(name string) (string, error) {
	return resolveModel(name, hub.Found.Path, func(error) error { return noModel(name) })
}

// modelFile is modelPath for commands that take one file: the file of the weights, where there is only one.
func modelFile(name string) (string, error) {
	return resolveModel(name, oneFile, func(err error) error { return err })
}

// modelOrFile is modelPath for commands that take files of weights in any format: of a published model the file, where
// there is only one.
func modelOrFile(name string) (string, error) {
	return resolveModel(name, oneFile, func(error) error { return noModel(name) })
}

// oneFile is the file of the weights of a published model, where there is only one, or else where the model is.
func oneFile(f hub.Found) string {
	if len(f.Weights) == 1 {
		return f.Weights[0]
	}
	return f.Path()
}

// resolveModel is modelPath. of is what is taken of a published model, absent the error where there is neither a path
// nor a model.
func resolveModel(name string, of func(hub.Found) string, absent func(error) error) (string, error) {
	_, noPath := os.Stat(name)
	if noPath == nil {
		return name, nil
	}
	published, notName := hub.ParseName(name)
	if notName != nil {
		if errors.Is(noPath, fs.ErrNotExist) {
			return "", absent(noPath)
		}
		return name, nil // what is wrong with it its reader says
	}
	cache, err := hub.DefaultCache()
	if err != nil {
		return "", err
	}
	found, err := cache.Find(published)
	if err == nil {
		return of(found), nil
	}
	if errors.Is(err, fs.ErrNotExist) { // nothing of it is there: it may be meant for a path
		err = absent(noPath)
		if strings.Contains(name, ":") || strings.Contains(name, "/") && !checkpoint.HasEnding(name) {
			err = fmt.Errorf("%w; if it is the name of a published model, hippo pull %s fetches it", err, published)
		}
	}
	return "", err
}

// publishedName reads the argument of a command that is about published models, and finds their cache.
func publishedName(text string) (hub.Name, hub.Cache, error) {
	name, err := hub.ParseName(text)
	if err != nil {
		return name, hub.Cache{}, err
	}
	cache, err := hub.DefaultCache()
	return name, cache, err
}

// completePublished offers the models of the hub's cache.
func completePublished(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	var names []string
	if cache, err := hub.DefaultCache(); err == nil {
		list, err := cache.List()
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		for _, e := range list {
			names = append(names, e.Name)
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
