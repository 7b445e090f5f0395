// Package checkpoint reads and writes files of named tensors.
//
// It reads safetensors (memory-mapped; format of https://github.com/huggingface/safetensors), GGUF (llama.cpp) and the
// files that torch.save and PyTorch Lightning write (zip archives and the older stream of pickles), and writes
// safetensors and GGUF. It also replaces folders so that a crash at any moment leaves a whole old one or a whole new
// one (disk.WriteFile does so with files).
//
// Nothing in a file is ever executed. A pickle is run by a small machine that knows a fixed list of torch functions;
// every other class or function becomes an opaque value. All lengths and offsets in a file are checked against its
// content, and the memory for a file is bounded by a multiple of its own size.
//
// The package knows nothing about models: what tensors are called in published files, package release knows. It may
// import the standard library, golang.org/x/sys, internal/brief and internal/disk.
package checkpoint
