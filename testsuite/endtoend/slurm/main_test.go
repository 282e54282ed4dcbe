package slurm

import (
	"flag"
	"os"
	"testing"
)

// TestMain has four clusters at a time: each mostly waits.
func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "4"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}
