package tokenizer_test

import (
	"fmt"
	"log"
	"strings"

	"github.com/hippo-ssm/hippo/tokenizer"
	"github.com/hippo-ssm/hippo/tokenizer/bpe"
)

func ExampleGPT2() {
	tok := bpe.GPT2()
	ids, err := tok.Encode(nil, []byte("Hungry Hungry Hippos<|endoftext|>"))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(ids)
	for _, id := range ids {
		fmt.Printf("%q ", tok.Decode(nil, []int32{id}))
	}
	// Output:
	// [39505 563 42939 33812 418 50256]
	// "Hung" "ry" " Hungry" " Hipp" "os" "<|endoftext|>"
}

func ExampleStreamDecoder() {
	tok := bpe.GPT2()
	ids, err := tok.Encode(nil, []byte("a 🦛!"))
	if err != nil {
		log.Fatal(err)
	}
	// The animal is more than one token, and comes out with the last of them.
	d := tokenizer.NewStreamDecoder(tok)
	for _, id := range ids {
		fmt.Printf("%d:%q ", id, d.Write(id))
	}
	fmt.Printf("%q\n", d.Flush())
	// Output:
	// 64:"a" 12520:" " 99:"" 249:"🦛" 0:"!" ""
}

func Example_train() {
	corpus := strings.NewReader(
		"low low low low low lower lower newest newest newest newest newest newest widest widest widest")
	tok, err := bpe.Train(corpus, bpe.TrainOptions{Merges: 10})
	if err != nil {
		log.Fatal(err)
	}
	ids, err := tok.Encode(nil, []byte("newest low slowest"))
	if err != nil {
		log.Fatal(err)
	}
	for _, id := range ids {
		fmt.Printf("%q ", tok.Decode(nil, []int32{id}))
	}
	// Output:
	// "new" "est" " low" " " "s" "low" "est"
}
