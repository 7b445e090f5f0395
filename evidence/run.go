package evidence

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/hippo-ssm/hippo/internal/disk"
	"github.com/hippo-ssm/hippo/train"
)

// Runner runs the commands of recipes.
type Runner struct {
	Program string    // the program that the commands call hippo
	Data    string    // the folder to use as runs/data, if there is no runs/data
	Out     io.Writer // receives progress messages
}

// own begins every command. It defines hippo as a function that runs the program and stops it when the shell is
// interrupted. It ignores the error that another process, on this machine or on another one that shares the folder, is
// already doing the work. It records any other error in a file, since a loop would hide it.
const own = `hippo() {
	trap 'kill -TERM $!; wait $!; exit 130' INT TERM
	"$PROGRAM" "$@" 2>"$SAID" &
	wait $!
	ended=$?
	trap - INT TERM
	cat "$SAID" >&2
	[ $ended = 0 ] || grep -q ' is in use by process ' "$SAID" || { echo failed >"$FAILED"; return $ended; }
}
`

// shell runs a command in a folder with additional environment variables, and returns the end of its output.
func (u *Runner) shell(ctx context.Context, dir, command string, variables ...string) (string, error) {
	tmp, err := os.MkdirTemp("", "evidence-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(tmp)
	failed := filepath.Join(tmp, "failed")
	program := []byte("#!/bin/sh\nexec \"$PROGRAM\" \"$@\"\n") // also for scripts, and for peers that are hippo
	if err := os.WriteFile(filepath.Join(tmp, "hippo"), program, 0o755); err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, "sh", "-c", own+command)
	cmd.Dir = dir
	cmd.Env = slices.Concat(os.Environ(), variables, []string{"PROGRAM=" + u.Program,
		"PATH=" + tmp + string(os.PathListSeparator) + os.Getenv("PATH"),
		"SAID=" + filepath.Join(tmp, "said"), "FAILED=" + failed})
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = time.Minute
	err = cmd.Run()
	lines := strings.Split(strings.TrimSpace(said.String()), "\n")
	end := strings.Join(lines[max(0, len(lines)-2):], "\n")
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return "", fmt.Errorf("commands of recipes are run by sh: %w", err)
	case err == nil && !disk.Exists(failed):
		return end, nil
	case ctx.Err() != nil:
		return "", ctx.Err()
	}
	return "", fmt.Errorf("%s: %w:\n%s", command, errors.Join(err, errors.New("hippo failed")),
		strings.Join(lines[max(0, len(lines)-20):], "\n"))
}

// Run runs the commands of the named recipes, or of all if none is named, in the tree, and stores their results. Work
// that is already done is not repeated.
func (b *Book) Run(ctx context.Context, u *Runner, names []string) error {
	return b.run(ctx, u, names, b.root, func(command string) string { return command }, func(r *Recipe) error {
		if r.File != "" {
			return addOrigin(filepath.Join(b.root, r.File))
		}
		runs := filepath.Join(b.root, "runs", "evidence")
		if !disk.Exists(filepath.Join(runs, r.Name)) {
			return nil
		}
		left, err := b.Take(runs)
		for _, line := range left {
			fmt.Fprintln(u.Out, "left out:", line)
		}
		return err
	})
}

