package text

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hippo-ssm/hippo/cluster"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/engine/native"
	"github.com/hippo-ssm/hippo/internal/disk"
	"github.com/hippo-ssm/hippo/release"
	"github.com/hippo-ssm/hippo/train"
)

// together trains a run with other members besides the leader, in one process. harm, if not nil, is called before each
// message, with its number.
func together(t *testing.T, c Config, others int, harm func(n *cluster.Local, at int)) (notes []string, res Result) {
	t.Helper()
	return togetherAt(t, c, others, harm, nil)
}

// togetherAt is together, but calls step, if not nil, after each of the leader's steps.
func togetherAt(t *testing.T, c Config, others int, harm, step func(n *cluster.Local, at int)) (notes []string,
	res Result) {
	t.Helper()
	return togetherOn(t, c, make([]engine.Backend, others), harm, step)
}

// togetherOn is togetherAt with one member besides the leader for each engine, nil for the processor.
func togetherOn(t *testing.T, c Config, others []engine.Backend, harm, step func(n *cluster.Local, at int)) (
	notes []string, res Result) {
	t.Helper()
	n := cluster.NewLocal()
	defer n.Close()
	own, err := Greeting(nil, 0, c.Device)
	if err != nil {
		t.Fatal(err)
	}
	team := cluster.NewLeader(n.Wire(own), "lead", cluster.Host{Check: c.Admits(own)}, time.Now)
	var members sync.WaitGroup
	for i, on := range others {
		g := own
		g.Name = fmt.Sprintf("m%d", i+1)
		wire := n.Wire(g)
		members.Go(func() {
			var ended *cluster.EndedError
			err := Follow(t.Context(), wire, on, train.Events{})
			if on != nil && engine.Failure(on) != nil {
				if err == nil {
					t.Errorf("%s: no error, though its device is lost", g.Name)
				}
				return
			}
			if err != nil && !errors.Is(err, cluster.ErrLeaderGone) && !errors.As(err, &ended) {
				t.Errorf("%s: %v", g.Name, err)
			}
		})
	}
	if _, err := team.Gather(t.Context(), len(others)); err != nil {
		t.Fatal(err)
	}
	if harm != nil {
		n.Before = func(at int) { harm(n, at) }
	}
	c.Team = team
	ev := train.Events{Note: func(text string) { notes = append(notes, text) }}
	if step != nil {
		ev.Step = func(p train.Progress) { step(n, p.Step) }
	}
	res, err = Run(t.Context(), c, ev)
	why := cluster.Finished
	if err != nil {
		why = err.Error()
	}
	if err := errors.Join(err, team.End(why)); err != nil {
		t.Fatal(err)
	}
	members.Wait()
	return notes, res
}

