// Package config fills a nested Go struct from four layers, each stronger than the one before: the values that the
// struct already holds, a YAML file, environment variables, and command-line flags.
//
// The same spelling is used everywhere. The json tags of the struct give a value its path. The path is the YAML key,
// the flag and (in capitals, with dots and dashes replaced) the environment variable:
//
//	type Config struct {
//		Model struct {
//			DModel int `json:"d_model" help:"width of the residual stream" min:"1"`
//		} `json:"model" help:"shape of the network"`
//	}
//
//	model: {d_model: 256}    HIPPO_MODEL_D_MODEL=256    --model.d_model 256
//
// A value is a string, a bool, an integer, a float, a [time.Duration], or a slice of integers or strings. Its text is
// parsed by the type of its field, the same way in every layer, so that a YAML string needs quotes only where YAML
// itself needs them. A list is a YAML sequence, or text with commas: 8,16. Text with a comma or quote inside is quoted
// as in CSV: "a,b".
//
// The tags enum:"a,b", min:"1" and max:"9" bound a value (each element of a list); help:"..." explains it. The tag
// config:"-" hides a field, as does json:"-"; config:"old" marks a key of earlier versions, which is read but shown
// only while it has a value. A struct that cannot be configured (a map, a pointer, two fields with the same variable, a
// malformed bound) is a bug and panics.
//
// Problems are reported together: [Load] applies every value that is well formed and returns all problems of all layers
// as one [Problems], to which the caller may add its own.
//
// YAML is version 1.2 without anchors, aliases, tags and merge keys.
package config

import (
	"reflect"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/hippo-ssm/hippo/internal/disk"
)

// Options are the layers of [Load] above the struct's own values. The zero value has none.
type Options struct {
	File     string // YAML file to read; with FileData, only its name in messages
	FileData []byte // content of the file, if the caller has it already

	EnvPrefix string   // such as "HIPPO_"; "" reads no environment
	Environ   []string // "NAME=value", as from os.Environ
	Ignore    []string // names with the prefix that have another meaning

	Flags *pflag.FlagSet // parsed flags, registered by Register
}

// Load applies the layers of opt to the struct cfg points to.
//
// A nil error means that every value was understood. Otherwise the error is a [Problems], one line for each value that
// has no field, the wrong type or is out of range, in any layer; all other values have been applied.
func Load(cfg any, opt Options) error {
	l := loader{schema: newSchema(cfg)}
	l.loadFile(opt)
	l.loadEnv(opt)
	l.loadFlags(opt.Flags)
	return l.problems.Err()
}

// Check returns a problem for each value of the struct cfg, or that cfg points to, that [Load] would refuse, for
// example one that a program has set. Keys of earlier versions without a value are not problems.
func Check(cfg any) error {
	v := reflect.Indirect(reflect.ValueOf(cfg))
	scratch := reflect.New(v.Type()) // set stores the values that it accepts
	scratch.Elem().Set(v)
	l := loader{schema: newSchema(scratch.Interface())}
	for _, f := range l.schema.fields {
		if !f.old || !f.value.IsZero() {
			l.set(f, f.key, f.text())
		}
	}
	return l.problems.Err()
}

// A loader carries the problems from layer to layer.
type loader struct {
	schema   *schema
	problems Problems
}

// set reads text into the field f, or reports why it cannot. source names the place, such as "hippo.yaml:3:7:
// model.d_model".
func (l *loader) set(f *field, source, text string) {
	if err := f.set(text); err != nil {
		l.problems.Addf(source, "%v", err)
	}
}

func (l *loader) loadFile(opt Options) {
	data := opt.FileData
	if data == nil {
		if opt.File == "" {
			return
		}
		var err error
		if data, err = disk.ReadText(opt.File, maxFileSize); err != nil {
			l.problems.Add(err)
			return
		}
	}
	name := opt.File
	if name == "" {
		name = "configuration"
	}
	l.loadYAML(name, data)
}

// loadEnv reads every variable with the prefix. A variable that is neither a field nor ignored is a problem, so that a
// misspelled variable does not go unnoticed.
func (l *loader) loadEnv(opt Options) {
	if opt.EnvPrefix == "" {
		return
	}
	known := make(map[string]*field, len(l.schema.fields))
	var names []string
	for _, f := range l.schema.fields {
		known[f.env()] = f
		names = append(names, f.env())
	}
	for _, entry := range opt.Environ {
		variable, text, _ := strings.Cut(entry, "=")
		name, ok := strings.CutPrefix(variable, opt.EnvPrefix)
		switch {
		case !ok || slices.Contains(opt.Ignore, variable):
		case known[name] != nil:
			l.set(known[name], variable, text)
		default:
			l.problems.Addf(variable, "unknown variable%s", didYouMean(opt.EnvPrefix, name, names))
		}
	}
}

func (l *loader) loadFlags(fs *pflag.FlagSet) {
	if fs == nil {
		return
	}
	for _, f := range l.schema.fields {
		flag := fs.Lookup(f.key)
		if flag == nil || !flag.Changed {
			continue
		}
		if v, ok := flag.Value.(*flagValue); ok {
			l.set(f, sourceOf(flag), v.text)
		}
	}
}
