package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// requirements are what nni 3.0 runs with: newer ones of the last two break it.
var requirements = []string{"nni==3.0", "filelock<3.12", "setuptools<80"}

// makeVenv installs nni from PyPI into the scratch directory.
func makeVenv(scratch string) (string, error) {
	venv := filepath.Join(scratch, "nni")
	say("installing %s from PyPI", requirements[0])
	for _, command := range []*exec.Cmd{
		exec.Command("python3", "-m", "venv", venv),
		exec.Command(filepath.Join(venv, "bin", "pip"), append([]string{"install", "--quiet"}, requirements...)...),
	} {
		if said, err := command.CombinedOutput(); err != nil {
			return "", fmt.Errorf("%s: %w\n%s", command, err, said)
		}
	}
	return venv, nil
}

// NNI is one experiment of NNI 3.0 with its manager.
type NNI struct {
	venv, home string
	port       int
}

const (
	nniGlance   = 250 * time.Millisecond
	nniPatience = 30 * time.Minute
	// nniSilence is how long without a new end of a trial counts as a hang.
	nniSilence = time.Minute
	nniTries   = 5
)

// nniOver are the states in which NNI runs nothing more. NO_MORE_TRIAL is none:
// its last trials still run.
var nniOver = []string{"DONE", "ERROR", "STOPPED"}

// newNNI needs the home to itself, where NNI keeps its experiments.
func (b *Bench) newNNI() (*NNI, error) {
	b.number++
	n := &NNI{venv: b.venv, home: filepath.Join(b.scratch, fmt.Sprintf("nni-home-%d", b.number))}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	n.port = listener.Addr().(*net.TCPAddr).Port
	return n, errors.Join(listener.Close(), os.MkdirAll(n.home, 0o755))
}

func (n *NNI) do(arguments ...string) error {
	command := exec.Command(filepath.Join(n.venv, "bin", "nnictl"), arguments...)
	command.Env = append(os.Environ(), "HOME="+n.home, "PATH="+filepath.Join(n.venv, "bin")+":"+os.Getenv("PATH"))
	if said, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("nnictl %s: %w\n%s", strings.Join(arguments, " "), err, said)
	}
	return nil
}

// measure runs an experiment to its end, with a manager of its own as NNI has it.
func (n *NNI) measure(w Work) (f Figures, err error) {
	watch, asked := newWatch(), uptime()
	if err := n.create(w); err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, n.do("stop", "--all")) }()
	manager, tuner, err := n.processes()
	if err != nil {
		return f, err
	}
	if err := n.await(w); err != nil {
		return f, err
	}
	all := descendants(manager)
	f, err = figuresOf(w, asked)
	f.ResidentMB = residentMB(append(all, manager)...)
	f.Parts = n.parts(manager, tuner, all)
	f.Others = watch.others(f.used())
	return f, errors.Join(err, n.count(&f))
}

// create starts the experiment. On a busy machine NNI's client gives its manager
// up before that listens, and says so.
func (n *NNI) create(w Work) (err error) {
	for range nniTries {
		if err = n.do("create", "--config", w.file(), "--port", strconv.Itoa(n.port)); err == nil {
			return nil
		}
		say("NNI did not start: it is tried again")
		if stopped := n.do("stop", "--all"); stopped != nil {
			return errors.Join(err, stopped)
		}
	}
	return err
}

// parts splits the processor time: the manager, the tuner, and what the runner
// of trials and everything below it used.
func (n *NNI) parts(manager, tuner int, all []int) []Part {
	managers, tuners := usageOf(manager), usageOf(tuner)
	trials := managers.Children
	for _, pid := range all {
		if used := usageOf(pid); pid != tuner {
			trials += used.Own + used.Children
		}
	}
	return []Part{{"manager", managers.Own}, {"tuner", tuners.Own + tuners.Children}, {"trial runner and trials", trials}}
}

// processes finds the manager, which has the port, and the tuner below it.
func (n *NNI) processes() (manager, tuner int, err error) {
	for range 100 {
		for _, pid := range find("nni_node", "main.js", "--port "+strconv.Itoa(n.port)) {
			if !environmentHas(pid, "HOME="+n.home) {
				continue
			}
			for _, below := range descendants(pid) {
				if line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", below)); strings.HasPrefix(string(line), n.venv) &&
					strings.Contains(string(line), "--exp_params") {
					return pid, below, nil
				}
			}
		}
		time.Sleep(nniGlance)
	}
	return 0, 0, errors.New("NNI's manager and tuner are not there")
}

// await waits until NNI calls the experiment done, or nothing moves any more.
func (n *NNI) await(w Work) error {
	deadline, moved, ends := time.Now().Add(nniPatience), time.Now(), -1
	for time.Now().Before(deadline) && time.Since(moved) < nniSilence {
		var status struct{ Status string }
		if err := n.get("check-status", &status); err == nil && slices.Contains(nniOver, status.Status) {
			return nil
		}
		if ledger, err := readLedger(w.ledger()); err == nil && len(ledger.ends) != ends {
			ends, moved = len(ledger.ends), time.Now()
		}
		time.Sleep(nniGlance)
	}
	say("NNI does not come to its end: %d of %d trials ended", ends, w.Trials)
	return nil
}

func (n *NNI) get(path string, into any) error {
	answer, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/api/v1/nni/%s", n.port, path))
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, into)
}

// count counts the metrics that NNI has on record.
func (n *NNI) count(f *Figures) error {
	var metrics []struct{ Type string }
	if err := n.get("metric-data", &metrics); err != nil {
		return err
	}
	for _, metric := range metrics {
		switch metric.Type {
		case "FINAL":
			f.Finals++
		case "PERIODICAL":
			f.Intermediates++
		}
	}
	return nil
}
