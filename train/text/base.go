package text

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/internal/brief"
	"github.com/hippo-ssm/hippo/internal/config"
	"github.com/hippo-ssm/hippo/internal/disk"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/release"
	"github.com/hippo-ssm/hippo/tokenizer"
	"github.com/hippo-ssm/hippo/train"
)

// Base is the model that a run starts with, whose weights, shape and tokenizer it takes. A checkpoint of the run has
// all of that itself: it continues where there is no such model any more.
type Base struct {
	Name    string `json:"name"`           // as it was given: a path, or the name of a published model
	Path    string `json:"path"`           // its folder or file
	Weights string `json:"weights"`        // their fingerprint
	Card    []Said `json:"card,omitempty"` // what its own card says of it

	shape model.Config
	tok   tokenizer.Tokenizer // nil where it has none
}

// Said is a line of a model's card.
type Said struct {
	Key  string `json:"key"`
	Text string `json:"text"`
}

// StartFrom has a run start with the model at path, which the user calls name: with its weights, its shape and, where
// it has one, its tokenizer. The learning rate becomes one that suits a model which has been trained. A model whose
// weights are not in floating point is an error.
func (c *Config) StartFrom(name, path string) error {
	b, err := openBase(name, path)
	if err != nil {
		return err
	}
	c.Model, c.Tokenizer = b.shape, ""
	b.rates(&c.Optim, c.LoRA.Rank > 0)
	return c.take(b)
}

// openBase describes the model at path.
func openBase(name, path string) (*Base, error) {
	m, at, err := release.DescribeFloat(path)
	if err != nil {
		return nil, fmt.Errorf("init: %w", err)
	}
	if at, err = filepath.Abs(at); err != nil {
		return nil, err
	}
	b := &Base{Name: name, Path: at, shape: m.Config}
	b.tok, err = release.LoadTokenizer(b.texts(), &b.shape)
	var none *release.NoTokenizerError
	if err != nil && !errors.As(err, &none) {
		return nil, fmt.Errorf("init: %w", err)
	}
	b.Card = readCard(b.dir())
	return b, nil
}

// texts is where the tokenizer is: in the folder of the model, or in its GGUF file.
func (b *Base) texts() string {
	if release.IsGGUF(b.Path) {
		return b.Path
	}
	return b.dir()
}

// dir is the folder in which the model lies.
func (b *Base) dir() string {
	if info, err := os.Stat(b.Path); err == nil && !info.IsDir() {
		return filepath.Dir(b.Path)
	}
	return b.Path
}

// rates are a tenth of the learning rates that models of a width are usually made with, from 4e-3 for 128 channels to
// 2e-4 for 2048: higher ones soon undo what a model has learnt. An adapter takes ten times that: it starts with no
// change, and its rank bounds what it can undo.
func (b *Base) rates(o *train.Optim, adapter bool) {
	const perChannel, more = 0.05, 10
	o.LR, o.SSMLR = perChannel/float64(b.shape.DModel), 0
	if adapter {
		o.LR *= more
	}
}

// take checks the settings of a run against its base, and fills in what they leave to it. Everything that shapes the
// model must be the base's: dropout is not of that kind.
func (c *Config) take(b *Base) error {
	var p config.Problems
	want := b.shape
	want.EmbedDropout, want.AttnDropout, want.ResidDropout =
		c.Model.EmbedDropout, c.Model.AttnDropout, c.Model.ResidDropout
	if samePlan(&c.Model, &want) { // in other words
		c.Model.Layers, c.Model.NLayer = want.Layers, want.NLayer
		c.Model.Mixer, c.Model.AttnIdx = want.Mixer, want.AttnIdx
	}
	for _, line := range config.Diff(&want, &c.Model) {
		p = append(p, fmt.Sprintf("model.%s: the shape is that of %s, which --init names", line, brief.Line(b.Name)))
	}
	c.Model = want
	p.Add(c.takeTokenizer(b))
	p.Add(c.LoRA.fitsBase(b))
	if err := p.Err(); err != nil {
		return err
	}
	c.Init, c.Base = b.Name, *b
	return nil
}

// samePlan reports whether two shapes have the same layers.
func samePlan(a, b *model.Config) bool {
	x, err1 := a.Plan()
	y, err2 := b.Plan()
	return err1 == nil && err2 == nil && slices.Equal(x, y)
}

