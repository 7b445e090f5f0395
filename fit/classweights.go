package fit

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/hippo-ssm/hippo/internal/brief"
	"github.com/hippo-ssm/hippo/task"
)

// Values of Config.ClassWeights. Other values list classes with their weights.
const (
	weightsAuto     = "auto"     // weights of the decision, chosen on the validation part
	weightsNone     = "none"     // all classes equal
	weightsBalanced = "balanced" // inversely proportional to the examples of a class
)

// checkClassWeights checks the setting as far as possible without the data.
func checkClassWeights(text string) error {
	if slices.Contains([]string{weightsAuto, weightsNone, weightsBalanced}, text) {
		return nil
	}
	_, err := weightsOf(text)
	return err
}

// weightsOf parses weights such as rare=10,other=2.
func weightsOf(text string) (map[string]float64, error) {
	all := map[string]float64{}
	for _, one := range strings.Split(text, ",") {
		at := strings.LastIndexByte(one, '=')
		w, err := strconv.ParseFloat(one[at+1:], 64)
		if at < 1 || err != nil || !(w >= 1e-6 && w <= 1e6) {
			return nil, fmt.Errorf("found %.60q, want auto, none, balanced, or weights such as rare=10,other=2, "+
				"each from 1e-6 to 1e6", text)
		}
		all[strings.TrimSpace(one[:at])] = w
	}
	return all, nil
}

// weigh sets the weights of the classes in training. counts are the class counts of the training part.
func (p *Plan) weigh(setting string, set *task.Set, counts []int) error {
	names, classes := p.classes()
	switch {
	case setting == weightsAuto || setting == weightsNone || setting == "":
		return nil
	case !classes:
		return fmt.Errorf("class_weights: found %.60q, want a target of classes for it: %s holds numbers", setting,
			brief.List(p.TargetNames(), ", "))
	case setting == weightsBalanced:
		p.Weights = balanced(counts, 1)
	default:
		given, err := weightsOf(setting)
		if err != nil {
			return fmt.Errorf("class_weights: %w", err)
		}
		p.Weights = make([]float64, len(names))
		for k, name := range names {
			w, ok := given[name]
			if delete(given, name); !ok {
				w = 1
			}
			p.Weights[k] = w
		}
		for name := range given {
			return fmt.Errorf("class_weights: found %q, want one of the classes %s", name, brief.List(names, ", "))
		}
	}
	sum, n := 0.0, 0.0
	for k, w := range p.Weights { // the mean over the training part is 1, so that the learning rate keeps its meaning
		sum, n = sum+w*float64(counts[k]), n+float64(counts[k])
	}
	p.Weighted = true
	for k := range p.Weights {
		p.Weights[k] *= n / sum
		set.Weights = append(set.Weights, float32(p.Weights[k]))
	}
	set.About = p.about()
	return nil
}

// balanced returns the weights (n / (classes · n_c))^power of classes with n_c examples.
func balanced(counts []int, power float64) []float64 {
	sum := 0
	for _, n := range counts {
		sum += max(1, n)
	}
	w := make([]float64, len(counts))
	for k, n := range counts {
		w[k] = math.Pow(float64(sum)/float64(len(counts)*max(1, n)), power)
	}
	return w
}

// probabilities returns the probabilities of the classes for scores of the network. A network that was trained with
// weights w returns softmax(log p + log w). The weights are removed again, so that the probabilities are those of the
// data.
func (p *Plan) probabilities(scores []float32) []float64 {
	if !p.Weighted {
		return softmax(scores)
	}
	plain := make([]float32, len(scores))
	for k, x := range scores {
		plain[k] = x - float32(math.Log(p.Weights[k]))
	}
	return softmax(plain)
}

// predicted returns the class with the largest product of probability and weight. weights may be nil.
func predicted(probabilities, weights []float64) int {
	if weights == nil {
		return largest(probabilities)
	}
	weighted := make([]float64, len(probabilities))
	for k, x := range probabilities {
		weighted[k] = x * weights[k]
	}
	return largest(weighted)
}

// weightPowers lists the powers of balanced weights to try.
var weightPowers = []float64{0.25, 0.5, 0.75, 1}

