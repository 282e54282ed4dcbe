package main

import (
	"bufio"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
)

// python is an algorithm of another project, driven by a script of ours that reads
// requests and writes answers, one JSON object a line. The functions stay on this
// side: the script sees values only.
type python struct {
	name    string
	version string
	process *exec.Cmd
	in      io.WriteCloser
	out     *bufio.Scanner
}

//go:embed contenders/*.py
var scripts embed.FS

// requirements are the pinned releases that are measured, by contender.
var requirements = map[string]string{"Optuna": "optuna==5.0.0", "NNI": "nni==3.0"}

// newPython starts the script of a contender under an interpreter that has its
// package; with none given, in an environment made for it in folder.
func newPython(name, script, interpreter, folder string) (*python, error) {
	var err error
	if interpreter == "" {
		interpreter, err = environment(name, folder)
	}
	if err != nil {
		return nil, err
	}
	text, err := scripts.ReadFile("contenders/" + script)
	if err != nil {
		return nil, err
	}
	p := &python{name: name, process: exec.Command(interpreter, "-c", string(text))}
	p.process.Stderr = os.Stderr
	if p.in, err = p.process.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.process.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.out = bufio.NewScanner(out)
	if err := p.process.Start(); err != nil {
		return nil, err
	}
	return p, p.greet()
}

// environment makes a virtual environment with the contender's package, once.
func environment(name, folder string) (interpreter string, err error) {
	venv := filepath.Join(folder, "venv-"+requirements[name])
	interpreter = filepath.Join(venv, "bin", "python")
	if _, err := os.Stat(filepath.Join(venv, "ready")); err == nil {
		return interpreter, nil
	}
	fmt.Fprintf(os.Stderr, "installing %s into %s\n", requirements[name], venv)
	for _, command := range [][]string{
		{"python3", "-m", "venv", venv},
		{interpreter, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "setuptools<81", requirements[name]},
	} {
		if out, err := exec.Command(command[0], command[1:]...).CombinedOutput(); err != nil {
			return "", fmt.Errorf("%v: %w\n%s", command, err, out)
		}
	}
	return interpreter, os.WriteFile(filepath.Join(venv, "ready"), nil, 0o600)
}

func (p *python) Name() string    { return p.name }
func (p *python) Version() string { return p.version }

func (p *python) greet() error {
	var answer struct{ Version string }
	if err := p.call(map[string]any{"op": "version"}, &answer); err != nil {
		return errors.Join(fmt.Errorf("%s does not start", p.name), err, p.Close())
	}
	p.version = answer.Version
	return nil
}

func (p *python) Close() error {
	p.in.Close()
	return p.process.Wait()
}

// call sends a request and reads its answer.
func (p *python) call(request, answer any) error {
	raw, err := json.Marshal(request)
	if err != nil {
		return err
	}
	if _, err := p.in.Write(append(raw, '\n')); err != nil {
		return fmt.Errorf("%s: %w", p.name, err)
	}
	if !p.out.Scan() {
		return fmt.Errorf("%s has ended: %w", p.name, errors.Join(io.ErrUnexpectedEOF, p.out.Err()))
	}
	if err := json.Unmarshal(p.out.Bytes(), answer); err != nil {
		return fmt.Errorf("%s answers %.80s: %w", p.name, p.out.Bytes(), err)
	}
	return nil
}

func (p *python) Begin(space json.RawMessage, seed uint64) (Search, error) {
	return pythonSearch{p}, p.call(map[string]any{"op": "open", "searchSpace": space, "seed": seed}, &struct{}{})
}

type pythonSearch struct{ *python }

func (s pythonSearch) Suggest(n int) (json.RawMessage, error) {
	var answer struct{ Parameters json.RawMessage }
	err := s.call(map[string]any{"op": "suggest", "trial": n}, &answer)
	return answer.Parameters, err
}

func (s pythonSearch) Observe(n int, value float64) error {
	return s.call(map[string]any{"op": "observe", "trial": n, "value": value}, &struct{}{})
}
