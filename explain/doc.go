// Package explain draws and measures what models do: scores of heads, what tokens draw on, what states remember,
// predictions after every layer, parts taken away or exchanged, two texts side by side, surprise, and what moved in
// training. It may import explain/figure, explain/action, model, mixer, nn, autograd, engine, tensor, ssm, tokenizer,
// data, internal/disk, internal/kernel, internal/parallel and gonum.
package explain