// takeTokenizer is take for the tokenizer: that of the base or, where it has none, one that fits.
func (c *Config) takeTokenizer(b *Base) error {
	switch {
	case b.tok == nil && (c.Tokenizer == "" || c.Tokenizer == "chars"):
		return fmt.Errorf("tokenizer: found none with %s, whose model has %d tokens; "+
			"want that which it was trained with", b.Name, b.shape.VocabSize)
	case b.tok == nil:
		tok, err := release.ParseTokenizer(c.Tokenizer)
		if err == nil {
			err = release.CheckTokenizer(tok, b.Path, &b.shape)
		}
		if err != nil {
			return fmt.Errorf("tokenizer: %w", err)
		}
		b.tok = tok
		return nil
	case c.Tokenizer != "" && !sameTokenizer(c.Tokenizer, b.tok):
		return fmt.Errorf("tokenizer: found %s together with --init %s, whose tokenizer is another: %s of %d tokens; "+
			"want it left out", c.Tokenizer, b.Name, b.tok.Kind(), b.tok.VocabSize())
	}
	switch c.Tokenizer = b.tok.Kind(); c.Tokenizer {
	case "bytes", "chars", "dna", "gpt2":
	default:
		c.Tokenizer = b.texts()
	}
	return nil
}

// sameTokenizer reports whether a setting names a tokenizer. That of characters has its alphabet from elsewhere.
func sameTokenizer(spec string, tok tokenizer.Tokenizer) bool {
	if spec == "chars" {
		return tok.Kind() == spec
	}
	named, err := release.ParseTokenizer(spec)
	return err == nil && named.Fingerprint() == tok.Fingerprint()
}

// begun returns an error for settings that name a base which no one has read.
func (c *Config) begun() error {
	if c.Init != "" && c.Base.tok == nil {
		return fmt.Errorf("init: found %q, whose shape the settings do not have; want settings of LoadNew or StartFrom",
			c.Init)
	}
	return nil
}

// fill gives a model the weights of the base or, where an adapter is trained, what they are rounded to.
func (b *Base) fill(m *model.Model, want string, l *LoRA) (err error) {
	switch p := l.precision(); p {
	case engine.Float32:
		if err = release.LoadFloat(m, b.Path); err == nil {
			b.Weights = m.WeightsFingerprint()
		}
	default:
		if err = release.LoadFrozen(m, b.Path, p); err == nil {
			b.Weights, err = release.FileFingerprint(b.Path)
		}
	}
	if err != nil {
		return fmt.Errorf("init: %w", err)
	}
	if want != "" && want != b.Weights {
		return fmt.Errorf("init_weights: found weights %s in %s, want %s: the model has changed", b.Weights,
			b.Path, want)
	}
	return nil
}

// cardKeys are the lines of a card that tell what came before: those of a run's card, and of the head of a README.md.
var cardKeys = []string{
	beganWith, "validation loss", "training", "data", "license", "license_name", "base_model", "datasets",
}

// beganWith is the line of a run's card that names its base.
const beganWith = "began with"

// readCard finds what the card of a model says: MODEL.md of the run, or README.md of a published model, beside the
// weights or, for a checkpoint of a run, in the run's folder. It is but a note: one that cannot be read is none.
func readCard(dir string) []Said {
	cards := []string{filepath.Join(dir, CardFile), filepath.Join(dir, "README.md")}
	if base := filepath.Base(dir); base == model.BestDir || base == model.LastDir {
		cards = append([]string{filepath.Join(filepath.Dir(dir), CardFile)}, cards...)
	}
	for _, path := range cards {
		text, err := disk.ReadText(path, disk.MaxText)
		if said := parseCard(string(text)); err == nil && len(said) > 0 {
			return said
		}
	}
	return nil
}

// parseCard reads the lines "| key | text |" of a run's card, or "key: text" and lists "- item" of the head of a
// README.md, which is between two lines of dashes.
func parseCard(text string) (said []Said) {
	lines := bufio.NewScanner(strings.NewReader(text))
	head := -1 // lines of dashes seen, in a text that starts with one
	add := func(key, value string) {
		if value = strings.Trim(value, ` "'`); value != "" && slices.Contains(cardKeys, key) {
			said = append(said, Said{key, brief.Line(value)})
		}
	}
	list := "" // the key whose items follow
	for n := 0; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		cells := strings.SplitN(strings.Trim(line, "|"), "|", 2)
		switch key, value, field := strings.Cut(line, ":"); {
		case line == "---" && (n == 0 || head == 0):
			head++
		case head == 0 && strings.HasPrefix(line, "- "):
			add(list, line[2:])
		case head == 0 && field:
			list = key
			add(key, value)
		case strings.HasPrefix(line, "|") && len(cells) == 2:
			add(strings.TrimSpace(cells[0]), cells[1])
		}
	}
	return said
}
