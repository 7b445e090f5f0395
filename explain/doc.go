// Package explain draws and measures what models do: curves, and scores of heads. It may import model, mixer, nn,
// autograd, engine, tensor, ssm, tokenizer and internal/disk, gonum, and its plots.
package explain
