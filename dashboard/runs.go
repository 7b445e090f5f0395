package dashboard

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hippo-ssm/hippo/internal/disk"
)

// The files that training writes into the folder of a run.
const (
	metricsFile = "metrics.jsonl"
	configFile  = "config.yaml"
	cardFile    = "MODEL.md"
	reportFile  = "REPORT.md"
	resultFile  = "result.json"
)

// The states of a run.
const (
	running = "running" // a process holds its folder
	ended   = "ended"   // all its updates are made, or it has a result
	stopped = "stopped" // it was interrupted, or its process has died
)

const (
	maxRuns  = 2000 // number of runs that are listed: those written to last
	maxDepth = 8    // of a run below one of Options.Dirs
	fresh    = time.Second
)

// Run is a run in the list.
type Run struct {
	ID      string    `json:"id"` // path of its folder, which begins with one of Options.Dirs
	State   string    `json:"state"`
	Step    int64     `json:"step"`
	Steps   int64     `json:"steps,omitempty"` // in total, if known
	Loss    *float64  `json:"loss,omitempty"`
	Valid   *float64  `json:"valid_loss,omitempty"`
	Right   *float64  `json:"valid_accuracy,omitempty"` // in percent
	Done    float64   `json:"done,omitempty"`           // finished fraction of the run, if known
	Written time.Time `json:"written"`                  // when its folder was last written
	Report  bool      `json:"report"`                   // whether there is a page about it
}

// folder is the folder of a run, with the content read so far.
type folder struct {
	id, dir string

	mu      sync.Mutex
	metrics *metrics
	last    cached[[]line]            // measurements at the end of metricsFile
	values  cached[map[string]string] // of configFile
}

// finder finds the runs in folders.
type finder struct {
	dirs []string

	mu    sync.Mutex
	at    time.Time // of the last search
	known map[string]*folder
	found []*folder
	more  int
}

func newFinder(dirs []string) *finder { return &finder{dirs: dirs, known: map[string]*folder{}} }

// all returns the runs, the most recently written first, and the number of further runs. It searches again if the last
// search is more than a second ago.
func (f *finder) all() (runs []*folder, more int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if time.Since(f.at) < fresh {
		return f.found, f.more
	}
	written := map[*folder]time.Time{}
	known := map[string]*folder{}
	for _, dir := range f.dirs {
		f.walk(dir, func(id, path string, at time.Time) {
			r := f.known[id]
			if r == nil {
				r = &folder{id: id, dir: path}
			}
			known[id] = r
			written[r] = at
		})
	}
	found := make([]*folder, 0, len(known))
	for _, r := range known {
		found = append(found, r)
	}
	slices.SortFunc(found, func(a, b *folder) int {
		if c := written[b].Compare(written[a]); c != 0 {
			return c
		}
		return strings.Compare(a.id, b.id)
	})
	f.known, f.at = known, time.Now()
	f.more = max(0, len(found)-maxRuns)
	f.found = found[:len(found)-f.more]
	return f.found, f.more
}

// walk calls visit for the runs in a folder. It skips folders that cannot be read, which may belong to another user or
// have just been removed.
func (f *finder) walk(dir string, visit func(id, path string, written time.Time)) {
	depth := strings.Count(filepath.Clean(dir), string(filepath.Separator)) + maxDepth
	_ = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			return nil
		}
		if info, err := os.Stat(filepath.Join(path, metricsFile)); err == nil && info.Mode().IsRegular() {
			visit(filepath.ToSlash(path), path, info.ModTime())
		}
		if strings.Count(path, string(filepath.Separator)) >= depth {
			return filepath.SkipDir
		}
		return nil
	})
}

// find returns the run with an id, or nil if there is none.
func (f *finder) find(id string) *folder {
	f.all()
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.known[id]
}

// summary summarizes a run from its folder, without reading all measurements.
func (r *folder) summary() Run {
	out := Run{ID: r.id, State: stopped}
	path := filepath.Join(r.dir, metricsFile)
	if info, err := os.Stat(path); err == nil {
		out.Written = info.ModTime()
	}
	var epoch, seconds float64
	for _, m := range r.lastLines() {
		out.Step = max(out.Step, m.Step)
		if m.Loss != nil {
			out.Loss = m.Loss
		}
		if m.Valid != nil {
			out.Valid = m.Valid
		}
		if m.Right != nil {
			out.Right = m.Right
		}
		epoch, seconds = max(epoch, m.Epoch), max(seconds, m.Seconds)
	}
	has := func(name string) bool {
		info, err := os.Stat(filepath.Join(r.dir, name))
		return err == nil && info.Mode().IsRegular()
	}
	out.Report = has(cardFile) || has(reportFile)
	values, err := r.settings()
	if err == nil {
		out.Steps = wantedSteps(values)
		out.Done = share(values, float64(out.Step), epoch, seconds)
	}
	if _, held := disk.HeldBy(r.dir); held {
		out.State = running
	} else if has(resultFile) || has(cardFile) && (out.Steps == 0 || out.Step >= out.Steps) {
		out.State = ended
	}
	return out
}

// line holds the fields of a line of measurements that the list shows.
type line struct {
	Step    int64    `json:"step"`
	Loss    *float64 `json:"loss"`
	Valid   *float64 `json:"valid_loss"`
	Right   *float64 `json:"valid_accuracy"`
	Epoch   float64  `json:"epoch"`
	Seconds float64  `json:"elapsed_s"`
}

// lastLines returns the last measurements of a run, or none if they cannot be read.
func (r *folder) lastLines() []line {
	r.mu.Lock()
	defer r.mu.Unlock()
	path := filepath.Join(r.dir, metricsFile)
	lines, _ := r.last.of(path, func() ([]line, error) { return readLines(path) })
	return lines
}

// readLines returns the measurements at the end of a file.
func readLines(path string) ([]line, error) {
	const tail = 16 << 10
	data, whole, err := readTail(path, tail)
	if err != nil {
		return nil, err
	}
	lines := bytes.Split(data, []byte{'\n'})
	if !whole {
		lines = lines[1:] // the first line is incomplete
	}
	var out []line
	for _, text := range lines {
		var l line
		if json.Unmarshal(text, &l) == nil {
			out = append(out, l)
		}
	}
	return out, nil
}

// readTail reads the last bytes of a file, at most most. whole reports whether that is the whole file.
func readTail(path string, most int64) (data []byte, whole bool, err error) {
	file, info, err := disk.Open(path)
	if err != nil {
		return nil, false, err
	}
	defer file.Close()
	from := max(0, info.Size()-most)
	data = make([]byte, info.Size()-from)
	n, err := file.ReadAt(data, from)
	if errors.Is(err, io.EOF) { // the file has become shorter
		err = nil
	}
	return data[:n], from == 0, err
}
