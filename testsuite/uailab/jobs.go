package uailab

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

type job struct {
	id, name, memo, status, command, input, output string
	framework, nodes                               int
	created, started, ended                        int64
	processes                                      []*os.Process
	left                                           int // processes that have not ended
	failed, stopped                                bool
	work                                           string // holds copies, of a job on UFile
	log                                            lines
}

// add keeps a job. The mutex is held, as in all that follow.
func (s *Service) add(one *job) {
	s.made++
	one.id, one.created = fmt.Sprintf("uaitrain-%06d", s.made), s.now()
	s.jobs = append(s.jobs, one)
}

// schedule starts jobs that wait, as far as there is room.
func (s *Service) schedule() {
	busy := 0
	for _, one := range s.jobs {
		if one.left > 0 {
			busy++
		}
	}
	for _, one := range s.jobs {
		if one.status == "Waiting" && (s.Slots == 0 || busy < s.Slots) {
			busy++
			s.start(one)
		}
	}
}

// mounted runs a job's command where it finds its input and its output, as the service
// does: behind a Python interpreter, with the service's own arguments after it.
const mounted = `mount --make-rprivate / && mount -t tmpfs none /data && mkdir /data/data /data/output &&
mount --bind "$1" /data/data && mount --bind "$2" /data/output && shift 2 && cd /data &&
exec python3 "$@" --work_dir=/data --data_dir=/data/data --output_dir=/data/output --log_dir=/data/output --num_gpus=1`

func (s *Service) start(one *job) {
	one.status, one.started = "Doing", s.now()
	var commands []*exec.Cmd
	input, output, err := s.places(one)
	if err != nil {
		one.status, one.ended = "Error", s.now()
		s.t.Logf("a job's input cannot be copied: %v", err)
		return
	}
	for _, role := range one.roles() {
		command := exec.Command("/bin/sh", append([]string{"-c", mounted, "sh", input, output}, strings.Fields(one.command)...)...)
		command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Cloneflags: syscall.CLONE_NEWNS}
		command.Stdout, command.Stderr = &one.log, &one.log
		command.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=/root"}, role...)
		if err := command.Start(); err != nil {
			s.t.Logf("a job's process cannot be started: %v", err)
			one.failed = true
			continue
		}
		one.left++
		one.processes = append(one.processes, command.Process)
		commands = append(commands, command)
	}
	for i, command := range commands {
		go s.await(one, command, i == 0)
	}
}

// directory is the one of this machine that is a UFS path.
func (s *Service) directory(path string) string {
	at := s.Here + strings.TrimPrefix(path, UFS)
	if err := os.MkdirAll(at, 0o755); err != nil {
		s.t.Logf("a directory of the UFS cannot be made: %v", err)
	}
	return at
}

// places are the directories that a job finds at /data/data and /data/output.
func (s *Service) places(one *job) (input, output string, err error) {
	if strings.HasPrefix(one.output, UFS) {
		return s.directory(one.input), s.directory(one.output), nil
	}
	if one.work, err = os.MkdirTemp("", "uailab-job-"); err != nil {
		return "", "", err
	}
	s.t.Cleanup(func() { _ = os.RemoveAll(one.work) })
	input, output = filepath.Join(one.work, "data"), filepath.Join(one.work, "output")
	err = errors.Join(os.Mkdir(input, 0o755), os.Mkdir(output, 0o755), copyPlain(s.object(one.input), input))
	return input, output, err
}

// object is the place of an object, or of a directory of them, in the bucket.
func (s *Service) object(path string) string {
	return filepath.Join(s.Objects, strings.TrimPrefix(path, Bucket))
}

// upload brings what a job on UFile left into the bucket.
func (s *Service) upload(one *job) error {
	if one.work == "" {
		return nil
	}
	return copyPlain(filepath.Join(one.work, "output"), s.object(one.output))
}

// copyPlain copies a tree as a bucket keeps it: files, without modes or links.
func copyPlain(from, to string) error {
	return filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		below, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		content, err := os.Open(path)
		if err != nil {
			return err
		}
		defer content.Close()
		return receive(filepath.Join(to, below), content)
	})
}

