// Package explain shows what happens inside a model: it reads a text, shows the residual stream between the layers,
// changes what they compute, and scores tokens from any depth. Each package below it uses this to answer one question:
// what heads do, which tokens a prediction depends on, what states remember, what each layer predicts, and so on.
package explain
