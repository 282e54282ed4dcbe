package kube

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/perennial-ml/perennial/codedir"
	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/platforms/internal/archives"
	"github.com/perennial-ml/perennial/runner/rundir"
)

var configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}

const (
	// partBytes keeps a ConfigMap below the limit of 1 MiB for all of it.
	partBytes = 900 << 10
	// mostCode is how much packed code is kept in a cluster's own database.
	mostCode = 20 << 20
	dataKey  = "part"
)

// cargo is content that lies in immutable ConfigMaps of an experiment, in parts.
type cargo struct {
	name  string // of the ConfigMaps, but for the number
	parts int
}

// stock is what a job's pods find in their files, and the code perhaps on a volume.
type stock struct {
	runner, code cargo
	volume       string // that the code is on; empty: it is in the files
	archive      string // where on it, as pods see it
}

func cargoOf(experiment, what, hash string, size int) cargo {
	return cargo{fmt.Sprintf("perennial-%s-%s-%.12s", experiment, what, hash), (size + partBytes - 1) / partBytes}
}

func (c cargo) part(i int) string { return fmt.Sprintf("%s-%d", c.name, i) }

// sources has the parts appear in a directory, in the order of their names.
func (c cargo) sources(directory string) (sources []any) {
	for i := range c.parts {
		item := object{"key": dataKey, "path": fmt.Sprintf("%s/%04d", directory, i)}
		sources = append(sources, object{"configMap": object{"name": c.part(i), "items": []any{item}}})
	}
	return sources
}

// bring sees to it that the parts are there: their names say what is in them.
func (s *site) bring(ctx context.Context, c cargo, content []byte) error {
	s.bringing.Lock() // many trials begin at once, and one of them brings it
	defer s.bringing.Unlock()
	if _, brought := s.brought.Load(c.name); brought {
		return nil
	}
	sending, sendingCtx := errgroup.WithContext(ctx)
	sending.SetLimit(4)
	for i := range c.parts {
		part := content[i*partBytes : min((i+1)*partBytes, len(content))]
		sending.Go(func() error { return s.bringPart(sendingCtx, c.part(i), part) })
	}
	err := sending.Wait()
	if err == nil {
		s.brought.Store(c.name, true)
	}
	return err
}

// bringPart makes the ConfigMap of a part, unless it is there. The API server is asked not
// to send it back.
func (s *site) bringPart(ctx context.Context, name string, part []byte) error {
	made, err := json.Marshal(object{"apiVersion": "v1", "kind": "ConfigMap", "immutable": true, "binaryData": object{dataKey: part},
		"metadata": object{"name": name, "labels": s.section.marks(s.platform.section.Experiment)}})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	err = s.cluster.raw.Post().AbsPath("/api/v1/namespaces", s.namespace, configMaps.Resource).Param("fieldManager", fieldManager).
		SetHeader("Accept", "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json").
		SetHeader("Content-Type", "application/json").Body(made).Do(ctx).Error()
	rundir.CrashPoint("submit.between-parts")
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

func (s *site) create(ctx context.Context, resource schema.GroupVersionResource, made *unstructured.Unstructured) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	_, err := s.cluster.dynamic.Resource(resource).Namespace(s.namespace).Create(ctx, made,
		metav1.CreateOptions{FieldManager: fieldManager, FieldValidation: metav1.FieldValidationStrict})
	return err
}

// packedCode is Workspace.Data.
type packedCode struct {
	Bytes  int    `json:"bytes"`
	Volume string `json:"volume,omitempty"` // of the pods, that it lies on; empty: in ConfigMaps
}

