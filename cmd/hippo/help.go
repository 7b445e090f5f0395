package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/hippo-ssm/hippo/internal/config"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/train/text"
)

// useGroupedHelp makes the help of all commands below root list flags in groups. The flags of a configuration are
// grouped by its sections.
func useGroupedHelp(root *cobra.Command) {
	cobra.AddTemplateFunc("groupedFlags", func(c *cobra.Command) string { return config.Usages(c.Flags(), columns()) })
	plain := "{{.LocalFlags.FlagUsages | trimTrailingWhitespaces}}"
	ours := "{{groupedFlags . | trimTrailingWhitespaces}}{{with spellings .}}\n\n{{.}}{{end}}" +
		"{{with variables .}}\n\n{{.}}{{end}}"
	root.SetUsageTemplate(strings.Replace(root.UsageTemplate(), plain, ours, 1))
	cobra.AddTemplateFunc("spellings", func(c *cobra.Command) string { return config.SpellingHelp(c.Flags()) })
	cobra.AddTemplateFunc("variables", variableHelp)
}

// acceptSpellings makes the flags of every command accept other spellings: see config.AcceptSpellings. It must be
// called after all commands have been added.
func acceptSpellings(cmd *cobra.Command) {
	config.AcceptSpellings(cmd.Flags())
	for _, sub := range cmd.Commands() {
		acceptSpellings(sub)
	}
}

// argumentsToo is the annotation of a command that has both subcommands and arguments.
const argumentsToo = "arguments too"

// knownCommand returns an error if args name a command that does not exist. For such a name with --help, cobra would
// print the help of its parent.
func knownCommand(root *cobra.Command, args []string) error {
	cmd, rest := root, args
	if found, left, err := root.Find(args); err == nil {
		cmd, rest = found, left
	}
	if !cmd.HasSubCommands() || cmd.Annotations[argumentsToo] != "" {
		return nil
	}
	i := slices.IndexFunc(rest, func(arg string) bool { return !strings.HasPrefix(arg, "-") })
	if i < 0 || len(args) > 0 && strings.HasPrefix(args[0], cobra.ShellCompRequestCmd) {
		return nil
	}
	var names []string
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() || sub.Name() == "help" {
			names = append(names, sub.Name())
		}
	}
	return fmt.Errorf("unknown command %q for %q, want one of %s%s", rest[i], cmd.CommandPath(),
		strings.Join(names, ", "), config.DidYouMean(rest[i], names))
}

// newHelp returns the command help. Unlike cobra's, it fails for a command that does not exist.
func newHelp() *cobra.Command {
	return &cobra.Command{
		Use:     "help [COMMAND...]",
		Short:   "Show help for a command",
		Example: "  hippo help train\n  hippo help task run",
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			about, _, err := cmd.Root().Find(args)
			if err != nil {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			var names []string
			for _, sub := range about.Commands() {
				if sub.IsAvailableCommand() {
					names = append(names, cobra.CompletionWithDesc(sub.Name(), sub.Short))
				}
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := knownCommand(cmd.Root(), args); err != nil {
				return err
			}
			about, _, err := cmd.Root().Find(args)
			if err != nil {
				return err
			}
			about.InitDefaultHelpFlag() // otherwise the help would not list --help
			return about.Help()
		},
	}
}

// flagError explains an error about a flag. If another training command has the flag, the error names that command.
func flagError(cmd *cobra.Command, err error) error {
	better := config.FlagError(cmd.Flags(), err)
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) || strings.Contains(better.Error(), ";") {
		return better // it has a suggestion
	}
	name := unknown.GetSpecifiedName()
	if _, last, grouped := strings.Cut(name, "."); grouped && cmd.Flags().Lookup(last) != nil { // hippo train's form
		return fmt.Errorf("%w; here it is --%s", better, last)
	}
	var known []string
	training := false
	for _, path := range [][]string{{"train"}, {"fit"}, {"forecast"}, {"task", "run"}} {
		other, _, _ := cmd.Root().Find(path)
		if training = training || other == cmd; other != cmd && other.Flags().Lookup(name) != nil {
			known = append(known, other.CommandPath())
		}
	}
	if !training || len(known) == 0 {
		return better
	}
	return fmt.Errorf("%w; it is a flag of %s", better, strings.Join(known, ", "))
}

