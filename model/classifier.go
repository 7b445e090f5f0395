package model

import (
	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/nn"
	"github.com/hippo-ssm/hippo/tensor"
)

// Classifier is a model with a head for whole sequences: a linear map of the mean over their positions, as in HyenaDNA.
type Classifier struct {
	Model *Model
	Head  *nn.Linear
	Parameters
}

// ClassifierPrefix is the prefix of the names of the head's parameters.
const ClassifierPrefix = "head.output_transform."

// NewClassifier returns a classifier with the given number of classes. Its head has no values yet.
func NewClassifier(m *Model, classes int) *Classifier {
	c := &Classifier{Model: m, Head: nn.NewLinear(m.Config.DModel, classes, nn.InitStd)}
	c.Parameters = Parameters{of: c, backbone: &m.Backbone, shape: &m.Config, config: m.configFile}
	return c
}

// Params visits every parameter under its official name.
func (c *Classifier) Params(prefix string, visit nn.Visitor) {
	c.Model.Params(prefix, visit)
	c.Head.Params(prefix+ClassifierPrefix, visit)
}

// Forward maps token ids, as Model.Forward does, to logits (rows, classes).
func (c *Classifier) Forward(t *autograd.Tape, ids []int32, r *Rows) *tensor.Tensor {
	hidden := c.Model.Forward(t, ids, r)
	t.Scope("head")
	return c.Head.Forward(t, t.MeanPositions(hidden, &r.at))
}
