package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// sourceAnnotation marks a flag whose value comes from a variable, with the variable's name.
const sourceAnnotation = "hippo_config_source"

// Variable returns the name of the environment variable for a flag: the flag's name after a prefix, for example
// HIPPO_SERVE_, in capitals, with underscores.
func Variable(prefix, flag string) string {
	return prefix + strings.ToUpper(strings.NewReplacer(".", "_", "-", "_").Replace(flag))
}

// Environment sets flags that the command line did not set from their variables. If strict is true, a variable with the
// prefix that belongs to no flag is a problem, so that a misspelled one does not go unnoticed.
func Environment(fs *pflag.FlagSet, prefix string, environ []string, strict bool) error {
	var problems Problems
	known := map[string]*pflag.Flag{}
	var names []string
	eachFlag(fs, func(flag *pflag.Flag) {
		if flag.Name != "help" {
			name, _ := strings.CutPrefix(Variable(prefix, flag.Name), prefix)
			known[name], names = flag, append(names, name)
		}
	})
	for _, entry := range environ {
		variable, text, _ := strings.Cut(entry, "=")
		name, ok := strings.CutPrefix(variable, prefix)
		flag := known[name]
		switch {
		case !ok || flag == nil && !strict:
		case flag == nil:
			problems.Addf(variable, "unknown variable%s", didYouMean(prefix, name, names))
		case flag.Changed:
		default:
			if err := flag.Value.Set(text); err != nil {
				problems.Addf(variable, "found %q: %v", text, err)
				continue
			}
			flag.Changed = true
			if flag.Annotations == nil {
				flag.Annotations = map[string][]string{}
			}
			flag.Annotations[sourceAnnotation] = []string{variable}
		}
	}
	return problems.Err()
}

// VariableHelp returns a line for help texts about the variables that Environment reads, or "" if there are none.
func VariableHelp(fs *pflag.FlagSet, prefix string) (line string) {
	eachFlag(fs, func(flag *pflag.Flag) {
		if line == "" && flag.Name != "help" && !flag.Hidden {
			line = fmt.Sprintf("Variables of the environment stand for flags that are not given: %s for --%s.",
				Variable(prefix, flag.Name), flag.Name)
		}
	})
	return line
}

// sourceOf returns the name that messages use for the source of a flag's value.
func sourceOf(flag *pflag.Flag) string {
	return slices.Concat(flag.Annotations[sourceAnnotation], []string{"--" + flag.Name})[0]
}
