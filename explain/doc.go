// Package explain draws and measures what models do: curves, scores of heads, predictions after every layer, parts
// taken away or exchanged, two texts side by side, surprise, and what moved in training. It may import model, mixer,
// nn, autograd, engine, tensor, ssm, tokenizer, data, internal/disk and internal/parallel, and gonum's plots.
package explain
