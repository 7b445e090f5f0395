package task

import (
	"fmt"
	"strings"
)

// Find returns the task with the given name.
func Find(name string) (*Task, error) {
	var names []string
	for _, t := range all {
		if t.Name == name {
			return t, nil
		}
		names = append(names, t.Name)
	}
	return nil, fmt.Errorf("task: found %q, want one of %s", name, strings.Join(names, ", "))
}
