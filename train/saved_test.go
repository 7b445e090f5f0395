package train

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hippo-ssm/hippo/checkpoint"
	"github.com/hippo-ssm/hippo/model"
)

// ran returns a finished run of the toy, with averages.
func ran(t *testing.T) (p Plan, w *toy) {
	t.Helper()
	p, w = toyPlan(t), newToy()
	p.EMA, p.Steps = 0.5, 3
	l, _ := start(t, p, w)
	if _, err := l.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	return p, w
}

func none(string) error { return nil }

// TestReadSaved checks that a state that no run can have saved is refused with all its problems, as is a run of another
// kind or in a later format, and that the error for a folder without a run says so.
func TestReadSaved(t *testing.T) {
	p, _ := ran(t)
	path := filepath.Join(p.Out, "last", TrainerFile)
	// the test changes files below
	if err := os.Remove(filepath.Join(p.Out, "last", checkpoint.ManifestFile)); err != nil {
		t.Fatal(err)
	}
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	s, err := ReadSaved(p.Out, "toy", none)
	if err != nil {
		t.Fatal(err)
	}
	if s.Version != 2 || s.Step != 3 || s.Updates != 3 || s.Kind != "toy" || s.Program != Commit() ||
		len(s.History.Points) != 1 || s.History.Best != 0 {
		t.Errorf("found the state %+v", s)
	}
	for name, c := range map[string]struct {
		change func(s *Saved)
		want   string // part of the error, empty for none
	}{
		"as it was":      {func(*Saved) {}, ""},
		"a step below 0": {func(s *Saved) { s.Step, s.Updates = -1, -1 }, "step: found -1, want 0 or more"},
		"no step":        {func(s *Saved) { s.Step, s.Updates = 0, 0 }, ""},
		"other updates": {func(s *Saved) { s.Updates = 2 },
			"optimizer_updates: found 2, want as many as step, 3"},
		"elapsed": {func(s *Saved) { s.History.Elapsed = -1 },
			"elapsed_ns, cpu_ns, trained_ns, loss_n: found -1, "},
		"cpu":     {func(s *Saved) { s.History.CPU = -1 }, "elapsed_ns, cpu_ns"},
		"trained": {func(s *Saved) { s.Trained = -1 }, "elapsed_ns, cpu_ns"},
		"losses":  {func(s *Saved) { s.History.LossN = -1 }, "elapsed_ns, cpu_ns"},
		"nothing yet": {func(s *Saved) {
			s.History.Elapsed, s.History.CPU, s.Trained, s.History.LossN = 0, 0,
				0, 0
		}, ""},
		"a curve": {func(s *Saved) { s.History.Curve.Steps = []int{1} },
			"history.curve: found 2 losses for 1 steps"},
		"a best of nothing": {func(s *Saved) { s.History.Best = 1 },
			"history.best: found 1, want the place of one of the 1 points"},
		"a best before all": {func(s *Saved) { s.History.Best = -2 }, "history.best: found -2"},
		"no best":           {func(s *Saved) { s.History.Best = -1 }, ""},
		"no points":         {func(s *Saved) { s.History.Best, s.History.Points = -1, nil }, ""},
		"another kind": {func(s *Saved) { s.Kind = LabelledKind },
			"kind: found the run of a labelled network, want that of a toy"},
		"a later version":     {func(s *Saved) { s.Version = 3 }, "version: found 3, written by hippo "},
		"no version":          {func(s *Saved) { s.Version = 0 }, "version: found 0"},
		"several at the time": {func(s *Saved) { s.Updates, s.History.Best = 1, 9 }, "history.best"},
	} {
		var s Saved
		if err := json.Unmarshal(good, &s); err != nil {
			t.Fatal(err)
		}
		c.change(&s)
		text, err := json.Marshal(s)
		if err := errors.Join(err, os.WriteFile(path, text, 0o666)); err != nil {
			t.Fatal(err)
		}
		_, err = ReadSaved(p.Out, "toy", none)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: found the error %v, want %q", name, err, c.want)
		}
		if name == "several at the time" && (err == nil || !strings.Contains(err.Error(), "optimizer_updates")) {
			t.Errorf("found the error %v, want both problems", err)
		}
	}
	if _, err := ReadSaved(t.TempDir(), "toy", none); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no run: found the error %v", err)
	}
	var recovered []string
	broken := errors.New("broken")
	_, err = ReadSaved(p.Out, "toy", func(dir string) error {
		recovered = append(recovered, filepath.Base(dir))
		return map[string]error{"last": fs.ErrNotExist, "best": broken}[filepath.Base(dir)]
	})
	if !errors.Is(err, broken) || !slices.Equal(recovered, []string{"last", "best"}) {
		t.Errorf("recovered %v: found the error %v", recovered, err)
	}
	if err := (&Saved{Config: []byte(`{"name": 7}`)}).Settings(p.Out, p.Config); err == nil ||
		!strings.Contains(err.Error(), filepath.Join("last", TrainerFile)+": config: ") {
		t.Errorf("settings of another form: found the error %v", err)
	}
}

