package text

import (
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/hippo-ssm/hippo/cluster"
	"github.com/hippo-ssm/hippo/data"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/engine/native"
	"github.com/hippo-ssm/hippo/internal/config"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/train"
)

// invitation is the data that a machine needs to join a run, besides weights and moments.
type invitation struct {
	Config json.RawMessage `json:"config"`
	Step   int             `json:"step"`
	Level  string          `json:"level"` // level of CPU features; "" for the machine's own
	// Members is the number of machines, including those that join now.
	Members int `json:"members"`
}

// Greeting returns the description of this machine for the leader of a run. c holds the settings that it was started
// with, or is nil to take the leader's. on is the engine on which it computes, or nil for the processor.
func Greeting(c *Config, rank int, on engine.Backend) (cluster.Greeting, error) {
	version, err := train.Build()
	if err != nil {
		return cluster.Greeting{}, err
	}
	name, err := os.Hostname()
	if err != nil {
		return cluster.Greeting{}, err
	}
	return cluster.Greeting{Name: name, Cores: runtime.GOMAXPROCS(0), Version: version, Arch: runtime.GOARCH,
		Levels: native.Levels(), Device: deviceName(on), Settings: c.shared(), Rank: rank}, nil
}

// deviceName returns the name of an engine's device and driver, on which the bits of results depend, or "" for the
// processor.
func deviceName(on engine.Backend) string {
	switch d := on.(type) {
	case nil:
		return ""
	case fmt.Stringer:
		return d.String()
	}
	return on.Kind()
}

// shared returns, as JSON, the settings that all machines of a run must have in common.
func (c *Config) shared() string {
	if c == nil {
		return ""
	}
	s := *c
	s.Out, s.Cache, s.CacheLimit, s.Memory = "", "", "", ""
	text, err := json.Marshal(&s)
	if err != nil {
		panic(err) // only numbers that are not finite could fail, which Validate refuses
	}
	return string(text)
}

// Named returns a short description of a machine.
func Named(g cluster.Greeting) string {
	on := fmt.Sprintf("%d cores", g.Cores)
	if n := len(g.Levels); n > 0 {
		on += ", " + g.Levels[n-1]
	}
	return fmt.Sprintf("%s (%s)", g.Name, cmp.Or(g.Device, on))
}

// SharedLevel makes this machine compute with the highest level of CPU features that it and all others have, and
// returns its name.
func SharedLevel(others []cluster.Greeting) (string, error) {
	for _, level := range slices.Backward(native.Levels()) {
		if !slices.ContainsFunc(others, func(g cluster.Greeting) bool { return !slices.Contains(g.Levels, level) }) {
			return level, native.Use(level)
		}
	}
	return "", errors.New("found no features of the processor that all machines have")
}

// Shareable returns an error if several machines cannot make the updates of these settings together.
func (c *Config) Shareable() error {
	if c.Device != nil && c.Train.Moments == momentsSplit {
		return fmt.Errorf("train.moments: found %s on a device, want %s: parts are updated in the memory of the host",
			momentsSplit, momentsAll)
	}
	return nil
}

// processor is the name in messages for the device of a machine that has none.
const processor = "the processor"

// Admits returns a function that returns an error if a machine may not take part in a run of these settings.
func (c *Config) Admits(own cluster.Greeting) func(cluster.Greeting) error {
	return func(g cluster.Greeting) error {
		level, err := native.Level()
		switch {
		case err != nil:
			return err
		case g.Version != own.Version:
			return fmt.Errorf("version: found %.40s, want that of the leader, %.40s", g.Version, own.Version)
		case c.AnyBits:
		case g.Device != own.Device:
			return fmt.Errorf("device: found %s, want %s as the leader's: others give other bits, which --bits any "+
				"allows", cmp.Or(g.Device, processor), cmp.Or(own.Device, processor))
		case g.Arch != own.Arch:
			return fmt.Errorf("processor: found %s, want %s as the leader's: others give other bits, which --bits any "+
				"allows", g.Arch, own.Arch)
		case !slices.Contains(g.Levels, level):
			return fmt.Errorf("processor: found the features %s, want %s, which the run computes with: start it with "+
				"HIPPO_CPU set to one of those", strings.Join(g.Levels, ", "), level)
		}
		return c.differs(g.Settings)
	}
}

