package train

import "time"

// Origin says where and when a result was made, and by which version of the program.
type Origin struct {
	Machine string `json:"machine"`
	Version string `json:"version"`
	Date    string `json:"date"`
}

// Here is the origin of what this process makes at this moment.
func Here() Origin {
	return Origin{machine(), commit(), time.Now().UTC().Format(time.RFC3339)}
}
