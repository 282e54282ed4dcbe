package experiment

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
)

// File returns an experiment file that gives a canonical experiment again, with the digits
// and the order of what it has.
func File(canonical json.RawMessage) ([]byte, error) {
	var document yaml.Node
	if err := yaml.Unmarshal(canonical, &document); err != nil {
		return nil, err
	}
	if len(document.Content) != 1 || document.Content[0].Kind != yaml.MappingNode {
		return nil, fmt.Errorf("an experiment is an object")
	}
	top := document.Content[0]
	take(top, "format")
	if services := valueOf(top, "trainingService"); services != nil {
		for _, service := range services.Content {
			unnest(service)
		}
	}
	readably(&document)
	var text bytes.Buffer
	encoder := yaml.NewEncoder(&text)
	encoder.SetIndent(2)
	if err := encoder.Encode(&document); err != nil {
		return nil, err
	}
	return text.Bytes(), encoder.Close()
}

// unnest has the keys of a platform of its own stand in its section, and leaves out what
// follows from other keys, or is empty as it is where it is not given.
func unnest(service *yaml.Node) {
	take(service, "storage")
	if valueOf(service, "options") != nil && valueOf(valueOf(service, "options"), "framework") != nil {
		take(valueOf(service, "options"), "configPath") // whose content that is
	}
	for _, key := range []string{"trialCommand", "trialCodeDirectory"} {
		if value := valueOf(service, key); value != nil && value.Value == "" {
			take(service, key)
		}
	}
	if limit := valueOf(service, "logLimit"); limit != nil {
		limit.SetString(limit.Value + "b") // a bare number is one of mebibytes
	}
	if options := take(service, "options"); options != nil {
		service.Content = append(service.Content, options.Content...)
	}
}

// Set changes one value of an experiment file: "tuner.name=TPE", or
// "trainingService.0.trialCommand=…". The value is YAML; keys that are missing are made.
func Set(file []byte, change string) ([]byte, error) {
	place, text, given := strings.Cut(change, "=")
	var document, value yaml.Node
	if err := yaml.Unmarshal(file, &document); err != nil {
		return nil, err
	}
	if err := yaml.Unmarshal([]byte(text), &value); err != nil || !given || place == "" || len(value.Content) != 1 {
		return nil, fmt.Errorf("%q is no change: it is such as trialConcurrency=8 or tuner.name=TPE", change)
	}
	at := document.Content[0]
	for key := range strings.SplitSeq(place, ".") {
		if at = below(at, key); at == nil {
			return nil, fmt.Errorf("there is no place %q in the experiment", place)
		}
	}
	*at = *value.Content[0]
	return yaml.Marshal(&document)
}

// below is the value of a key or index, which is made where a mapping lacks it.
func below(at *yaml.Node, key string) *yaml.Node {
	switch at.Kind {
	case yaml.SequenceNode:
		for i, item := range at.Content {
			if fmt.Sprint(i) == key {
				return item
			}
		}
	case yaml.MappingNode:
		if value := valueOf(at, key); value != nil {
			return value
		}
		made := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
		at.Content = append(at.Content, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: key}, made)
		return made
	}
	return nil
}

func valueOf(mapping *yaml.Node, key string) *yaml.Node {
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value == key {
			return mapping.Content[i+1]
		}
	}
	return nil
}

// take removes a key and returns its value, nil where there is none.
func take(mapping *yaml.Node, key string) *yaml.Node {
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value == key {
			value := mapping.Content[i+1]
			mapping.Content = append(mapping.Content[:i:i], mapping.Content[i+2:]...)
			return value
		}
	}
	return nil
}

// oldBooleans are words that are read as in YAML 1.1 where they are not quoted.
var oldBooleans = regexp.MustCompile(`^(?i:y|yes|n|no|on|off)$`)

// readably has JSON look as people write YAML.
func readably(node *yaml.Node) {
	node.Style &^= yaml.FlowStyle
	if !oldBooleans.MatchString(node.Value) {
		node.Style &^= yaml.DoubleQuotedStyle
	}
	for _, child := range node.Content {
		readably(child)
	}
}
