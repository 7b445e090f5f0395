package engine

import "github.com/hippo-ssm/hippo/tensor"

// LinearState goes away with the attention group.
type LinearState struct{ S, Z *tensor.Tensor }
