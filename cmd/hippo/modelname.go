package main

import (
	"github.com/spf13/cobra"

	"github.com/hippo-ssm/hippo/release/hub"
)

// modelPath returns the path of the model that a user names: see hub.Resolve.
func modelPath(name string) (string, error) {
	return hub.Resolve(name, hub.Found.Path, func(error) error { return noModel(name) })
}

// modelFile is like modelPath, for commands that take one file.
func modelFile(name string) (string, error) {
	return hub.Resolve(name, hub.Found.File, func(err error) error { return err })
}

// modelOrFile is like modelPath, for commands that take weights in any format.
func modelOrFile(name string) (string, error) {
	return hub.Resolve(name, hub.Found.File, func(error) error { return noModel(name) })
}

// publishedName parses the name of a published model, and returns it with the cache of such models.
func publishedName(text string) (hub.Name, hub.Cache, error) {
	name, err := hub.ParseName(text)
	if err != nil {
		return name, hub.Cache{}, err
	}
	cache, err := hub.DefaultCache()
	return name, cache, err
}

// completePublished completes the names of models in the hub's cache.
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
