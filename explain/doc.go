// Package explain opens a model to see inside it: it reads a text, shows what stands between the layers, changes what
// they compute, and scores tokens from any depth. The packages below it each answer one question with that: what heads
// do, what tokens draw on, what states remember, what each layer predicts, and so on.
package explain
