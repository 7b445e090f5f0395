package text

import (
	"fmt"
	"os"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/internal/config"
	"github.com/hippo-ssm/hippo/internal/disk"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/nn"
	"github.com/hippo-ssm/hippo/release"
	"github.com/hippo-ssm/hippo/tokenizer"
	"github.com/hippo-ssm/hippo/train"
)

// LoRA holds the settings of an adapter (arXiv:2106.09685), which is trained instead of the model that Init names. To
// each of some matrices W (n, k) it adds Alpha/Rank·B A, with B (n, rank) and A (rank, k). The model itself is
// unchanged, has no gradients and moments, and is not saved with the run.
type LoRA struct {
	Rank   int      `json:"rank" min:"0" help:"train and save an adapter of this rank; 0: train the model"`
	Alpha  float64  `json:"alpha" help:"the changes are scaled by alpha/rank; 0: twice the rank"`
	Target []string `json:"target" help:"matrices to change, by names, patterns or last parts of names; empty: all"`
	// Dropout is applied before A, see nn.LowRank.
	Dropout float64 `json:"dropout" help:"dropout probability of the adapter's inputs in training"`
	// Base is the precision to which the model's weights are rounded in memory. The rounded weights are computed with
	// in float32.
	Base string `json:"base" enum:"float32,bf16,int8,int4" help:"precision of the frozen weights of the model"`
}

// settle sets the defaults of settings that earlier versions lacked.
func (l *LoRA) settle() {
	if l.Base == "" {
		l.Base = engine.Float32.String()
	}
}

// alpha returns Alpha, or its default if it is 0.
func (l *LoRA) alpha() float64 {
	if l.Alpha == 0 {
		return float64(2 * l.Rank)
	}
	return l.Alpha
}

// precision returns the precision of the model's weights, which is float32 without an adapter.
func (l *LoRA) precision() engine.Precision {
	if l.Rank == 0 {
		return engine.Float32
	}
	p, _ := engine.ParsePrecision(l.Base) // validate has reported an error
	return p
}

// bases lists the precisions that a model's weights may have under an adapter.
var bases = []string{engine.Float32.String(), engine.BF16.String(), engine.Int8.String(),
	engine.Int4.String()}

// validate adds the problems of the settings.
func (l *LoRA) validate(c *Config, p *config.Problems) {
	p.OneOf("lora.base", l.Base, bases)
	switch {
	case l.Rank < 0:
		p.Addf("lora.rank", "found %d, want 0 or more", l.Rank)
	case l.Rank == 0 && (l.Alpha != 0 || l.Dropout != 0 || len(l.Target) > 0 || l.Base != bases[0]):
		p.Addf("lora.rank", "found 0 together with other settings of an adapter, want its rank, such as 16")
	case l.Rank == 0:
		return
	case c.Init == "":
		p.Addf("lora.rank", "found %d without init, want the model that the adapter is for (--init)", l.Rank)
	}
	if !(l.Alpha >= 0 && l.Alpha <= 1e6) {
		p.Addf("lora.alpha", "found %g, want a number from 0 to 1e6", l.Alpha)
	}
	if !(l.Dropout >= 0 && l.Dropout < 1) {
		p.Addf("lora.dropout", "found %g, want a number from 0 up, less than 1", l.Dropout)
	}
	if len(c.Freeze) > 0 && l.Rank > 0 {
		p.Addf("freeze", "found %q together with lora.rank, want one of them: an adapter freezes all of the model",
			c.Freeze)
	}
}

// fitsBase returns an error if the base can be used to train an adapter but not to run with it afterwards.
func (l *LoRA) fitsBase(b *Base) error {
	if l.Rank == 0 || release.IsGGUF(b.Path) {
		return nil
	}
	if info, err := os.Stat(b.Path); err == nil && !info.IsDir() {
		return fmt.Errorf("init: found the file %s, want a folder or a .gguf file: "+
			"the adapter will be used together with it (hippo convert makes a folder)", b.Path)
	}
	return nil
}

// shape returns the shape of the adapter.
func (l *LoRA) shape() model.AdapterShape {
	return model.AdapterShape{Rank: l.Rank, Alpha: l.alpha(), Targets: l.Target}
}