// columns returns the width of the terminal that help is printed to, or 0 if standard output is no terminal, so that no
// lines are wrapped.
func columns() int {
	width, _, err := term.GetSize(int(os.Stdout.Fd()))
	if err != nil {
		return 0
	}
	return width
}

// wantArgs accepts from least to most arguments. Its error names the first argument that is missing or too many.
func wantArgs(least, most int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		use := strings.TrimSuffix(cmd.UseLine(), " [flags]")
		switch {
		case len(args) < least:
			name := strings.TrimSuffix(strings.Fields(cmd.Use)[1:][len(args)], "...")
			return fmt.Errorf("found no %s, want: %s (see %s --help)", name, use, cmd.CommandPath())
		case len(args) > most && most > 0:
			return fmt.Errorf("found the argument %q too many, want: %s (words with spaces between them need quotes; "+
				"see %s --help)", args[most], use, cmd.CommandPath())
		case len(args) > most:
			return fmt.Errorf("found the argument %q, want: %s (see %s --help)", args[0], use, cmd.CommandPath())
		}
		return nil
	}
}

// completeArgs completes the i-th argument with the i-th function.
func completeArgs(by ...cobra.CompletionFunc) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, start string) ([]string, cobra.ShellCompDirective) {
		if len(args) >= len(by) {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return by[len(args)](cmd, args, start)
	}
}

func completeFolders(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveFilterDirs
}

func completeFiles(extensions ...string) cobra.CompletionFunc {
	return func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return extensions, cobra.ShellCompDirectiveFilterFileExt
	}
}

// completeTokenizer offers the built-in tokenizers and files.
func completeTokenizer(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return []string{"bytes", "chars", "dna", "gpt2"}, cobra.ShellCompDirectiveDefault
}

// completeFlag completes the values of a flag. It panics if the flag does not exist or has a completion already.
func completeFlag(cmd *cobra.Command, name string, by cobra.CompletionFunc) {
	if err := cmd.RegisterFlagCompletionFunc(name, by); err != nil {
		panic(err)
	}
}

// completeSettings completes the flags of the configurations of a command and its subcommands. It completes enums with
// their values, and some other flags by their names. A command's own completion of a flag takes precedence.
func completeSettings(cmd *cobra.Command) {
	by := map[string]cobra.CompletionFunc{
		"preset":      cobra.FixedCompletions(text.Presets(), cobra.ShellCompDirectiveNoFileComp),
		"model.mixer": cobra.FixedCompletions(model.MixerNames(), cobra.ShellCompDirectiveNoFileComp),
		"tokenizer":   completeTokenizer,
		"config":      completeFiles("yaml", "yml"),
		"resume":      completeFolders,
		"init":        completeFolders,
		"out":         completeFolders,
		"cache":       completeFolders,
	}
	configured := false
	cmd.Flags().VisitAll(func(flag *pflag.Flag) {
		if _, ok := config.Choices(flag); ok {
			configured = true
		}
	})
	cmd.Flags().VisitAll(func(flag *pflag.Flag) {
		values, ok := config.Choices(flag)
		f := by[flag.Name]
		switch {
		case len(values) > 0:
			values = slices.DeleteFunc(slices.Clone(values), func(text string) bool { return text == "" })
			f = cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)
		case !ok && (!configured || flag.Name != "config" && flag.Name != "resume"):
			return
		}
		if _, known := cmd.GetFlagCompletionFunc(flag.Name); f != nil && !known {
			completeFlag(cmd, flag.Name, f)
		}
	})
	for _, sub := range cmd.Commands() {
		completeSettings(sub)
	}
}
