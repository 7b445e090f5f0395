// What the scans of Mamba and Mamba-2 and their gradients share: for channel c, which belongs to the dt number c/p and to
// a group of channels, and for each of n states j,
//
//   h[j] = exp(dt·A)·h[j] + dt·u·B[j],  y = Σ_j C[j]·h[j] + D·u
//
// with A of the state (PER_STATE 1: A (d, n), D (d)) or of the dt (0: A, D (d/p)). States are (d, n).
#include "rows.glsl"
#include "tile.glsl"

layout(local_size_x = 256) in;
layout(constant_id = 0) const uint PER_STATE = 1u;

shared float us[TILE][16], dts[TILE][16], bs[TILE][16], cs[TILE][16], states[TILE][WIDE];

struct Place {
	int row, group, part; // the part of the channels of the group
	int c0, channels;     // the first channel of the workgroup, and how many it has
};

// The place of this workgroup.
Place place(int d, int groups) {
	int width = d / groups, parts = (width + 15) / 16, g = int(group());
	Place w;
	w.row = g / (parts * groups);
	w.group = g / parts % groups;
	w.part = g % parts;
	w.c0 = w.group * width + 16 * w.part;
	w.channels = min(16, width - 16 * w.part);
	return w;
}