// Prepare implements platforms.Platform: the code's parts are on the cluster, once
// for all trials.
func (p *platform) Prepare(ctx context.Context, bundle platforms.Bundle) (platforms.Workspace, error) {
	s, err := p.site(ctx)
	if err != nil {
		return platforms.Workspace{}, Fault("prepare", err)
	}
	if err := s.serves(); err != nil {
		return platforms.Workspace{}, Fault("prepare", err)
	}
	s.brought.Clear() // what a host on another machine has removed meanwhile is not there
	if s.section.CodeInImage {
		return platforms.Workspace{Directory: cmp.Or(bundle.CodeDirectory, ".")}, nil
	}
	if directory := s.section.Code.directory(); directory != "" {
		return platforms.Workspace{Directory: directory}, nil
	}
	hash, err := p.pack(bundle)
	if err != nil {
		return platforms.Workspace{}, err
	}
	return s.store(ctx, hash)
}

// store has packed code be where pods find it.
func (s *site) store(ctx context.Context, hash string) (platforms.Workspace, error) {
	file := s.platform.archives().Path(hash)
	info, err := os.Stat(file)
	if err != nil {
		return platforms.Workspace{}, platforms.Errorf(platforms.NotFound, "prepare", "the experiment's packed code is gone: %w", err)
	}
	packed := packedCode{Bytes: int(info.Size()), Volume: s.section.depot(info.Size())}
	data, _ := json.Marshal(packed)
	made := platforms.Workspace{Hash: hash, Data: data}
	if packed.Volume != "" {
		return made, Fault("prepare", s.deposit(ctx, packed.Volume, hash, info.Size()))
	}
	if packed.Bytes > mostCode {
		return platforms.Workspace{}, platforms.Errorf(platforms.Invalid, "prepare",
			"the code directory takes %d MiB packed, and at most %d MiB are kept on a cluster: name what trials do not need in .nniignore, have it brought onto a volume of the pods (code: {volume}), or have the code come from elsewhere: an archive that pods download (code: {url, sha256}), an image (code: {image, path}), or the trial's own image (code: {path})",
			packed.Bytes>>20, mostCode>>20)
	}
	content, err := os.ReadFile(file)
	if err != nil {
		return platforms.Workspace{}, err
	}
	code := cargoOf(s.platform.section.Experiment, "code", hash, len(content))
	return made, Fault("prepare", s.bring(ctx, code, content))
}

func (p *platform) archives() archives.Archives {
	return archives.Archives{Directory: filepath.Join(p.directory(), "code")}
}

func (p *platform) pack(bundle platforms.Bundle) (string, error) {
	if bundle.Again != nil {
		return bundle.Again.Hash, nil
	}
	hash, err := p.archives().Pack(bundle.CodeDirectory)
	if errors.Is(err, codedir.ErrTooLarge) || errors.Is(err, codedir.ErrLinkLeaves) || errors.Is(err, os.ErrNotExist) {
		err = platforms.Errorf(platforms.Invalid, "prepare", "%w", err)
	}
	return hash, Fault("prepare", err)
}

// stock is what the pods of a job need, on the cluster.
func (s *site) stock(ctx context.Context, workspace platforms.Workspace) (stock, error) {
	var packed packedCode
	if workspace.Data != nil {
		if err := json.Unmarshal(workspace.Data, &packed); err != nil {
			return stock{}, err
		}
	}
	experiment := s.platform.section.Experiment
	needed := stock{volume: packed.Volume, archive: path.Join(depotDirectory(experiment), workspace.Hash)}
	if packed.Volume == "" {
		needed.code = cargoOf(experiment, "code", workspace.Hash, packed.Bytes)
	}
	if s.section.RunnerImage != "" {
		return needed, nil
	}
	runner, err := s.platform.kind.runner("linux", s.section.architecture())
	if err != nil {
		return stock{}, platforms.Errorf(platforms.NotFound, "submit", "%w", err)
	}
	sum := sha256.Sum256(runner)
	needed.runner = cargoOf(experiment, "runner", hex.EncodeToString(sum[:]), len(runner))
	return needed, s.bring(ctx, needed.runner, runner)
}

// architecture is the processor of the nodes that the section is for.
func (s Section) architecture() string {
	if wanted := s.Roles[0].Pod.NodeSelector["kubernetes.io/arch"]; wanted != "" {
		return wanted
	}
	return "amd64"
}
