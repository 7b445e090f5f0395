<<<<<<< HEAD
// Package explain draws and measures what models do: curves, and scores of heads. It may import model, mixer, nn,
// autograd, engine, tensor, ssm, tokenizer and internal/disk, gonum, and its plots.
=======
// Package explain draws and measures what models do: curves, scores of heads, predictions after every layer, parts taken
// away or exchanged, two texts side by side, surprise, and what moved in training. It may import model, mixer, nn,
// autograd, engine, tensor, ssm, tokenizer, data, internal/disk and internal/parallel, and gonum's plots.
>>>>>>> w18/lens
package explain