// lines is what a job printed.
type lines struct {
	mutex sync.Mutex
	text  []byte
}

func (l *lines) Write(text []byte) (int, error) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.text = append(l.text, text...)
	return len(text), nil
}

// last are the last whole lines.
func (l *lines) last(most int) []string {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	all := strings.Split(string(l.text), "\n")
	all = all[:len(all)-1]
	return all[max(0, len(all)-most):]
}

// roles are the environments of a job's processes, the first one's exit code is the job's.
// Of several nodes each has a worker and a parameter server.
func (j *job) roles() (roles [][]string) {
	if j.nodes < 2 {
		return [][]string{nil}
	}
	if j.framework == frameworks["mxnet"] {
		for i := range j.nodes {
			roles = append(roles, []string{"DMLC_ROLE=worker", "DMLC_NUM_WORKER=" + strconv.Itoa(j.nodes), fmt.Sprintf("NODE=%d", i)})
		}
		for range j.nodes {
			roles = append(roles, []string{"DMLC_ROLE=server", "DMLC_NUM_WORKER=" + strconv.Itoa(j.nodes)})
		}
		return append(roles, []string{"DMLC_ROLE=scheduler"})
	}
	cluster := map[string][]string{"master": {"node-0:2222"}}
	for i := range j.nodes {
		cluster["ps"] = append(cluster["ps"], fmt.Sprintf("node-%d:2223", i))
		if i > 0 {
			cluster["worker"] = append(cluster["worker"], fmt.Sprintf("node-%d:2222", i))
		}
	}
	for _, kind := range []string{"master", "worker", "ps"} {
		for i := range cluster[kind] {
			text, _ := json.Marshal(map[string]any{"cluster": cluster, "task": map[string]any{"type": kind, "index": i}})
			roles = append(roles, []string{"TF_CONFIG=" + string(text)})
		}
	}
	return roles
}

func (s *Service) await(one *job, command *exec.Cmd, first bool) {
	err := command.Wait()
	s.mutex.Lock()
	defer s.mutex.Unlock()
	one.left--
	one.failed = one.failed || first && err != nil
	if one.left > 0 {
		return
	}
	one.status = "Stopping"
	s.mutex.Unlock()
	failed := s.upload(one)
	s.mutex.Lock()
	one.failed = one.failed || failed != nil
	one.status, one.ended, one.processes = "Done", s.now(), nil
	switch {
	case one.stopped:
		one.status = "Stopped"
	case one.failed:
		one.status = "Error"
	}
	s.schedule()
}

func (j *job) signal(signal syscall.Signal) {
	for _, process := range j.processes {
		_ = syscall.Kill(-process.Pid, signal)
	}
}

// grace is what a container has between TERM and KILL.
const grace = 10 * time.Second

func (s *Service) stop(one *job) answer {
	switch {
	case one.status == "Waiting":
		one.status, one.ended = "Stopped", s.now()
	case one.left == 0:
		return refuse(8013, "job "+one.id+" is "+one.status)
	default:
		one.stopped, one.status = true, "Stopping"
		one.signal(syscall.SIGTERM)
		processes := one.processes
		go func() {
			time.Sleep(grace)
			(&job{processes: processes}).signal(syscall.SIGKILL)
		}()
	}
	return answer{}
}

func (s *Service) view(one *job) answer {
	view := answer{
		"TrainJobId": one.id, "TrainJobName": one.name, "TrainJobMemo": one.memo, "Status": one.status, "CreateTime": one.created,
		"StartTime": one.started, "EndTime": one.ended, "BillUnit": "cent", "BillTotalPrice": 0, "LogTensorboardURL": "",
		"DockerCmd": one.command, "DataUfilePath": one.input, "OutputUfilePath": one.output,
	}
	if one.started > 0 {
		until := s.now()
		if one.ended > 0 {
			until = one.ended
		}
		view["BillTotalPrice"] = Price * (1 + (until-one.started)/60)
	}
	if one.status == "Doing" {
		view["LogTensorboardURL"] = s.board(one)
	}
	return view
}

func (s *Service) board(one *job) string { return "http://tensorboard.standin/" + one.id }
