// Package checkpoint reads and writes files of named tensors.
//
// It reads safetensors (memory-mapped; format of https://github.com/huggingface/safetensors), GGUF (llama.cpp) and the
// files that torch.save and PyTorch Lightning write (zip archives and the older stream of pickles), and writes
// safetensors and GGUF. It also replaces folders atomically: a crash leaves the old one or the new one (disk.WriteFile
// does so for files).
//
// Nothing in a file is ever executed. A small machine interprets pickles; it knows a fixed list of torch functions, and
// every other class or function becomes an opaque value. All lengths and offsets in a file are checked against its
// content, and the memory for a file is bounded by a multiple of its own size.
//
// The package is independent of models: package release knows the names of tensors in published files.
package checkpoint
