package inspect

import (
	"cmp"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/hippo-ssm/hippo/internal/disk"
	"github.com/hippo-ssm/hippo/internal/status"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/tokenizer"
	"github.com/hippo-ssm/hippo/train/text"
)

// PrintModel adds a model's shape, its parameters by part, and the size of its state to a table.
func PrintModel(t status.Table, m *model.Model) {
	c := m.Config
	t.Row("layers", "%d: %s", len(m.Blocks), compact(kinds(m.Blocks)))
	switch {
	case c.Layers != "" && strings.ContainsRune(c.Layers, '('): // as in published hybrids: sizes are options of mixers
		t.Row("shape", "d_model %d, d_inner %d, vocab_size %d, MLP %s", c.DModel, c.Inner(), c.VocabSize, c.MLP)
		plan, _ := c.Plan() // no error: the model exists
		count := map[string]int{}
		for _, entry := range plan {
			count[entry]++
		}
		for _, entry := range slices.Sorted(maps.Keys(count)) {
			t.Row("layer", "%d of %s", count[entry], entry)
		}
	case m.Blocks[0].MLP == nil: // as in Mamba
		t.Row("shape", "d_model %d, vocab_size %d, mixer %s", c.DModel, c.VocabSize, cmp.Or(c.Layers, c.Mixer))
	default:
		t.Row("shape", "d_model %d, d_inner %d, d_state %d, head_dim %d, num_heads %d, vocab_size %d", c.DModel,
			c.Inner(), c.DState, c.HeadDim, c.NumHeads, c.VocabSize)
	}
	names, each := paramsByPart(m)
	var parts []string
	for _, name := range names {
		parts = append(parts, name+" "+status.Count(each[name]))
	}
	t.Row("parameters", "%s (%d): %s", status.Count(m.NumParams()), m.NumParams(), strings.Join(parts, ", "))
	size := status.Bytes(m.NewState().Size()) + " per sequence"
	if n, kinds := m.Growth(); n > 0 {
		size += " and " + status.Bytes(n) + " more with each token, of " + strings.Join(kinds, ", ")
	}
	t.Row("state", "%s", size)
}

// kinds returns the mixers of layers.
func kinds(blocks []*model.Block) (names []string) {
	for _, b := range blocks {
		names = append(names, b.Kind)
	}
	return names
}

// paramsByPart counts the parameters of each part of a model. The names are in the order of the model.
func paramsByPart(m *model.Model) (names []string, count map[string]int) {
	count = map[string]int{}
	for _, x := range m.Tensors() {
		part := partOf(m, x.Name)
		if count[part] == 0 {
			names = append(names, part)
		}
		count[part] += x.Elements()
	}
	return names, count
}

// partOf returns the part of a model that a parameter belongs to: embedding, head, the kind of a mixer, MLP, shared
// (blocks that layers share) or norms.
func partOf(m *model.Model, param string) string {
	layer, ok := strings.CutPrefix(param, "backbone.layers.")
	switch {
	case strings.HasPrefix(param, "backbone.embedding_norm."):
		return "norms"
	case strings.HasPrefix(param, "backbone.embedding"):
		return "embedding"
	case strings.HasPrefix(param, "lm_head."):
		return "head"
	case !ok:
		return "norms"
	}
	index, rest, _ := strings.Cut(layer, ".")
	switch i, err := strconv.Atoi(index); {
	case strings.HasPrefix(rest, "mlp."):
		return "MLP"
	case strings.HasPrefix(rest, "shared."):
		return "shared"
	case err == nil && strings.HasPrefix(rest, "mixer."):
		return m.Blocks[i].Kind
	}
	return "norms"
}

// compact joins names in the form of the setting model.layers, with equal neighbors written as NAME*COUNT.
func compact(names []string) string {
	var out []string
	for i := 0; i < len(names); {
		n := i + 1
		for n < len(names) && names[n] == names[i] {
			n++
		}
		if n == i+1 {
			out = append(out, names[i])
		} else {
			out = append(out, fmt.Sprintf("%s*%d", names[i], n-i))
		}
		i = n
	}
	return strings.Join(out, ",")
}

// PrintTokenizer adds a tokenizer, which may be nil, to a table.
func PrintTokenizer(t status.Table, tok tokenizer.Tokenizer) {
	if tok == nil {
		t.Row("tokenizer", "none")
		return
	}
	end := "no end-of-text token"
	if id, ok := tok.EndOfText(); ok {
		end = fmt.Sprintf("end of text %d", id)
	}
	t.Row("tokenizer", "%s, %d tokens, %s, fingerprint %s", tok.Kind(), tok.VocabSize(), end, tok.Fingerprint())
}

// printRun adds the training run that dir belongs to, if there is one.
func printRun(t status.Table, dir string) error {
	run, out, err := text.RunOf(dir)
	if err != nil || out == "" {
		return err
	}
	length := fmt.Sprintf("%d steps", run.Train.Steps)
	if run.Train.Time > 0 {
		length = fmt.Sprintf("%v of steps", run.Train.Time)
	}
	trained := cmp.Or(strings.Join(run.Data, ", "), "the built-in text")
	t.Row("trained on", "%s; at most %s of %d tokens", trained, length,
		run.Train.BatchSize*run.Train.SeqLen*run.Train.Shards)
	if card := filepath.Join(out, text.CardFile); disk.Exists(card) {
		t.Row("run card", "%s", card)
	}
	return nil
}