// surely is the number of standard errors above which a difference is significant at 5 %, one-sided.
const surely = 1.645

// chooseWeights chooses the weights of the decision by the macro F1 on the validation part. They stay equal unless the
// balanced accuracy rises significantly. counts are the class counts of the training part. It also returns a note for
// the user, "" for none.
func (p *Plan) chooseWeights(probabilities [][]float64, truths []int,
	counts []int) (weights []float64, note string) {
	score := func(weights []float64) (told []int, s *ClassScore) {
		s = newClassScore(p.ClassNames())
		for i, x := range probabilities {
			told = append(told, predicted(x, weights))
			s.Confusion[truths[i]][told[i]]++
		}
		s.Count = len(truths)
		s.finish()
		return told, s
	}
	before, alike := score(nil)
	best, name := alike, ""
	for _, power := range weightPowers {
		now := balanced(counts, power)
		told, s := score(now)
		rise, square := 0.0, 0.0 // of the balanced accuracy, and its variance, over examples whose prediction changes
		for i, truth := range truths {
			d := float64(bit(told[i] == truth)-bit(before[i] == truth)) / float64(s.PerClass[truth].Count)
			rise, square = rise+d, square+d*d
		}
		if s.F1 > best.F1 && rise > surely*math.Sqrt(square) {
			best, weights = s, now
			name = fmt.Sprintf("classes are weighted by (examples of all / examples of one)^%g", power)
		}
	}
	if name == "" {
		return nil, ""
	}
	return weights, fmt.Sprintf("%s to tell the class: macro F1 %.3g on the validation part, %.3g without; "+
		"probabilities stay those of the data (--class_weights none: without)", name, best.F1, alike.F1)
}

// settleWeights chooses the weights of the decision of the network and of each rival, unless they are set.
func (j *job) settleWeights(ctx context.Context, counts []int, notes *[]string) error {
	p := j.f.plan
	for _, c := range p.contenders() {
		c.Weights = p.Weights
		if j.c.ClassWeights != weightsAuto {
			continue
		}
		m := j.m.by(c)
		names, _ := p.classes()
		var all [][]float64
		var truths []int
		err := m.outputs(ctx, j.valid, some(j.valid.Len(), evalWindows), func(_ window, ex *task.Example,
			y []float32) error {
			for r, truth := range ex.Targets {
				if truth != task.Ignore {
					all = append(all, m.plan.probabilities(y[r*len(names):(r+1)*len(names)]))
					truths = append(truths, int(truth))
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		text := ""
		if c.Weights, text = p.chooseWeights(all, truths, counts); text != "" && c.Name == p.uses() {
			*notes = append(*notes, text)
			j.loop.Note(text)
		}
	}
	p.Weights = p.contenders()[0].Weights
	return nil
}

// weigh gives the classes of a set their weights in training.
func (f *frame) weigh(setting string, set *task.Set) error {
	var counts []int
	if _, ok := f.plan.classes(); ok {
		counts = f.counts(set.Train.(*windows))
	}
	return f.plan.weigh(setting, set, counts)
}

// floor returns a sentence if the accuracy is not above that of always choosing the class most frequent in training.
// Otherwise it returns "".
func (s *ClassScore) floor(majority string) string {
	if s.Count == 0 || s.Accuracy > s.Majority {
		return ""
	}
	text := fmt.Sprintf("the network is right in %.2f %% of the test part, always telling %q in %.2f %%: "+
		"it does not beat the class most frequent in training", s.Accuracy, majority, s.Majority)
	classes, variance := 0.0, 0.0
	for _, c := range s.PerClass {
		if c.Count > 0 {
			r := c.Recall / 100
			classes, variance = classes+1, variance+r*(1-r)/float64(c.Count)
		}
	}
	chance := 100 / classes
	if s.Balanced > chance+200*math.Sqrt(variance)/classes {
		return text + fmt.Sprintf(" by that count, but finds the others: balanced accuracy %.4g %%, not %.4g %%",
			s.Balanced, chance)
	}
	return text + fmt.Sprintf(", nor by balanced accuracy: %.4g %%, and %.4g %% by chance", s.Balanced, chance)
}
