package watch

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/hippo-ssm/hippo/checkpoint"
	"github.com/hippo-ssm/hippo/internal/brief"
	"github.com/hippo-ssm/hippo/session"
)

// stateVersion is the version of the files that Encode writes.
const stateVersion = 1

// savedState is the JSON form of a Watcher.
type savedState struct {
	Version  int              `json:"hippo_watch"`
	Identity session.Identity `json:"identity"` // identity of the model
	Score    string           `json:"score"`
	Streams  []savedStream    `json:"streams"`
}

type savedStream struct {
	Name string `json:"name"`
	Counts
	Place  Place      `json:"place"`
	Since  int        `json:"since"` // lines since the state was reset
	Scores *Quantiles `json:"scores"`
	// State is the output of session.Snapshot.Encode, nil before the first line.
	State []byte `json:"state"`
}

// Encode writes the streams with their states and thresholds, so that after Restore they continue with the same bits.
func (w *Watcher) Encode(out io.Writer) error {
	saved := savedState{
		Version: stateVersion, Identity: session.Identify(w.model, w.tok), Score: w.o.scoring(),
		Streams: make([]savedStream, len(w.streams)),
	}
	for i, s := range w.streams {
		saved.Streams[i] = savedStream{
			Name: s.Name, Counts: s.Counts, Place: s.Place, Since: s.since, Scores: s.scores,
		}
		if s.batch == nil {
			continue
		}
		var state bytes.Buffer
		if err := session.Take(s.batch).Encode(&state, saved.Identity, session.FileOptions{}); err != nil {
			return err
		}
		saved.Streams[i].State = state.Bytes()
	}
	return json.NewEncoder(out).Encode(saved)
}

// Restore reads the streams that Encode wrote into a watcher that has none yet. note says what could not be restored:
// the states if they are of another model, and the thresholds if they are for other scores.
func (w *Watcher) Restore(data []byte) (note string, err error) {
	var saved savedState
	if err := json.Unmarshal(data, &saved); err != nil {
		return "", brief.Error(fmt.Errorf("found no state of hippo watch: %w", err))
	}
	if saved.Version != stateVersion {
		return "", fmt.Errorf("hippo_watch: found version %d, want %d", saved.Version, stateVersion)
	}
	id := session.Identify(w.model, w.tok)
	streams := make([]*Stream, 0, len(saved.Streams))
	other := saved.Score != w.o.scoring()
	if other && len(saved.Streams) > 0 {
		note = fmt.Sprintf("its thresholds are for scores by %q; those by %q start again. ", brief.Line(saved.Score),
			w.o.scoring())
	}
	broken := error(nil)
	for i, from := range saved.Streams {
		where := fmt.Sprintf("streams[%d]", i)
		if err := from.check(); err != nil {
			return "", brief.Error(fmt.Errorf("%s: %w", where, err))
		}
		s := &Stream{Name: from.Name, Counts: from.Counts, Place: from.Place, since: from.Since}
		s.scores = from.Scores.copy(w.o.HalfLife)
		if other {
			s.scores = NewQuantiles(w.o.HalfLife)
		}
		if len(from.State) > 0 {
			at, err := session.DecodeSnapshot(from.State, w.model, id, nil)
			switch {
			case errors.Is(err, session.ErrDamaged):
				return "", fmt.Errorf("%s.state: %w", where, err)
			case err == nil && at.Logits == nil:
				return "", fmt.Errorf("%s.state: found no logits, want those after a line", where)
			case err != nil:
				broken = err
			default:
				s.batch = at.Session(w.model)
			}
		}
		streams = append(streams, s)
	}
	w.streams = streams
	if broken != nil {
		note += fmt.Sprintf("The states start again: %v", broken)
	}
	return strings.TrimSpace(note), nil
}

// check returns an error unless the numbers of a stream are possible.
func (s *savedStream) check() error {
	for _, n := range []struct {
		name  string
		value int64
	}{
		{"lines", s.Lines}, {"bytes", s.Bytes}, {"alarms", s.Alarms}, {"cut", s.Cut}, {"unreadable", s.Unreadable},
		{"restarts", s.Restarts}, {"since", int64(s.Since)}, {"place.offset", s.Place.Offset},
	} {
		if n.value < 0 {
			return fmt.Errorf("%s: found %d, want 0 or more", n.name, n.value)
		}
	}
	if s.Scores == nil {
		return errors.New("scores: found none, want the counts of scores")
	}
	return nil
}

// SaveModel atomically writes the current model and its tokenizer to a folder that hippo.Load can read.
func (w *Watcher) SaveModel(dir string) error {
	return checkpoint.WriteDirAtomic(dir, func(tmp string) error {
		return errors.Join(w.model.Save(tmp), w.tok.Save(tmp))
	})
}
