package remote

import (
	"flag"
	"os"
	"testing"
)

// TestMain has six tests at a time: each mostly waits for its trials and links.
func TestMain(m *testing.M) {
	submitElsewhere()
	flag.Parse()
	if err := flag.Set("test.parallel", "6"); err != nil {
		panic(err)
	}
	var err error
	if scratch, err = os.MkdirTemp("", "remote-test-"); err != nil {
		panic(err)
	}
	code := m.Run()
	os.RemoveAll(scratch)
	os.Exit(code)
}
