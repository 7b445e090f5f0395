package brief

import (
	"fmt"
	"reflect"
)

// Value returns the text of a value from a file in about 60 bytes, or the length of a list.
func Value(v any) string {
	const most = 60
	if v == nil {
		return "nothing"
	}
	if list := reflect.ValueOf(v); list.Kind() == reflect.Slice {
		return fmt.Sprintf("a list of %d", list.Len())
	}
	return cut(fmt.Sprint(v), most)
}
