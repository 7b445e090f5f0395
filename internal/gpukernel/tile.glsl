// What scans along rows share. A workgroup has 16 channels, and for each 16 states at a time. It goes along the row in
// tiles of 16 positions: first a thread is a state of a channel and steps through the tile, then it is a position and
// sums over states or channels. So positions are read one after another, and any way to cut a row has the same bits.
const int TILE = 16, WIDE = 272; // 16 channels of 17 numbers, of which 16 are used: sums meet no other bank
