package endtoend

import (
	"flag"
	"os"
	"testing"
)

// TestMain has four tests at a time: each mostly waits for its trials.
func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "4"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}
