package session

// TextOf returns the ids of the text in a session's file, and the description of the file. It needs no model. Like
// Load, it returns an error if the file is damaged.
func TextOf(path string, key []byte) (ids []int32, info Info, err error) {
	if info, err = Inspect(path, key); err != nil {
		return nil, info, err
	}
	err = withFile(path, func(data []byte) error {
		d, err := parse(data, key)
		if err == nil {
			ids, err = d.ids()
		}
		return err
	})
	return ids, info, err
}
