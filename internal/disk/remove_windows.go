package disk

// removeOpen reports whether an open file can be removed and renamed, so that nobody can lock it in between. Windows
// does neither with an open file, including files that others have open.
const removeOpen = false