// RunShort checks that the commands of recipes run. It runs them with a few updates each in a temporary folder, with
// made-up data for data sets that are missing.
func (b *Book) RunShort(ctx context.Context, u *Runner, names []string) error {
	tmp, err := os.MkdirTemp("", "evidence-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	data := filepath.Join(tmp, "runs", "data")
	if err := errors.Join(os.MkdirAll(data, 0o755), os.MkdirAll(filepath.Join(tmp, "docs"), 0o755)); err != nil {
		return err
	}
	folders, err := os.ReadDir(u.Data)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	for _, f := range folders {
		from, err := filepath.Abs(filepath.Join(u.Data, f.Name()))
		if err != nil {
			return err
		}
		if err := os.Symlink(from, filepath.Join(data, f.Name())); err != nil {
			return err
		}
	}
	if err := writeMadeUp(data); err != nil {
		return err
	}
	return b.run(ctx, u, names, tmp, shortened, func(*Recipe) error { return nil })
}

// run runs the commands of recipes in a folder, each changed by change, and calls done after each recipe.
func (b *Book) run(ctx context.Context, u *Runner, names []string, dir string, change func(string) string,
	done func(*Recipe) error) error {
	if err := b.known(names); err != nil {
		return err
	}
	data := filepath.Join(dir, "runs", "data")
	if err := os.MkdirAll(filepath.Join(dir, "runs", "evidence"), 0o755); err != nil {
		return err
	}
	if _, err := os.Lstat(data); errors.Is(err, os.ErrNotExist) && u.Data != "" {
		from, err := filepath.Abs(u.Data)
		if err == nil {
			err = os.Symlink(from, data)
		}
		if err != nil {
			return err
		}
	}
	for i := range b.recipes {
		r := &b.recipes[i]
		if len(names) > 0 && !slices.Contains(names, r.Name) || len(names) == 0 && r.ByName {
			continue
		}
		for _, command := range r.Commands {
			command = change(strings.TrimSpace(command))
			from := time.Now()
			fmt.Fprintf(u.Out, "$ %s\n", command)
			said, err := u.shell(ctx, dir, command)
			if err != nil {
				return err
			}
			fmt.Fprintf(u.Out, "%s\n   %.0f s\n", said, time.Since(from).Seconds())
		}
		if err := done(r); err != nil {
			return err
		}
	}
	return nil
}

// addOrigin appends an origin to a file: the commit, date and machine of its rows.
func addOrigin(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	maker := train.ThisMaker()
	line, err := json.Marshal(origin{isOrigin, maker.Version, time.Now().UTC().Format(time.RFC3339), maker.Machine})
	if err != nil {
		return err
	}
	return disk.WriteBytes(file, append(append(text, line...), '\n'))
}

// shortForms lists flags that shorten a command. They are appended, since the last of two equal flags wins.
var shortForms = []struct{ has, flags string }{
	{"hippo task run ", " --epochs 1 --time 200ms --clock wall --eval_limit 5"},
	{"hippo task table ", " --seeds 1 --set epochs=1 --set time=200ms --set eval_limit=5 --jobs 0"},
	{"hippo compare ", " --time 300ms --seeds 1"},
	{"hippo bench ", " --shrink 32 --rounds 1 --seconds 0"},
	{"hippo train ", " --train.steps 2 --train.sample_every 0 --valid_fraction 0.005"},
	{"hippo forecast ", " --time 200ms --epochs 1 --model.d_model 8 --eval_limit 5"},
}

var (
	loopWords  = regexp.MustCompile(`(for [a-z]+ in [^ ;]+)[^;]*;`)
	manyRows   = regexp.MustCompile(`--rows [0-9]+ |--split [0-9,]+`)
	endOfCall  = regexp.MustCompile(`(?s)^(.*?)(\s*(?:>.*|; done.*)?)$`)
	lessOfTask = strings.NewReplacer(
		" smnist psmnist ", " 'smnist(valid=50,test=20)' 'psmnist(valid=50,test=20)' ",
		" smnist ", " 'smnist(valid=50,test=20)' ",
		" psmnist ", " 'psmnist(valid=50,test=20)' ",
		" listops ", " 'listops(train=100,valid=20,test=20)' ", "'smnist(test=2000)'", "'smnist(valid=50,test=20)'",
		"train=20000,valid=500,test=1000", "train=100,valid=20,test=20", "train=20000,test=1000", "train=100,test=20",
		"clocks=mixed,train=1000", "clocks=mixed,train=50,valid=10,test=10",
		"train=5000,test=300", "train=10,test=5", " 'author' ", " 'author(test=20)' ",
		"(length=512)", "(length=512,test=20)", "bs=200000", "bs=20000",
		"--test runs/data/wikitext2/test.txt", "--test runs/wt2-valid.txt")
)

// shortened returns a short form of a command: few updates, the first word of each loop, and a part of large data.
func shortened(command string) string {
	command = loopWords.ReplaceAllString(command, "$1;")
	command = manyRows.ReplaceAllStringFunc(command, func(flag string) string {
		if strings.HasPrefix(flag, "--rows") {
			return ""
		}
		return "--split 900,100,100"
	})
	for _, form := range shortForms {
		if strings.Contains(command, form.has) {
			at := endOfCall.FindStringSubmatch(command)
			return lessOfTask.Replace(at[1] + form.flags + at[2])
		}
	}
	return command
}
