package session

// TextOf returns the ids of the text of a session's file and what the file says of itself, without a model. Damage is
// an error, as of Load.
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