// lastFiles returns the content of the last checkpoint and of the curve of a run.
func lastFiles(t *testing.T, out string) string {
	t.Helper()
	all := ""
	for _, name := range []string{"last/model.safetensors", "last/optimizer.safetensors", "best/model.safetensors"} {
		text, err := os.ReadFile(filepath.Join(out, name))
		if err != nil {
			t.Fatal(err)
		}
		all += string(text)
	}
	lines, err := os.ReadFile(filepath.Join(out, "metrics.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(lines)) {
		var v map[string]any
		if err := json.Unmarshal([]byte(line), &v); err != nil {
			t.Fatal(err)
		}
		all += fmt.Sprint(v["step"], v["loss"], v["grad_norm"], v["lr"], v["valid_loss"])
	}
	return all
}

// TestMachinesSameBits checks that one, two and three members make the same weights, moments and curve as one machine,
// bit for bit, with documents, dropout, averages, chunks and frozen layers, and if a member is lost in a step.
func TestMachinesSameBits(t *testing.T) {
	file := jsonl(t, documents(40)...)
	for name, change := range map[string]func(c *Config){
		"documents": func(c *Config) { c.Train.EMA = 0.5 },
		"chunks":    func(c *Config) { c.Model.Layers, c.Train.Chunk = "h3,mamba", 5 },
		"recompute": func(c *Config) { c.Train.Recompute = true },
		"split":     func(c *Config) { c.Train.Moments = momentsSplit },
		"frozen":    func(c *Config) { c.Freeze = []string{"backbone.layers.0"} },
	} {
		c := swift(t, "h3,attention")
		c.Data, c.Train.Shards, c.Train.Steps, c.Train.EvalEvery = []string{file}, 5, 4, 2
		c.Train.SaveEvery = 1000
		change(&c)
		c.Out = filepath.Join(t.TempDir(), "alone")
		if _, err := Run(t.Context(), c, train.Events{}); err != nil {
			t.Fatal(err)
		}
		want := lastFiles(t, c.Out)
		for others := range 3 {
			c.Out = filepath.Join(t.TempDir(), "run")
			var harm func(*cluster.Local, int)
			if (name == "documents" || name == "split") && others == 2 {
				harm = func(n *cluster.Local, at int) {
					if at == 30 {
						n.Kill(1)
					}
				}
			}
			notes, _ := together(t, c, others, harm)
			if lastFiles(t, c.Out) != want {
				t.Errorf("%s: the run with %d others differs from that of one machine", name, others)
			}
			joined := slices.ContainsFunc(notes, func(s string) bool { return strings.HasPrefix(s, "+ m1 (") })
			gone := slices.ContainsFunc(notes, func(s string) bool {
				return strings.HasPrefix(s, "- m1 gone at step ")
			})
			if joined != (others > 0) || gone != (harm != nil) {
				t.Errorf("%s: with %d others the notes are %q", name, others, notes)
			}
		}
	}
}

// TestMachinesThatDiffer checks that a machine with another version, processor or setting is refused, with a reason in
// one line.
func TestMachinesThatDiffer(t *testing.T) {
	c := swift(t, "h3")
	own, err := Greeting(&c, 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	admit := c.Admits(own)
	if err := admit(own); err != nil {
		t.Errorf("the same: %v", err)
	}
	level, err := native.Level()
	if err != nil {
		t.Fatal(err)
	}
	other := c
	other.Train.Steps, other.Out, other.Cache = 77, "elsewhere", "none"
	for want, change := range map[string]func(g *cluster.Greeting){
		"device: found a card, want the processor as the leader's: others give other bits": func(g *cluster.Greeting) {
			g.Device = "a card"
		},
		"version: found x, want that of the leader": func(g *cluster.Greeting) { g.Version = "x" },
		"processor: found pdp11, want ":             func(g *cluster.Greeting) { g.Arch = "pdp11" },
		"processor: found the features old, want " + level: func(g *cluster.Greeting) {
			g.Levels = []string{"old"}
		},
		"train.steps: " + fmt.Sprint(c.Train.Steps) + " -> 77": func(g *cluster.Greeting) {
			g.Settings = other.shared()
		},
		"settings: ": func(g *cluster.Greeting) { g.Settings = "{" },
	} {
		g := own
		change(&g)
		if err := admit(g); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("found %v, want a line with %q", err, want)
		}
	}
	c.AnyBits = true
	unlike := own
	if unlike.Arch, unlike.Levels, unlike.Device = "pdp11", nil, "a card"; c.Admits(own)(unlike) != nil {
		t.Errorf("another processor, which any bits allow: %v", c.Admits(own)(unlike))
	}
	if unlike.Version = "x"; c.Admits(own)(unlike) == nil {
		t.Error("another version takes part, as any bits are allowed")
	}
	other.Train.Steps = c.Train.Steps
	if own.Settings = other.shared(); admit(own) != nil {
		t.Errorf("another folder: %v", admit(own))
	}
	got, err := SharedLevel([]cluster.Greeting{{Levels: []string{native.Levels()[0], level}}})
	if got != level || err != nil {
		t.Errorf("the level of equals is %s, %v, want %s", got, err, level)
	}
	if _, err := SharedLevel([]cluster.Greeting{{Levels: []string{"none"}}}); err == nil {
		t.Error("found a level that two machines share which share none")
	}
}

// TestRowsOfOthers checks that invalid rows are refused and never store an id outside the vocabulary.
func TestRowsOfOthers(t *testing.T) {
	c := swift(t, "h3")
	c.Data = []string{jsonl(t, documents(40)...)}
	r := newRun(t, c)
	w := r.work
	if _, err := w.Read(0); err != nil {
		t.Fatal(err)
	}
	s := train.Shard{Index: 1, First: 2, End: 4}
	good := w.Rows(s)
	inputs, borders := slices.Clone(w.inputs), fmt.Sprint(w.borders)
	if borders == "[[] [] [] []]" {
		t.Fatal("found no borders of documents")
	}
	clear(w.inputs[24:])
	w.borders[2], w.borders[3] = nil, nil
	if err := w.Take(s, good); err != nil || !slices.Equal(w.inputs, inputs) || fmt.Sprint(w.borders) != borders {
		t.Errorf("taken: %v, %v, want %v", err, w.borders, borders)
	}
	for i := range good {
		if w.Take(s, good[:i]) == nil {
			t.Errorf("%d of %d bytes are taken", i, len(good))
		}
	}
	for i := 1; i < len(good); i += 4 {
		bad := slices.Clone(good)
		bad[i+3] = 0x7f
		if w.Take(s, bad) == nil {
			t.Errorf("%x at %d is taken", bad[i:i+4], i)
		}
	}
	if w.Take(s, append(good, 0)) == nil {
		t.Error("a byte too many is taken")
	}
}

// TestCarriedMachines checks that a run that carries states makes the same bits, including its states, on several
// machines as on one: if all are present from the start, if one joins during the run, across the end of the text, and
// if it is resumed by another number of machines. The loss of a machine ends the run with an error that names it, and
// the run continues from its checkpoint. If the leader has just fetched the states, the run goes on without
// interruption.
func TestCarriedMachines(t *testing.T) {
	c := swift(t, "h3,attention,mamba")
	c.Data = []string{jsonl(t, documents(40)...)}
	c.Documents, c.Train.CarryState, c.Train.Shards, c.Train.Steps = documentsJoin, true, 5, 11
	c.Train.EvalEvery, c.Train.SaveEvery = 1000, 1000
	c.Out = filepath.Join(t.TempDir(), "alone")
	if _, err := Run(t.Context(), c, train.Events{}); err != nil {
		t.Fatal(err)
	}
	files := func(out string) string {
		t.Helper()
		text, err := os.ReadFile(filepath.Join(out, "last", carriedFile))
		if err != nil {
			t.Fatal(err)
		}
		return lastFiles(t, out) + string(text)
	}
	want := files(c.Out)
	for others := 1; others < 4; others++ {
		for _, saveEvery := range []int{1000, 3} {
			c.Out, c.Train.SaveEvery = filepath.Join(t.TempDir(), "run"), saveEvery
			together(t, c, others, nil)
			if files(c.Out) != want {
				t.Errorf("%d others, saved every %d steps: the run differs from that of one machine", others, saveEvery)
			}
		}
	}
	own, err := Greeting(nil, 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, at := range map[string]func(n *cluster.Local, step int){
		"joins": func(n *cluster.Local, step int) {
			if step == 2 || step == 5 {
				wire := n.Wire(own)
				go func() { _ = Follow(context.Background(), wire, nil, train.Events{}) }()
			}
		},
		"lost": func(n *cluster.Local, step int) {
			if step == 5 {
				n.Kill(1)
			}
		},
	} {
		c.Out, c.Train.SaveEvery = filepath.Join(t.TempDir(), "run"), 3
		notes, err := carriedRun(t, c, at, nil)
		if name == "joins" {
			joined := strings.Count(strings.Join(notes, "\n"), "+ ")
			if err != nil || joined < 2 || files(c.Out) != want {
				t.Errorf("%s: %v, %d have joined, and the run differs: %t", name, err, joined, files(c.Out) != want)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), "m1 is lost: the states that its shards go on from") ||
			!strings.Contains(err.Error(), "--resume "+c.Out+" goes on from the checkpoint of step 3") ||
			strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", name, err)
		}
		resume := c
		n := cluster.NewLocal()
		defer n.Close()
		wire := n.Wire(own)
		follower := n.Wire(own)
		go func() { _ = Follow(context.Background(), follower, nil, train.Events{}) }()
		resume.Team = cluster.NewLeader(wire, "lead", cluster.Host{Check: c.Admits(own)}, time.Now)
		if _, err := resume.Team.Gather(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		if _, err := Resume(t.Context(), resume, train.Events{}); err != nil {
			t.Fatal(err)
		}
		if err := resume.Team.End(cluster.Finished); err != nil {
			t.Error(err)
		}
		if files(c.Out) != want {
			t.Errorf("%s: the run that was resumed differs from that of one machine", name)
		}
	}
	c.Out, c.Train.SaveEvery = filepath.Join(t.TempDir(), "run"), 3
	notes, err := carriedRun(t, c, func(*cluster.Local, int) {}, func(n *cluster.Local) {
		if disk.Exists(filepath.Join(c.Out, "last", train.TrainerFile)) { // the first message after the checkpoint
			n.Kill(1)
		}
	})
	if gone := strings.Contains(fmt.Sprint(notes), "- m1 gone"); err != nil || !gone || files(c.Out) != want {
		t.Errorf("lost right after a checkpoint: %v, %q, or the run differs", err, notes)
	}
}

// carriedRun trains a run with two members besides the leader. It calls at after each of the leader's steps and before,
// if not nil, before each message.
func carriedRun(t *testing.T, c Config, at func(n *cluster.Local, step int), before func(n *cluster.Local)) (
	notes []string, err error) {
	t.Helper()
	n := cluster.NewLocal()
	if before != nil {
		n.Before = func(int) { before(n) }
	}
	defer n.Close()
	own, err := Greeting(nil, 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	c.Team = cluster.NewLeader(n.Wire(own), "lead", cluster.Host{Check: c.Admits(own)}, time.Now)
	var members sync.WaitGroup
	for i := range 2 {
		g := own
		g.Name = fmt.Sprintf("m%d", i+1)
		wire := n.Wire(g)
		members.Go(func() { _ = Follow(context.Background(), wire, nil, train.Events{}) })
	}
	if _, err := c.Team.Gather(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	_, err = Run(t.Context(), c, train.Events{
		Note: func(text string) { notes = append(notes, text) },
		Step: func(p train.Progress) { at(n, p.Step) },
	})
	if bad := c.Team.End(cluster.Finished); bad != nil {
		t.Error(bad)
	}
	members.Wait()
	return notes, err
}

// TestAdapterMachines checks that an adapter trained by several machines has the same bits as from one machine. The
// leader sends the frozen model. If the model has fewer bits than float32, each machine reads it itself and must have
// it.
func TestAdapterMachines(t *testing.T) {
	first := small(t)
	mustRun(t, first)
	for _, base := range []string{"float32", "bf16", "int8"} {
		files := func(out string) (all string) {
			for _, name := range []string{release.AdapterWeightsFile, "optimizer.safetensors"} {
				all += contents(t, filepath.Join(out, "last"))[name]
			}
			return all
		}
		c := adapting(t, first.Out, base)
		c.LoRA.Dropout, c.Train.Shards = 0.1, 3
		mustRun(t, c)
		want := files(c.Out)
		for others := 1; others < 3; others++ {
			c.Out = filepath.Join(t.TempDir(), "run")
			if others == 2 {
				c.Train.Moments = momentsSplit
			}
			together(t, c, others, nil)
			if got := files(c.Out); got != want || len(got) < 1000 {
				t.Errorf("%s: the adapter made with %d others differs from that of one machine", base, others)
			}
		}
		settings, err := json.Marshal(&c)
		if err != nil {
			t.Fatal(err)
		}
		var elsewhere Config
		if err := json.Unmarshal(settings, &elsewhere); err != nil {
			t.Fatal(err)
		}
		elsewhere.Base.Path = "nowhere"
		if settings, err = json.Marshal(&elsewhere); err != nil {
			t.Fatal(err)
		}
		inv := invitation{Config: settings}
		_, _, err = inv.prepare(nil)
		if missing := err != nil && strings.Contains(err.Error(), "nowhere") &&
			strings.Contains(err.Error(), "each machine reads the model itself"); missing != (base != "float32") {
			t.Errorf("%s: a machine without the model: %v", base, err)
		}
	}
}
