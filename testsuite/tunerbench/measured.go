package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
)

// Measured holds curves by contender and job, and keeps those of contenders with a
// version in a file each, so that they are measured once.
type Measured struct {
	folder string
	mutex  sync.Mutex
	curves map[string]map[Job]Curve
}

// line is one curve in a file.
type line struct {
	Job
	Curve Curve
}

func newMeasured(folder string) *Measured {
	return &Measured{folder: folder, curves: map[string]map[Job]Curve{}}
}

func (m *Measured) file(c Contender) string {
	return filepath.Join(m.folder, fmt.Sprintf("%s-%s.jsonl", c.Name(), c.Version()))
}

// load reads what is kept of a contender.
func (m *Measured) load(c Contender) error {
	m.curves[c.Name()] = map[Job]Curve{}
	if c.Version() == "" {
		return nil
	}
	file, err := os.Open(m.file(c))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var l line
		if json.Unmarshal(lines.Bytes(), &l) == nil { // a run that was cut off may leave half a line
			m.curves[c.Name()][l.Job] = l.Curve
		}
	}
	return lines.Err()
}

// of is the curve of a job, nil where it was not measured.
func (m *Measured) of(contender string, job Job) Curve {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	return m.curves[contender][job]
}

// measure runs a job unless its curve is there.
func (m *Measured) measure(c Contender, job Job) error {
	if m.of(c.Name(), job) != nil {
		return nil
	}
	curve, err := job.run(c)
	if err != nil {
		return err
	}
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.curves[c.Name()][job] = curve
	return m.keep(c, line{job, curve})
}

func (m *Measured) keep(c Contender, l line) error {
	if c.Version() == "" {
		return nil
	}
	raw, err := json.Marshal(l)
	if err != nil {
		return err
	}
	file, err := os.OpenFile(m.file(c), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = file.Write(append(raw, '\n'))
	return errors.Join(err, file.Close())
}
