package uaitrain

import (
	"encoding/json"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/perennial-ml/perennial/platforms"
)

// settings are a section's own keys.
type settings struct {
	PublicKey  string `json:"publicKey"`
	PrivateKey string `json:"privateKey"`
	Project    string `json:"projectId"`
	Region     string `json:"region"`
	Zone       string `json:"zone"`
	Endpoint   string `json:"endpoint"`
	Image      string `json:"image"`
	NodeType   string `json:"nodeType"`
	Nodes      int    `json:"nodeCount"`
	Framework  string `json:"framework"`
	Hours      int    `json:"maxExecuteHours"`
	Group      string `json:"businessGroup"`
	UFS        string `json:"ufsPath"`
	UFile      string `json:"ufilePath"`
	Bucket     string `json:"ufileEndpoint"`
	Here       string `json:"localStorageMountPoint"`
	Input      string `json:"inputPath"`
	Keep       bool   `json:"keepJobs"`
}

// defaults are what UCloud's own tool took where nothing was said.
var defaults = settings{Region: "cn-bj2", Zone: "cn-bj2-04", Endpoint: "https://api.ucloud.cn", Nodes: 1, Group: "default"}

func parse(options json.RawMessage) (settings, error) {
	s := defaults
	if len(options) == 0 {
		return s, nil
	}
	err := json.Unmarshal(options, &s)
	return s, err
}

// root is the directory below the mount that has everything of ours.
const root = "perennial"

// input and output are what jobs find at /data/data and /data/output.
func (s settings) input() string {
	if s.Input != "" {
		return directory(s.Input)
	}
	return directory(s.UFS)
}

func (s settings) output() string { return directory(s.UFS) + root + "/" }

// backend is the service's name of where code and output lie.
func (s settings) backend() string {
	if s.UFS != "" {
		return "UFS"
	}
	return "UFile"
}

// directory is a path of the service's, which wants a slash behind it.
func directory(path string) string { return strings.TrimRight(path, "/") + "/" }

var (
	ufsPath   = regexp.MustCompile(`^[^/:\s]+:/[^\s]*$`)
	ufilePath = regexp.MustCompile(`^[a-z0-9][a-z0-9-]*\.[^/:\s]+(/[^\s]*)?$`)
	nodeType  = regexp.MustCompile(`^[1-9][0-9]*-[A-Za-z0-9]+$`)
)

// check is Kind.Check.
func check(options json.RawMessage) error {
	s, err := parse(options)
	if err != nil {
		return err
	}
	var faults platforms.OptionFaults
	fault := func(wrong bool, field, message, hint string) {
		if wrong {
			faults = append(faults, platforms.OptionFault{Field: field, Message: message, Hint: hint})
		}
	}
	at, err := url.Parse(s.Endpoint)
	fault(err != nil || at.Host == "" || at.Scheme != "https" && at.Scheme != "http", "endpoint", "is no address", defaults.Endpoint)
	fault(!nodeType.MatchString(s.NodeType), "nodeType", "is no kind of node", "how many GPUs of which kind, such as 1-P40 or 4-V100")
	s.checkStorage(fault)
	fault(s.Nodes > 1 && s.Framework == "", "framework", "is missing, and a trial has several nodes", "tensorflow or mxnet")
	fault(s.Nodes <= 1 && s.Framework != "", "framework", "is for trials of several nodes", "leave it out, or set nodeCount")
	if len(faults) > 0 {
		return faults
	}
	return nil
}

// checkStorage checks where code and output lie.
func (s settings) checkStorage(fault func(wrong bool, field, message, hint string)) {
	fault(s.UFS != "" && s.UFile != "", "ufilePath", "stands beside ufsPath", "one of them says where code and output lie")
	fault(s.UFS == "" && s.UFile == "", "ufsPath", "is missing, and so is ufilePath", "one of them says where code and output lie")
	if s.UFile != "" {
		fault(!ufilePath.MatchString(s.UFile), "ufilePath", "is no directory of a bucket", "the bucket's host and a path, such as ours.cn-bj.ufileos.com/team")
		fault(s.Input != "" && !s.inBucket(s.Input), "inputPath", "is no directory of the bucket of ufilePath", "such as "+s.bucketHost()+"/data")
		fault(s.Nodes > 1, "ufilePath", "is for trials of one node", "ufsPath, for several")
		at, err := url.Parse(s.bucketAddress())
		fault(err != nil || at.Host == "" || at.Scheme != "https" && at.Scheme != "http", "ufileEndpoint", "is no address", "https://"+s.bucketHost())
		return
	}
	fault(s.UFS != "" && !ufsPath.MatchString(s.UFS), "ufsPath", "is no directory of a UFS", "the mount's address and a path, such as 10.19.1.2:/ufs-abc/team")
	fault(s.Input != "" && !ufsPath.MatchString(s.Input), "inputPath", "is no directory of a UFS", "the mount's address and a path, such as 10.19.1.2:/ufs-abc/data")
	info, err := os.Stat(s.Here)
	fault(s.UFS != "" && (!path.IsAbs(s.Here) || err != nil || !info.IsDir()), "localStorageMountPoint", "is no directory of this machine, named by an absolute path", "where the directory that ufsPath names is mounted here")
}

// bucketHost is the host of ufilePath, whose first word is the bucket.
func (s settings) bucketHost() string {
	host, _, _ := strings.Cut(s.UFile, "/")
	return host
}

func (s settings) bucketName() string {
	name, _, _ := strings.Cut(s.bucketHost(), ".")
	return name
}

// bucketAddress is where the bucket is reached from here.
func (s settings) bucketAddress() string {
	if s.Bucket != "" {
		return s.Bucket
	}
	return "https://" + s.bucketHost()
}

func (s settings) inBucket(path string) bool {
	return strings.HasPrefix(path, s.bucketHost()+"/") || path == s.bucketHost()
}

// key is the name of an object, or the beginning of names, for a path that names the
// bucket's host first.
func (s settings) key(path string) string {
	return strings.TrimPrefix(strings.TrimPrefix(path, s.bucketHost()), "/")
}

// mount is the directory of this machine that is /data/output in jobs.
func (s settings) mount() string { return filepath.Join(s.Here, root) }