// differs returns an error that names the settings in which another machine differs. theirs is "" if it has none of its
// own.
func (c *Config) differs(theirs string) error {
	ours := c.shared()
	if theirs == "" || theirs == ours {
		return nil
	}
	var a, b Config
	if err := errors.Join(json.Unmarshal([]byte(ours), &a), json.Unmarshal([]byte(theirs), &b)); err != nil {
		return fmt.Errorf("settings: %w", err)
	}
	if lines := config.Diff(&a, &b); len(lines) > 0 {
		return fmt.Errorf("settings: found others than the leader's (leader's -> found): %s", strings.Join(lines, ", "))
	}
	return errors.New("settings: found another model to start from than the leader's")
}

// Lead makes the machines of a team, whose leader this one is, take part in the run.
func (tr *Work) Lead(loop *train.Training, t *cluster.Team) error {
	c := &tr.Config
	if _, err := loop.State(); err != nil { // check that the state can be sent
		return err
	}
	t.Lead(func() ([]byte, []float32) {
		settings, err := json.Marshal(c)
		level, bad := native.Level()
		if c.AnyBits {
			level = ""
		}
		state, bad2 := loop.State()
		body, bad3 := json.Marshal(invitation{settings, loop.Steps(), level, t.Size()})
		if err := errors.Join(err, bad, bad2, bad3); err != nil {
			panic(err) // all of this worked before
		}
		return body, state
	}, loop.Note)
	return loop.Lead(t)
}

// Follow takes part in a leader's run until that ends. on is the engine, or nil for the processor. The error is
// cluster.ErrLeaderGone, a *cluster.EndedError if the run ended early or does not admit this machine, or that of ctx if
// the machine has left.
func Follow(ctx context.Context, w cluster.Wire, on engine.Backend, ev train.Events) error {
	var work *Work
	var loop *train.Training
	var state []float32
	var inv invitation
	team, err := cluster.Join(ctx, w, func(body []byte, n int) ([]float32, error) {
		err := json.Unmarshal(body, &inv)
		if err == nil {
			work, loop, err = inv.prepare(on)
		}
		if err == nil {
			state, err = loop.State()
		}
		if err != nil {
			return nil, fmt.Errorf("the leader's settings: %w", err)
		}
		return state, nil
	}, time.Now)
	if err != nil {
		return errors.Join(err, w.Close())
	}
	if err := loop.SetState(state); err != nil {
		return errors.Join(err, team.Leave())
	}
	if ev.Start != nil {
		c := &work.Config
		ev.Start(train.Start{Params: work.params.All, Trained: work.params.Trained, Steps: c.Train.Steps,
			Resumed: inv.Step, Tokenizer: c.Tokenizer, Vocab: c.Model.VocabSize})
	}
	return errors.Join(loop.Follow(ctx, team, inv.Step, ev), team.Leave())
}

// fillFrozen loads the weights of the base, in fewer bits than float32, from its files on this machine.
func (c *Config) fillFrozen(m *model.Model) error {
	b, err := openBase(c.Base.Name, c.Base.Path)
	if err != nil {
		return fmt.Errorf("%w; with lora.base %s each machine reads the model itself", err, c.LoRA.Base)
	}
	return b.fill(m, c.Base.Weights, &c.LoRA)
}

