package experiment

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// Section describes a mapping of experiment files, in NNI's v2 schema with our
// own keys, for people to read. It comes from the declarations that Load checks by.
type Section struct {
	Name string // "experiment", the key whose value it is, or a platform's name
	Keys []Key
	Free bool // other keys may stand there too
}

// Key describes one key of a Section.
type Key struct {
	Name     string
	Value    string // what it may be, such as "a whole number of at least 1"
	Meaning  string
	Default  string // as JSON, empty where absence means "unset"
	Required bool
	Section  string // the name of the Section that its value is, or whose list it is
}

// nested are the sections that stand in others, under the name of their key.
var nested = []struct {
	name string
	*section
}{
	{"algorithm", algorithm}, {"sharedStorage", sharedStorage}, {"machineList", machine}, {"portList", port},
	{"imagePullSecrets", named}, {"nfs", nfsMount}, {"checkpoint", checkpoint}, {"storage", kubernetesStorage},
	{"role", role}, {"taskRoles", taskRole}, {"custom", customKind}, {"pods", customPods}, {"code", kubernetesCode}, {"frameworkAttemptCompletionPolicy", completionPolicy},
}

// Describe returns the top level, then each platform's own keys by its name, and
// then the sections that stand in these.
func Describe() []Section {
	list := []Section{describe("experiment", topLevel)}
	for _, p := range platforms {
		list = append(list, describe(p.name, p.options))
	}
	for _, inner := range nested {
		list = append(list, describe(inner.name, inner.section))
	}
	return list
}

func describe(name string, s *section) Section {
	made := Section{Name: name, Free: s.rest}
	for _, k := range s.keys {
		made.Keys = append(made.Keys, Key{
			Name: k.name, Value: k.kind.words, Meaning: k.doc, Required: k.required,
			Default: fallbackText(k), Section: sectionName(k.kind.schema()),
		})
	}
	return made
}

func fallbackText(k key) string {
	if k.fallback == nil {
		return ""
	}
	text, err := json.Marshal(k.fallback)
	if err != nil {
		panic(err) // plain values, declared above
	}
	return string(text)
}

// sectionName finds which section a schema was made from, empty for none.
func sectionName(schema map[string]any) string {
	if items, list := schema["items"].(map[string]any); list {
		return sectionName(items)
	}
	properties, mapping := schema["properties"].(map[string]any)
	if !mapping {
		return ""
	}
	for _, inner := range nested {
		if slices.Equal(slices.Sorted(maps.Keys(properties)), slices.Sorted(slices.Values(inner.names()))) {
			return inner.name
		}
	}
	panic("a section is not described: " + strings.Join(slices.Sorted(maps.Keys(properties)), ", "))
}
