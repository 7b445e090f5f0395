package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// AcceptSpellings makes a complete set of flags accept other spellings: hyphens for underscores or the reverse, and the
// last parts of a dotted name if no other flag's name ends in them, for example --lr for --optim.lr. A name as it was
// registered is always that flag. Help texts show names as they were registered.
func AcceptSpellings(fs *pflag.FlagSet) {
	names := flagNames(fs)
	fs.SetNormalizeFunc(func(_ *pflag.FlagSet, given string) pflag.NormalizedName {
		if found := meant(given, names); len(found) == 1 {
			return pflag.NormalizedName(found[0])
		}
		return pflag.NormalizedName(given)
	})
}

// flagNames returns the names of all flags in the order of registration.
func flagNames(fs *pflag.FlagSet) []string {
	var names []string
	eachFlag(fs, func(flag *pflag.Flag) { names = append(names, flag.Name) })
	return names
}

// meant returns the names that a spelling may mean: the equal name, else the name that differs only in hyphens, else
// all names that end in it.
func meant(given string, names []string) []string {
	plain := strings.NewReplacer("-", "_")
	spelling := plain.Replace(given)
	var same, ending []string
	for _, name := range names {
		switch n := plain.Replace(name); {
		case name == given:
			return []string{name}
		case n == spelling:
			same = append(same, name)
		case strings.HasSuffix(n, "."+spelling):
			ending = append(ending, name)
		}
	}
	if len(same) > 0 {
		return same
	}
	return ending
}

// SpellingHelp returns a line for help texts about the other spellings of flags, or "" if there are none.
func SpellingHelp(fs *pflag.FlagSet) string {
	joined := false
	names := flagNames(fs)
	for _, name := range names {
		joined = joined || strings.ContainsAny(name, "-_")
		if _, last, dotted := cutLast(name); dotted && slices.Equal(meant(last, names), []string{name}) {
			return fmt.Sprintf("Names take - for _, and the last part is enough where no other name ends so: "+
				"--%s for --%s.", last, name)
		}
	}
	if joined {
		return "Names take - for _, and _ for -."
	}
	return ""
}

// cutLast splits a name at its last dot.
func cutLast(name string) (before, after string, found bool) {
	if i := strings.LastIndexByte(name, '.'); i >= 0 {
		return name[:i], name[i+1:], true
	}
	return name, "", false
}

// FlagError rewrites an error about a flag: for an unknown flag it suggests the nearest name, for an ambiguous one it
// lists the candidates, and for a value it says what was wanted. It is meant for cobra's SetFlagErrorFunc.
func FlagError(fs *pflag.FlagSet, err error) error {
	var unknown *pflag.NotExistError
	var invalid *pflag.InvalidValueError
	var bare *pflag.ValueRequiredError
	switch {
	case errors.As(err, &unknown):
		return unknownFlag(unknown, flagNames(fs))
	case errors.As(err, &invalid):
		flag := invalid.GetFlag()
		return fmt.Errorf("--%s: found %q, want %s", flag.Name, invalid.GetValue(), wantOf(flag))
	case errors.As(err, &bare) && bare.GetSpecifiedShortnames() == "":
		flag := bare.GetFlag()
		want := wantOf(flag)
		if want == nouns[str] && flag.Usage != "" {
			want += ": " + flag.Usage
		}
		return fmt.Errorf("--%s: found no value, want %s", flag.Name, want)
	}
	return err
}

func unknownFlag(err *pflag.NotExistError, names []string) error {
	if letters := err.GetSpecifiedShortnames(); letters != "" {
		word, _, _ := strings.Cut(letters, "=")
		if found := meant(word, names); len(word) > 1 && len(found) == 1 {
			return fmt.Errorf("-%s: unknown flag; did you mean --%s, with two hyphens?", word, found[0])
		}
		return fmt.Errorf("-%s: unknown flag", word)
	}
	name := err.GetSpecifiedName()
	if found := meant(name, names); len(found) > 1 {
		return fmt.Errorf("--%s: may stand for --%s: give more of the name", name, strings.Join(found, " or --"))
	}
	var ending []string
	for _, n := range names {
		if strings.HasSuffix(n, "_"+name) {
			ending = append(ending, n)
		}
	}
	if len(ending) > 1 {
		return fmt.Errorf("--%s: unknown flag; did you mean --%s?", name, strings.Join(ending, " or --"))
	}
	return fmt.Errorf("--%s: unknown flag%s", name, didYouMean("--", name, names))
}

// wantOf describes the allowed values of a flag.
func wantOf(flag *pflag.Flag) string {
	if v, ok := flag.Value.(*flagValue); ok {
		return v.want
	}
	return nouns[map[string]kind{"int": signed, "bool": boolean, "float64": float, "duration": duration,
		"string": str}[flag.Value.Type()]]
}
