package experiment

import (
	"fmt"
	"path/filepath"
	"regexp"

	"go.yaml.in/yaml/v3"
)

// Kinds of references.
const (
	EnvironmentReference = "env"    // ${env:NAME}: a variable of whoever ran the experiment
	FileReference        = "file"   // ${file:PATH}: a file's content, without the line's end
	SecretReference      = "secret" // ${secret:PLACE}: a value that was moved out of the experiment file
)

// Reference stands in an experiment for a value that is kept elsewhere.
type Reference struct{ Kind, Name string }

var referenceForm = regexp.MustCompile(`^\$\{(\w+):(.*)\}$`)

// ParseReference tells whether a whole text is a reference.
func ParseReference(text string) (Reference, bool) {
	parts := referenceForm.FindStringSubmatch(text)
	if parts == nil {
		return Reference{}, false
	}
	return Reference{parts[1], parts[2]}, true
}

// String is the reference as it stands in a file.
func (r Reference) String() string { return "${" + r.Kind + ":" + r.Name + "}" }

// SecretKey tells whether what a key holds must not be shown or stored.
func SecretKey(key string) bool { return secretKey(key) }

// references checks the references in the sections that may hold some, and makes
// the paths of files absolute.
func (r *reader) references(root *yaml.Node) {
	for key, value := range pairs(root) {
		if name := fold(key.Value); name == "trainingservice" || name == "sharedstorage" {
			r.referencesIn(value)
		}
	}
}

func (r *reader) referencesIn(n *yaml.Node) {
	for _, inner := range n.Content {
		r.referencesIn(inner)
	}
	if n.Kind != yaml.ScalarNode {
		return
	}
	found, ok := ParseReference(n.Value)
	if !ok {
		return
	}
	switch found.Kind {
	case EnvironmentReference:
		r.environmentReference(n, found.Name)
	case FileReference:
		r.fileReference(n, found.Name)
	default:
		r.fault(n, "is a reference of no known kind", "${env:NAME} and ${file:PATH} are known")
	}
}

func (r *reader) environmentReference(n *yaml.Node, name string) {
	if r.build.LookupEnv == nil {
		return
	}
	if _, set := r.build.LookupEnv(name); !set {
		r.fault(n, "the environment variable "+quoted(name)+" is not set", "export it where you run starter")
	}
}

// fileReference follows no link: secrets that are mounted change by moving one.
func (r *reader) fileReference(n *yaml.Node, path string) {
	absolute := path
	if !filepath.IsAbs(path) {
		absolute = filepath.Join(r.directory, path)
	}
	file, err := openAtOnce(absolute)
	if err != nil {
		r.fault(n, fmt.Sprintf("the file %s cannot be read: %v", quoted(path), reason(err)), "it was looked for at "+absolute)
		return
	}
	defer file.Close()
	if info, err := file.Stat(); err == nil && info.IsDir() {
		r.fault(n, quoted(path)+" is a directory", "name the file that holds the value")
	}
	n.Value = Reference{FileReference, absolute}.String()
}
