package search

import (
	"flag"
	"os"
	"testing"
)

// TestMain has two hosts at a time: each has many experiments.
func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "2"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}