// prepare makes the work and the loop that the leader's settings describe. The leader sends the weights afterwards.
func (inv *invitation) prepare(on engine.Backend) (*Work, *train.Training, error) {
	if inv.Level != "" {
		if err := native.Use(inv.Level); err != nil {
			return nil, nil, err
		}
	}
	var c Config
	if err := json.Unmarshal(inv.Config, &c); err != nil {
		return nil, nil, err
	}
	if err := c.Validate(); err != nil {
		return nil, nil, err
	}
	if inv.Step < 0 {
		return nil, nil, fmt.Errorf("found step %d, want at least 0", inv.Step)
	}
	c.members, c.Device = inv.Members, on
	if err := c.Shareable(); err != nil {
		return nil, nil, err
	}
	m, err := model.New(c.Model)
	if err != nil {
		return nil, nil, err
	}
	if err := c.checkMemory(c.Model.VocabSize); err != nil {
		return nil, nil, err
	}
	if c.LoRA.precision() == engine.Float32 {
		m.Init(c.Seed) // allocates the weights that the leader sends
	} else if err := c.fillFrozen(m); err != nil {
		return nil, nil, err
	}
	if err := c.LoRA.begin(m, c.Seed); err != nil {
		return nil, nil, err
	}
	params, err := c.freeze(m)
	if err != nil {
		return nil, nil, err
	}
	if err := c.Train.chunked(m); err != nil {
		return nil, nil, err
	}
	if on != nil {
		m.Use(on)
	}
	c.Train.EMA, c.Train.Time = 0, 0 // handled by the leader
	w := &Work{Config: c, Model: m, params: params}
	w.makeRoom()
	loop, err := w.Begin()
	return w, loop, err
}

var _ train.CarriedWork = (*Work)(nil)

// Rows returns a byte that is 1 if states begin anew, the inputs and targets of a shard and, for each sequence, the
// number of document borders in it and their positions.
func (tr *Work) Rows(s train.Shard) []byte {
	le, n := binary.LittleEndian, tr.Config.Train.SeqLen
	out := []byte{0}
	if tr.begins {
		out[0] = 1
	}
	put := func(v []int32) {
		for _, x := range v {
			out = le.AppendUint32(out, uint32(x))
		}
	}
	put(tr.inputs[s.First*n : s.End*n])
	put(tr.targets[s.First*n : s.End*n])
	for _, borders := range tr.borders[s.First:s.End] {
		out = le.AppendUint32(out, uint32(len(borders)))
		for _, at := range borders {
			out = le.AppendUint32(out, uint32(at))
		}
	}
	return out
}

// Take checks and stores the result of Rows.
func (tr *Work) Take(s train.Shard, rows []byte) error {
	le, n, vocab := binary.LittleEndian, tr.Config.Train.SeqLen, int32(tr.Config.Model.PaddedVocab())
	short := fmt.Errorf("rows of shard %d: found too few or too many bytes, want those of %d sequences", s.Index,
		s.End-s.First)
	if len(rows) == 0 || rows[0] > 1 {
		return short
	}
	begins := rows[0] == 1
	rows = rows[1:]
	next := func() (v int32, ok bool) {
		if len(rows) < 4 {
			return 0, false
		}
		v, rows = int32(le.Uint32(rows)), rows[4:]
		return v, true
	}
	for _, into := range []struct {
		ids   []int32
		least int32
	}{{tr.inputs[s.First*n : s.End*n], 0}, {tr.targets[s.First*n : s.End*n], data.Ignore}} {
		for i := range into.ids {
			id, ok := next()
			if !ok {
				return short
			}
			if id < into.least || id >= vocab {
				return fmt.Errorf("rows of shard %d: found the id %d, want %d to %d", s.Index, id, into.least, vocab-1)
			}
			into.ids[i] = id
		}
	}
	for k := s.First; k < s.End; k++ {
		count, ok := next()
		if !ok || count < 0 || int(count) > n {
			return short
		}
		borders := make([]int, count)
		for i := range borders {
			at, ok := next()
			if !ok || at < 0 || int(at) >= n || i > 0 && int(at) <= borders[i-1] {
				return short
			}
			borders[i] = int(at)
		}
		tr.borders[k] = borders
	}
	switch {
	case len(rows) > 0:
		return short
	case begins && tr.Config.Train.CarryState:
		tr.setCarried(s, newStates(tr.Model, s.End-s.First))
	case tr.Config.Train.CarryState && (tr.carried == nil || slices.Contains(tr.carried[s.First:s.End], nil)):
		return fmt.Errorf("rows of shard %d: found no states that its sequences go on from", s.Index)
	}
	return nil
}
