package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// sourceAnnotation marks a flag whose value is that of a variable, with the variable's name.
const sourceAnnotation = "hippo_config_source"

// Variable returns the name of the environment variable for a flag: its name after a prefix such as HIPPO_SERVE_, in
// capitals, with underscores.
func Variable(prefix, flag string) string {
	return prefix + strings.ToUpper(strings.NewReplacer(".", "_", "-", "_").Replace(flag))
}

// Environment gives flags that the command line did not give the values of their variables. A variable with the prefix
// that is no flag's is a problem where strict is true, so that a misspelled one does not go unnoticed.
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

// VariableHelp is a line for help texts about the variables that Environment reads, "" if there are none.
func VariableHelp(fs *pflag.FlagSet, prefix string) (line string) {
	eachFlag(fs, func(flag *pflag.Flag) {
		if line == "" && flag.Name != "help" && !flag.Hidden {
			line = fmt.Sprintf("Variables of the environment stand for flags that are not given: %s for --%s.",
				Variable(prefix, flag.Name), flag.Name)
		}
	})
	return line
}

// sourceOf is what a message calls the place of a flag's value.
func sourceOf(flag *pflag.Flag) string {
	return slices.Concat(flag.Annotations[sourceAnnotation], []string{"--" + flag.Name})[0]
}
