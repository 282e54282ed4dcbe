package experiment

import (
	"cmp"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// pair is a key of v1 with its value, and the mapping of the v2 tree it goes to.
type pair struct {
	old        oldKey
	key, value *yaml.Node
	target     *yaml.Node
}

// converter rebuilds a v1 tree as a v2 tree. Values are shared, so that faults
// point to where they stand in the file, by the names they have there.
type converter struct {
	*reader
	root *yaml.Node // of the v2 tree
	// elsewhere are keys that other platforms of a hybrid file want.
	elsewhere map[string]bool
}

// legacy tells whether a file is v1, by NNI's own rule.
func legacy(root *yaml.Node) bool {
	platform := child(root, "trainingServicePlatform")
	return platform != nil && !null(platform) && platform.Value != ""
}

func child(n *yaml.Node, name string) *yaml.Node {
	for key, value := range pairs(n) {
		if key.Value == name {
			return value
		}
	}
	return nil
}

// convert returns the v2 tree, nil where it has no training service to speak of.
func (r *reader) convert(old *yaml.Node) *yaml.Node {
	c := &converter{reader: r}
	c.root = c.mapping(old, old)
	names := c.platformNames(old)
	if names == nil {
		return nil
	}
	c.keysOf(append(oldTopLevel, c.sections(names)...), old, c.root)
	list := &yaml.Node{Kind: yaml.SequenceNode, Line: old.Line, Column: old.Column}
	for _, name := range names {
		c.elsewhere = trialNames(names)
		c.ofPlatform(oldPlatforms[name.Value].to, func() { list.Content = append(list.Content, c.service(name, old)) })
	}
	c.put(c.root, child(old, "trainingServicePlatform"), "trainingService", list)
	return c.root
}

// platformNames returns the nodes that name the file's platforms.
func (c *converter) platformNames(old *yaml.Node) []*yaml.Node {
	names := []*yaml.Node{child(old, "trainingServicePlatform")}
	if names[0].Value == "hybrid" {
		names = c.hybridNames(old)
	}
	known := slices.Sorted(maps.Keys(oldPlatforms))
	for _, name := range names {
		if _, ok := oldPlatforms[name.Value]; !ok {
			c.fault(name, "there is no platform "+quoted(name.Value)+" in the v1 schema", meantAmong(name.Value, append(known, "hybrid")))
			return nil
		}
	}
	return names
}

func (c *converter) hybridNames(old *yaml.Node) []*yaml.Node {
	config := child(old, "hybridConfig")
	if config == nil || child(config, "trainingServicePlatforms") == nil {
		c.missingAt(old, "hybridConfig.trainingServicePlatforms", "a list such as [local, remote]")
		return nil
	}
	list := child(config, "trainingServicePlatforms")
	if list.Kind != yaml.SequenceNode || len(list.Content) == 0 {
		c.fault(list, "must be a list such as [local, remote], not "+described(list), "")
		return nil
	}
	return list.Content
}

// sections are the top-level keys of platforms: those of the file's own are
// converted with the platform, the others mean nothing in this file.
func (c *converter) sections(names []*yaml.Node) []oldKey {
	var keys []oldKey
	for name, platform := range oldPlatforms {
		used := slices.ContainsFunc(names, func(n *yaml.Node) bool { return n.Value == name })
		for _, section := range platform.sections {
			section.to, section.of, section.convert = "", nil, nil
			if used {
				section.convert = (*converter).skip
			}
			keys = append(keys, section)
		}
	}
	return keys
}

func trialNames(platforms []*yaml.Node) map[string]bool {
	names := map[string]bool{}
	for _, platform := range platforms {
		for _, k := range oldPlatforms[platform.Value].trial {
			names[k.name] = true
		}
	}
	return names
}

// service builds the section of one training service.
func (c *converter) service(name, old *yaml.Node) *yaml.Node {
	platform := oldPlatforms[name.Value]
	service := c.mapping(cmp.Or(c.keyNode(old, "trial"), name), old)
	c.document.fields[service] = ""
	word := *name
	word.Value = platform.to
	c.document.fields[&word] = c.document.fields[name]
	c.put(service, name, "platform", &word)
	trial := child(old, "trial")
	if trial == nil {
		c.missingAt(old, "trial", "a mapping with command and codeDir")
		trial = &yaml.Node{Kind: yaml.MappingNode, Line: old.Line, Column: old.Column}
	}
	c.spell(service, platform.trial, "trial")
	c.inside(platform.trial, trial, service)
	c.elsewhere = nil
	for _, section := range platform.sections {
		if value := child(old, section.name); value != nil && !null(value) {
			c.pair(pair{section, c.keyNode(old, section.name), value, service})
		}
	}
	if platform.to == "local" && child(service, "useActiveGpu") == nil {
		c.put(service, name, "useActiveGpu", &yaml.Node{Kind: yaml.ScalarNode, Value: "false", Line: name.Line, Column: name.Column})
	}
	return service
}

func (c *converter) keyNode(n *yaml.Node, name string) *yaml.Node {
	for key := range pairs(n) {
		if key.Value == name {
			return key
		}
	}
	return nil
}

// spell notes how v1 spells the keys that a v2 mapping may lack.
func (c *converter) spell(target *yaml.Node, keys []oldKey, prefix string) {
	names := c.document.spelled[target]
	if names == nil {
		names = map[string]string{}
		c.document.spelled[target] = names
	}
	for _, k := range keys {
		if k.to != "" && names[k.to] == "" {
			names[k.to] = join(prefix, k.name)
		}
	}
}

func (c *converter) inside(keys []oldKey, from, target *yaml.Node) {
	if from.Kind != yaml.MappingNode {
		c.fault(from, "must be a mapping, not "+described(from), "")
		return
	}
	c.keysOf(keys, from, target)
}

func (c *converter) keysOf(keys []oldKey, from, target *yaml.Node) {
	c.spell(target, keys, c.document.fields[from])
	for key, value := range pairs(from) {
		i := slices.IndexFunc(keys, func(k oldKey) bool { return k.name == key.Value })
		switch {
		case i >= 0 && !null(value):
			c.pair(pair{keys[i], key, value, target})
		case i < 0 && !c.elsewhere[key.Value]:
			c.unknownOld(keys, key)
		}
	}
}

func (c *converter) unknownOld(keys []oldKey, key *yaml.Node) {
	var names []string
	for _, k := range keys {
		names = append(names, k.name)
	}
	slices.Sort(names)
	c.fault(key, "no such key in the v1 schema", meantAmong(key.Value, names))
}

func (c *converter) pair(p pair) {
	switch {
	case p.old.convert != nil:
		p.old.convert(c, p)
	case p.old.of != nil:
		c.nested(p)
	case p.old.to == "":
		c.warn(p.key, "means nothing here and is ignored", "")
	default:
		target, name := c.place(p)
		c.put(target, p.key, name, p.value)
	}
}

// place is the mapping a dotted name leads to, made where it is missing.
func (c *converter) place(p pair) (*yaml.Node, string) {
	outer, inner, deeper := strings.Cut(p.old.to, ".")
	if !deeper {
		return p.target, p.old.to
	}
	return c.inner(p, outer), inner
}

// inner is the mapping below a name of the target.
func (c *converter) inner(p pair, name string) *yaml.Node {
	if found := child(p.target, name); found != nil {
		return found
	}
	made := c.mapping(p.value, p.key)
	c.document.fields[made] = strings.TrimSuffix(c.document.fields[p.key], "."+p.key.Value)
	c.put(p.target, p.key, name, made)
	return made
}

func (c *converter) nested(p pair) {
	switch {
	case p.value.Kind == yaml.SequenceNode && p.old.to != "":
		list := &yaml.Node{Kind: yaml.SequenceNode, Line: p.value.Line, Column: p.value.Column}
		for _, item := range p.value.Content {
			made := c.mapping(item, item)
			c.inside(p.old.of, item, made)
			list.Content = append(list.Content, made)
		}
		c.put(p.target, p.key, p.old.to, list)
	case p.old.to == "":
		c.inside(p.old.of, p.value, p.target)
	default:
		c.inside(p.old.of, p.value, c.inner(p, p.old.to))
	}
}

// mapping makes an empty mapping that stands where n does, named as like.
func (c *converter) mapping(n, like *yaml.Node) *yaml.Node {
	made := &yaml.Node{Kind: yaml.MappingNode, Line: n.Line, Column: n.Column}
	c.document.fields[made] = c.document.fields[like]
	return made
}

// put adds a key of v2 that stands where key does. What is there already stays:
// v1 let some keys stand in two places.
func (c *converter) put(target, key *yaml.Node, name string, value *yaml.Node) {
	if child(target, name) != nil {
		return
	}
	made := &yaml.Node{Kind: yaml.ScalarNode, Value: name, Line: key.Line, Column: key.Column}
	c.document.fields[made] = c.document.fields[key]
	if c.document.fields[value] == "" {
		c.document.fields[value] = c.document.fields[key]
	}
	target.Content = append(target.Content, made, value)
}

// skip is for keys that another step converts.
func (c *converter) skip(pair) {}

func (c *converter) multiPhase(p pair) {
	if on, ok := truth(p.value); ok && !on {
		return
	}
	c.fault(p.value, "several parameter sets for one trial are not supported, as in NNI 2", "leave multiPhase out, or set it to false")
}

var bareNumber = regexp.MustCompile(`^[0-9_.]+$`)

func (c *converter) duration(p pair) {
	if p.value.Kind == yaml.ScalarNode && bareNumber.MatchString(p.value.Value) {
		c.fault(p.value, "needs a unit in the v1 schema: s, m, h or d", "write "+p.value.Value+"s if seconds are meant")
		return
	}
	c.put(p.target, p.key, p.old.to, p.value)
}

// algorithm converts a tuner, assessor or advisor.
func (c *converter) algorithm(p pair) {
	if p.value.Kind != yaml.MappingNode {
		c.put(p.target, p.key, p.old.to, p.value)
		return
	}
	made := c.mapping(p.value, p.key)
	c.document.spelled[made] = map[string]string{"name": join(p.key.Value, "builtin"+strings.ToUpper(p.key.Value[:1])+p.key.Value[1:]+"Name")}
	c.keysOf(oldAlgorithm, p.value, made)
	c.class(p.value, made)
	if arguments := child(made, "classArgs"); arguments != nil && p.key.Value == "advisor" {
		c.configSpace(arguments)
	}
	c.lift(p.value, "gpuIndices", "tunerGpuIndices")
	c.lift(p.value, "includeIntermediateResults", "includeIntermediateResults")
	c.put(p.target, p.key, p.old.to, made)
}

// lift moves a key of an algorithm to the top level, where v2 has it.
func (c *converter) lift(from *yaml.Node, name, to string) {
	if value := child(from, name); value != nil && !null(value) {
		c.put(c.root, c.keyNode(from, name), to, value)
	}
}

// class joins classFileName and className to module.Class.
func (c *converter) class(from, made *yaml.Node) {
	file, name := child(from, "classFileName"), child(made, "className")
	switch {
	case file == nil && name == nil:
	case file == nil:
		c.missingAt(from, "classFileName", "the Python file of the class, such as my_tuner.py")
	case name == nil:
		c.missingAt(from, "className", "the class in "+file.Value)
	case !strings.HasSuffix(file.Value, ".py"):
		c.fault(file, "must end in .py", "")
	default:
		joined := *name
		joined.Value = strings.TrimSuffix(file.Value, ".py") + "." + name.Value
		c.document.fields[&joined] = c.document.fields[name]
		i := slices.Index(made.Content, name)
		made.Content[i] = &joined
	}
}

// configSpace resolves the one argument of an advisor that v1 knew as a path.
func (c *converter) configSpace(arguments *yaml.Node) {
	value := child(arguments, "config_space")
	if value == nil || value.Kind != yaml.ScalarNode || filepath.IsAbs(value.Value) {
		return
	}
	resolved, err := c.resolve(value.Value)
	if err != nil {
		c.complain(value, path, err)
		return
	}
	value.Value, value.Style = resolved, yaml.DoubleQuotedStyle
}