// TestRestoreErrors checks that moments and averages that are missing or of another size are errors that name file and
// tensor, and that averages start at the weights if the checkpoint has none.
func TestRestoreErrors(t *testing.T) {
	p, w := ran(t)
	dir := filepath.Join(p.Out, "last")
	fresh := func() (*Training, *Saved) {
		s, err := ReadSaved(p.Out, "toy", none)
		if err != nil {
			t.Fatal(err)
		}
		l, err := New(p, newToy())
		if err != nil {
			t.Fatal(err)
		}
		return l, s
	}
	l, s := fresh()
	if err := l.Restore(s, dir); err != nil {
		t.Fatal(err)
	}
	if got, want := fmt.Sprint(l.average.values[0].Elements()),
		fmt.Sprint(w.run.average.values[0].Elements()); got != want {
		t.Errorf("the averages are %s, want %s", got, want)
	}
	tensors := func(name string, change func(x *checkpoint.Tensor, values []float32) []checkpoint.Tensor) {
		t.Helper()
		f, err := checkpoint.OpenSafetensors(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		var all []checkpoint.Tensor
		for i, n := range f.Names() {
			x, _ := f.Tensor(n)
			v, err := x.Float32()
			if err != nil {
				t.Fatal(err)
			}
			one := checkpoint.NewTensor(n, x.Shape, v)
			if i == 0 {
				all = append(all, change(&one, v)...)
			} else {
				all = append(all, one)
			}
		}
		f.Close()
		if err := WriteTensors(filepath.Join(dir, name), all); err != nil {
			t.Fatal(err)
		}
	}
	for _, file := range []string{averageFile, optimizerFile} {
		path := filepath.Join(dir, file)
		whole, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for what, change := range map[string]func(x *checkpoint.Tensor, v []float32) []checkpoint.Tensor{
			"missing": func(*checkpoint.Tensor, []float32) []checkpoint.Tensor { return nil },
			"longer": func(x *checkpoint.Tensor, v []float32) []checkpoint.Tensor {
				return []checkpoint.Tensor{checkpoint.NewTensor(x.Name, []int{3}, append(v, 1))}
			},
		} {
			tensors(file, change)
			l, s := fresh()
			err := l.Restore(s, dir)
			if err == nil || !strings.Contains(err.Error(), file) || !strings.Contains(err.Error(), "w") {
				t.Errorf("%s, %s: found the error %v", file, what, err)
			}
			if what == "missing" && err != nil && !strings.Contains(err.Error(), "missing w") {
				t.Errorf("%s: found the error %v, want what is missing", file, err)
			}
			if err := os.WriteFile(path, whole, 0o666); err != nil {
				t.Fatal(err)
			}
		}
		// A weight that is a complex number.
		header := `{"w":{"dtype":"C64","shape":[1],"data_offsets":[0,8]}}`
		raw := string(binary.LittleEndian.AppendUint64(nil, uint64(len(header)))) + header + strings.Repeat("\x00", 8)
		if err := os.WriteFile(path, []byte(raw), 0o666); err != nil {
			t.Fatal(err)
		}
		other, state := fresh()
		if err := other.Restore(state, dir); err == nil || file == averageFile && !strings.Contains(err.Error(),
			"C64") {
			t.Errorf("%s of complex numbers: found the error %v", file, err)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		l, s := fresh()
		if err := l.Restore(s, dir); (err == nil) != (file == averageFile) {
			t.Errorf("without %s: found the error %v", file, err)
		}
		if file == averageFile && fmt.Sprint(l.average.values[0].Elements()) != "[3 -2]" {
			t.Errorf("without averages they start with %v, want the weights", l.average.values[0].Elements())
		}
		if err := os.WriteFile(path, whole, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	l, s = fresh()
	s.Work = []byte(`"elsewhere"`)
	if err := l.Restore(s, dir); err == nil || l.step != 0 {
		t.Errorf("a place that the work does not know: %v, at step %d", err, l.step)
	}
	p.EMA = 0
	plain, err := New(p, newToy())
	if err != nil {
		t.Fatal(err)
	}
	_, s = fresh()
	if err := plain.Restore(s, dir); err != nil || plain.average != nil {
		t.Errorf("a run without averages: %v", err)
	}
	if err := plain.average.save(t.TempDir()); err != nil {
		t.Errorf("no averages are saved: %v", err)
	}
}

// TestFormat1 checks that checkpoints of earlier versions are read, of language models and of labelled networks.
func TestFormat1(t *testing.T) {
	write := func(name, text string) string {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	language := `{"version": 1, "config": {"train": {"accumulation": %d}}, "step": 7, "optimizer_updates": 6,
		"data": {"at": 3}, "tokenizer_fingerprint": "abc", "best_step": %d, "elapsed_ns": 11, "trained_ns": 12,
		"history": {"train_steps": [1, 2], "train_loss": [5, 4], "valid_steps": [%s], "valid_loss": [3, 2.5, 2.75],
		"sample": "words"}, "carried_state": %v}`
	s, path, err := readAnyFormat(write(TrainerFile, fmt.Sprintf(language, 1, 4, "2, 4, 6", true)))
	if err != nil || filepath.Base(path) != TrainerFile {
		t.Fatal(path, err)
	}
	h := s.History
	if s.Version != 2 || s.Kind != LanguageKind || s.Step != 7 || s.Updates != 6 || s.Trained != 12 ||
		h.Elapsed != 11 ||
		h.Best != 1 || !slices.Equal(h.Curve.Steps, []int{1, 2}) || !slices.Equal(h.Curve.Loss, []float64{5, 4}) ||
		len(h.Points) != 3 || h.Points[2].Step != 6 || h.Points[2].Valid.Loss != 2.75 {
		t.Errorf("found %+v", s)
	}
	var work struct {
		Data        map[string]int
		Fingerprint string `json:"tokenizer_fingerprint"`
		Sample      string
		Carried     bool `json:"carried_state"`
	}
	if err := json.Unmarshal(s.Work, &work); err != nil || work.Data["at"] != 3 || work.Fingerprint != "abc" ||
		work.Sample != "words" || !work.Carried {
		t.Errorf("the work is %s: %v", s.Work, err)
	}
	if s, _, err := readAnyFormat(write(TrainerFile, fmt.Sprintf(language, 2, 9, "2, 4, 6", false))); err != nil ||
		s.History.Best != -1 {
		t.Errorf("a best step that was not measured: %v, %v", s, err)
	}
	for want, text := range map[string]string{
		"history: found 3 losses for 2 steps": fmt.Sprintf(language, 1, 4, "2, 4", false),
		"train.accumulation 2":                fmt.Sprintf(language, 2, 4, "2, 4, 6", true),
		"accumulation":                        `{"version": 1, "config": {"train": {"accumulation": "two"}}}`,
		"step":                                `{"version": 1, "step": "x"}`,
		"version: found 5":                    `{"version": 5}`,
		TrainerFile:                           `{`,
	} {
		if _, _, err := readAnyFormat(write(TrainerFile, text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: found the error %v, want %q", text, err, want)
		}
	}
	s, path, err = readAnyFormat(write(placeFile, `{"config": {"a": 1}, "optimizer_updates": 5, "place": {"step": 5,
		"trained_ns": 3, "elapsed_ns": 4, "cpu_ns": 6, "loss_sum": 1.5, "loss_n": 2, "curve": [{"step": 4}],
			"best": 0}}`))
	if err != nil || filepath.Base(path) != placeFile {
		t.Fatal(path, err)
	}
	h = s.History
	if s.Version != 2 || s.Kind != LabelledKind || s.Step != 5 || s.Updates != 5 || s.Trained != 3 || h.Elapsed != 4 ||
		h.CPU != 6 || h.LossSum != 1.5 || h.LossN != 2 || len(h.Points) != 1 || h.Points[0].Step != 4 || h.Best != 0 ||
		string(s.Config) != `{"a": 1}` {
		t.Errorf("found %+v", s)
	}
	if _, path, err := readAnyFormat(write(placeFile, `{`)); err == nil || filepath.Base(path) != placeFile {
		t.Errorf("a broken place: %v in %s", err, path)
	}
	if _, _, err := readAnyFormat(t.TempDir()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("nothing: found the error %v", err)
	}
}

// TestBestOf checks that the best measurement is that of the result if there is one, else that of the last checkpoint.
func TestBestOf(t *testing.T) {
	p, _ := ran(t)
	if best, err := BestOf(p.Out); err != nil || best.Step != 3 {
		t.Errorf("of a checkpoint: %+v, %v, want that of step 3", best, err)
	}
	result := filepath.Join(p.Out, "result.json")
	for points, want := range map[string]int{
		`[{"step": 1, "valid": {"loss": 2}}, {"step": 2, "valid": {"loss": 1}}, {"step": 4, "valid": {"loss": 1}}]`: 2,
		`[{"step": 1, "valid": {"loss": 1}}, {"step": 2, "valid": {"loss": 2, "accuracy": 0.5}}]`:                   2,
		`[{"step": 8, "valid": {"loss": 1}}]`: 8, `[]`: 0, `7`: 0,
	} {
		text := `{"curve": ` + points + "}"
		if err := os.WriteFile(result, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		if best, err := BestOf(p.Out); best.Step != want || (err == nil) != (want > 0) {
			t.Errorf("%s: found step %d, %v, want %d", text, best.Step, err, want)
		}
	}
	if _, err := BestOf(t.TempDir()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no run: found the error %v", err)
	}
}

// TestRuns checks that Runs finds folders with a checkpoint at any of five levels, most recent first, and none within
// them.
func TestRuns(t *testing.T) {
	root := t.TempDir()
	at := time.Now().Add(-time.Hour).Truncate(time.Second)
	for i, dir := range []string{"b/last", "a/best", "x/y/z/u/last", "1/2/3/4/5/last", "p/q/r/s/t/u/last",
		"a/deeper/last",
		"file"} {
		path := filepath.Join(root, filepath.FromSlash(dir))
		if err := os.MkdirAll(path, 0o777); err != nil {
			t.Fatal(err)
		}
		when := at.Add(time.Duration(i/2) * time.Minute) // b and a at the same time
		if err := os.Chtimes(path, when, when); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(filepath.Join(root, "c"), 0o777); err != nil {
		t.Fatal(err)
	}
	// A file at the deepest level does not hide folders beside it.
	if err := os.WriteFile(filepath.Join(root, "1", "2", "3", "4", "0"), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	if found := Runs(filepath.Join(root, "nothing")); found != nil {
		t.Errorf("in a folder that there is not there are the runs %v", found)
	}
	if err := os.WriteFile(filepath.Join(root, "c", "last"), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, dir := range Runs(root) {
		rel, err := filepath.Rel(root, dir)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, filepath.ToSlash(rel))
	}
	// Folders written at the same time are sorted by name.
	sameList(t, "runs", got, []string{"1/2/3/4/5", "x/y/z/u", "a", "b"})
}

// TestInFolder checks that a folder is claimed during the call and free afterwards, even after an error.
func TestInFolder(t *testing.T) {
	dir, broken := t.TempDir(), errors.New("broken")
	err := InFolder(t.Context(), dir, func(context.Context) error {
		err := InFolder(t.Context(), dir, func(context.Context) error { return nil })
		if err == nil || !strings.HasPrefix(err.Error(), "out: ") {
			t.Errorf("claimed twice: found the error %v", err)
		}
		return broken
	})
	if !errors.Is(err, broken) {
		t.Errorf("found the error %v, want that of what was done", err)
	}
	if err := InFolder(t.Context(), dir, func(context.Context) error { return nil }); err != nil {
		t.Errorf("the folder was not let go: %v", err)
	}
}

// TestOrigin checks that an origin has the system, the processor, its cores and the time.
func TestOrigin(t *testing.T) {
	o := Here()
	made, err := time.Parse(time.RFC3339, o.Date)
	if err != nil || time.Since(made) < -time.Second || time.Since(made) > time.Minute || !strings.HasSuffix(o.Date,
		"Z") {
		t.Errorf("made at %s: %v", o.Date, err)
	}
	cores := fmt.Sprintf(", %s, %d of %d cores", model.CPULevel(), runtime.GOMAXPROCS(0), runtime.NumCPU())
	if !strings.HasPrefix(o.Machine, runtime.GOOS+"/"+runtime.GOARCH) || !strings.HasSuffix(o.Machine, cores) {
		t.Errorf("the machine is %q", o.Machine)
	}
	if info, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(info)) {
			if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == "model name" {
				want := runtime.GOOS + "/" + runtime.GOARCH + ", " + strings.TrimSpace(value) + cores
				if o.Machine != want {
					t.Errorf("the machine is %q, want %q", o.Machine, want)
				}
				break
			}
		}
	}
	for want, info := range map[string]debug.BuildInfo{
		"": {Main: debug.Module{Version: "(devel)"}}, "v1.2.3": {Main: debug.Module{Version: "v1.2.3"}},
		"abc": {Main: debug.Module{Version: "v1.2.3"}, Settings: []debug.BuildSetting{{Key: "vcs", Value: "git"},
			{Key: "vcs.revision", Value: "abc"}}},
	} {
		if got := recorded(&info); got != want {
			t.Errorf("a build records %q, want %q", got, want)
		}
	}
	if hash, ok := strings.CutSuffix(o.Version, " (of the current folder)"); ok && len(hash) != 40 {
		t.Errorf("the version is %q, want the hash of a commit in it", o.Version)
	}
	if o.Version == "" || o.Version != Commit() || ThisMaker() != (Maker{o.Machine, o.Version}) {
		t.Errorf("the version is %q, the maker %v", o.Version, ThisMaker())
	}
}

// TestScores checks that a higher accuracy is better whatever the loss, and that a lower loss is better at equal
// accuracy.
func TestScores(t *testing.T) {
	for _, c := range []struct {
		a, b Score
		want bool
	}{
		{Score{Loss: 1}, Score{Loss: 2}, true}, {Score{Loss: 2}, Score{Loss: 1}, false}, {Score{Loss: 1},
			Score{Loss: 1}, false},
		{Score{Loss: 9, Accuracy: 51}, Score{Loss: 1, Accuracy: 50}, true},
		{Score{Loss: 1, Accuracy: 50}, Score{Loss: 9, Accuracy: 51}, false},
		{Score{Loss: 1, Accuracy: 50}, Score{Loss: 9, Accuracy: 50}, true},
	} {
		if got := c.a.Better(c.b); got != c.want {
			t.Errorf("%+v is better than %+v: %v", c.a, c.b, got)
		}
	}
}
