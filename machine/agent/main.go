package agent

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/perennial-ml/perennial/machine"
)

// Main is an agent from its first word to its last: it returns when in ends, or
// when it has done what Hello asked for. Runs that it started go on.
func Main(in io.Reader, out io.Writer) error {
	if _, err := fmt.Fprintln(out, Greeting); err != nil {
		return err
	}
	input := bufio.NewReaderSize(in, 256<<10)
	hello, err := readHello(input)
	if errors.Is(err, io.EOF) {
		return nil
	}
	if err != nil {
		return err
	}
	site, w := newSite(hello), &writer{out: out}
	welcome := site.welcome(hello)
	if err := w.write(welcome); err != nil || welcome.Fault != nil || welcome.HasCode {
		return err
	}
	return site.work(hello, input, w)
}

func (s *site) work(hello Hello, input *bufio.Reader, w *writer) error {
	switch hello.Purpose {
	case Unpack:
		return w.write(answer{Fault: faultOf("upload", s.unpack(input, hello))})
	case Logs:
		return s.sendLogs(w, hello)
	}
	return newServer(s, w).serve(input)
}

// welcome makes the directory ready and says who and where this is.
func (s *site) welcome(hello Hello) Welcome {
	welcome := Welcome{Format: Format}
	err := s.prepare()
	if err == nil {
		welcome.SHA256, err = ownSum()
	}
	if err == nil {
		welcome.Site, err = s.name()
		s.known = welcome.Site
	}
	if err == nil {
		welcome.Boot, err = boot()
	}
	if err == nil && hello.Purpose == Unpack {
		welcome.HasCode = s.use(hello.Code, hello.Experiment) == nil
	}
	welcome.Fault = faultOf("connect", machine.Fault("connect", err))
	return welcome
}

func readHello(input *bufio.Reader) (Hello, error) {
	var hello Hello
	line, err := input.ReadBytes('\n')
	if err != nil {
		return hello, err
	}
	if err := json.Unmarshal(line, &hello); err != nil {
		return hello, fmt.Errorf("the first line is no hello of starter's: %w", err)
	}
	if hello.Format != Format {
		return hello, fmt.Errorf("this agent speaks format %d, not %d: remove it and connect again", Format, hello.Format)
	}
	return hello, nil
}

// ownSum is the SHA-256 of the running binary.
func ownSum() (string, error) {
	file, err := os.Open("/proc/self/exe")
	if err != nil {
		return "", fmt.Errorf("read the runner's own file (is /proc mounted?): %w", err)
	}
	defer file.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, file); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}