// begin adds an adapter that changes nothing yet to the model, if one is to be trained.
func (l *LoRA) begin(m *model.Model, seed uint64) error {
	if l.Rank == 0 {
		return nil
	}
	if _, err := l.adapt(m); err != nil {
		return err
	}
	m.Adapter().Init(seed)
	return nil
}

// adapt freezes all of a model but its adapter, which it adds if there is none, and counts the parameters.
func (l *LoRA) adapt(m *model.Model) (n train.ParamCount, err error) {
	if m.Adapter() == nil {
		if _, err := m.Adapt(l.shape()); err != nil {
			var p config.Problems
			p.AddUnder("lora.", err)
			return n, p.Err()
		}
	}
	m.TrainAdapter()
	m.Adapter().SetDropout(l.Dropout)
	m.Params("", func(_ string, p *nn.Param) {
		n.All += p.Len()
		n.Values += model.FrozenBytes(p, l.precision())
	})
	n.Trained = m.Adapter().NumParams()
	n.All += n.Trained
	n.Values += 4 * n.Trained
	return n, nil
}

// pack rounds the weights of a model in memory if the settings ask for it.
func (l *LoRA) pack(m *model.Model) error {
	if p := l.precision(); p != engine.Float32 {
		return m.PackFrozen(p)
	}
	return nil
}

// modules returns the names of the model's matrices in the files of the base, if an adapter is trained.
func (c *Config) modules(m *model.Model) (map[string]string, error) {
	if c.LoRA.Rank == 0 {
		return nil, nil
	}
	return release.ModuleNames(m, c.Base.Path)
}

// saveAdapter writes the adapter and a reference to its base.
func (tr *Work) saveAdapter(dir string) error {
	b, l := &tr.Config.Base, &tr.Config.LoRA
	name := b.Name
	if disk.Exists(name) {
		name = b.Path
	}
	a := release.Adapter{Name: name, Path: b.Path, Weights: b.Weights, Rank: l.Rank, Alpha: l.alpha(),
		Dropout: l.Dropout}
	return release.SaveAdapter(dir, tr.Model, a, tr.modules)
}

// loadBest reads the model of the best checkpoint. If an adapter is trained, the model shares the base's weights.
func (tr *Work) loadBest(dir string) (*model.Model, error) {
	if tr.Config.LoRA.Rank == 0 {
		best, _, err := release.LoadDir(dir)
		if err == nil {
			best.Use(tr.Model.Backend())
		}
		return best, err
	}
	if _, err := os.Stat(dir); err != nil {
		return nil, err
	}
	best, err := tr.Model.Beside()
	if err != nil {
		return nil, err
	}
	err = tr.Config.Base.attach(best, dir)
	best.Place()
	return best, err
}

// attach adds the adapter in dir to a model with the weights of the base.
func (b *Base) attach(m *model.Model, dir string) error {
	a, err := release.ReadAdapter(dir)
	if err != nil {
		return err
	}
	return a.Attach(m, b.Path, b.Weights)
}

// loadLast loads the weights of the last checkpoint, in dir, into a model. For an adapter it also loads those of the
// base.
func (c *Config) loadLast(m *model.Model, dir string) error {
	if c.LoRA.Rank == 0 {
		return m.LoadSaved(dir)
	}
	if err := c.Base.fill(m, c.Base.Weights, &c.LoRA); err != nil {
		return err
	}
	return c.Base.attach(m, dir)
}

// runTokenizer returns the tokenizer of the run in folder Out, which is to be resumed. For an adapter it is that of the
// base, which must still be in its place.
func (c *Config) runTokenizer() (tokenizer.Tokenizer, error) {
	if c.LoRA.Rank == 0 {
		return RunTokenizer(c.Out)
	}
	b, err := openBase(c.Base.Name, c.Base.Path)
	if err != nil {
		return nil, fmt.Errorf("%w; the run trains an adapter of that model and cannot be resumed without it", err)
	}
	if b.tok == nil {
		err = c.takeTokenizer(b)
	}
	return b.tok, err
}
