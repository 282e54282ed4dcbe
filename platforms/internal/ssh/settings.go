package ssh

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io/fs"
	"net"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/kevinburke/ssh_config"
)

// settings are what the user's ssh configuration says about a machine, by its
// keywords in lower case.
type settings struct {
	all  map[string][]string
	host string
	user string
	port string
}

func (s settings) first(keyword string) string {
	if values := s.all[keyword]; len(values) > 0 {
		return values[0]
	}
	return ""
}

func (s settings) address() string { return net.JoinHostPort(s.host, s.port) }

// hostForm is what a host may look like; it becomes an argument of a program and,
// by the user's configuration, part of others.
var hostForm = regexp.MustCompile(`^[\pL\pN_\[:][\pL\pN._:%\]-]*$`)

// resolve asks the user's own ssh, which alone knows all of its configuration's
// language, and reads the files where there is none.
func resolve(ctx context.Context, target Target) (settings, error) {
	if !hostForm.MatchString(target.Host) {
		return settings{}, errorf(Wrong, "%q is no name or address of a machine", target.Host)
	}
	all, err := askSSH(ctx, target)
	if errors.Is(err, exec.ErrNotFound) {
		all, err = readFiles(target)
	}
	if err != nil {
		return settings{}, err
	}
	s := settings{all: all}
	s.host = cmp.Or(s.first("hostname"), target.Host)
	s.user = cmp.Or(target.User, s.first("user"), currentUser())
	s.port = cmp.Or(s.first("port"), "22")
	if target.Port != 0 {
		s.port = strconv.Itoa(target.Port)
	}
	if command := s.first("proxycommand"); command != "" && command != "none" {
		return s, errorf(Wrong, "%s: the ssh configuration reaches it by a ProxyCommand, which is not supported: use ProxyJump", target)
	}
	return s, nil
}

func askSSH(ctx context.Context, target Target) (map[string][]string, error) {
	words := []string{"-G"}
	if target.ConfigFile != "" {
		words = append(words, "-F", target.ConfigFile)
	}
	if target.User != "" {
		words = append(words, "-l", target.User)
	}
	var said bytes.Buffer
	command := exec.CommandContext(ctx, "ssh", append(words, target.Host)...)
	command.Stderr = &said
	output, err := command.Output()
	if errors.Is(err, exec.ErrNotFound) {
		return nil, err
	}
	if err != nil {
		return nil, errorf(Wrong, "%s: ssh -G cannot read the ssh configuration: %w: %s", target, err, strings.TrimSpace(said.String()))
	}
	all := map[string][]string{}
	for line := range strings.Lines(string(output)) {
		keyword, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		all[keyword] = append(all[keyword], value)
	}
	return all, nil
}

// keywords are what is read of files; ssh itself tells more.
var keywords = []string{"HostName", "User", "Port", "IdentityFile", "IdentitiesOnly", "IdentityAgent",
	"ProxyJump", "ProxyCommand", "UserKnownHostsFile", "GlobalKnownHostsFile", "HostKeyAlias"}

// readFiles reads the configuration without ssh's help.
func readFiles(target Target) (map[string][]string, error) {
	files := []string{target.ConfigFile}
	if target.ConfigFile == "" {
		files = []string{filepath.Join(home(), ".ssh", "config"), "/etc/ssh/ssh_config"}
	}
	all := map[string][]string{}
	for _, file := range files {
		if err := readFile(file, target.Host, all); err != nil {
			return nil, errorf(Wrong, "%s cannot be read: %w: install the ssh client (openssh-client), which can", file, err)
		}
	}
	for keyword, value := range fallbacks() {
		if len(all[keyword]) == 0 {
			all[keyword] = value
		}
	}
	return all, nil
}

func readFile(file, host string, all map[string][]string) error {
	content, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	config, err := ssh_config.DecodeBytes(content)
	if err != nil {
		return err
	}
	for _, keyword := range keywords {
		values, err := config.GetAll(host, keyword)
		if err != nil {
			return err
		}
		if name := strings.ToLower(keyword); len(all[name]) == 0 || name == "identityfile" {
			all[name] = append(all[name], values...)
		}
	}
	return nil
}

// fallbacks are OpenSSH's own.
func fallbacks() map[string][]string {
	return map[string][]string{
		"identityfile":         {"~/.ssh/id_rsa", "~/.ssh/id_ecdsa", "~/.ssh/id_ed25519"},
		"userknownhostsfile":   {"~/.ssh/known_hosts ~/.ssh/known_hosts2"},
		"globalknownhostsfile": {"/etc/ssh/ssh_known_hosts /etc/ssh/ssh_known_hosts2"},
	}
}

func currentUser() string {
	if current, err := user.Current(); err == nil {
		return current.Username
	}
	return os.Getenv("USER")
}

// home is the user's home directory as ssh sees it.
func home() string {
	if current, err := user.Current(); err == nil && current.HomeDir != "" {
		return current.HomeDir
	}
	return os.Getenv("HOME")
}

// expand resolves what ssh leaves for later in the names of files.
func (s settings) expand(path string) string {
	path = strings.Trim(path, `"`)
	if path == "~" || strings.HasPrefix(path, "~/") {
		path = home() + path[1:]
	}
	return strings.NewReplacer("%%", "%", "%d", home(), "%u", currentUser(), "%h", s.host, "%r", s.user, "%p", s.port).Replace(path)
}

// existing are the files that a keyword names and that are there.
func (s settings) existing(keyword string) []string {
	var files []string
	for _, value := range s.all[keyword] {
		words := []string{value}
		if strings.HasSuffix(keyword, "knownhostsfile") {
			words = strings.Fields(value)
		}
		for _, word := range words {
			file := s.expand(word)
			if info, err := os.Stat(file); err == nil && !info.IsDir() && !slices.Contains(files, file) {
				files = append(files, file)
			}
		}
	}
	return files
}

// jumps are the jump hosts before a target, the nearest first. They are logged in
// to by what their own configuration says, never with the target's password.
func (s settings) jumps(target Target) []Target {
	list := s.first("proxyjump")
	if list == "" || list == "none" {
		return nil
	}
	var hops []Target
	for word := range strings.SplitSeq(list, ",") {
		hop := parseHop(strings.TrimSpace(word))
		hop.ConfigFile, hop.AgentSocket, hop.Passphrase = target.ConfigFile, target.AgentSocket, target.Passphrase
		hops = append(hops, hop)
	}
	return hops
}

// parseHop reads [user@]host[:port] or ssh://[user@]host[:port].
func parseHop(word string) Target {
	hop := Target{Host: word}
	if parsed, err := url.Parse("ssh://" + strings.TrimPrefix(word, "ssh://")); err == nil && parsed.Hostname() != "" {
		hop.Host, hop.User = parsed.Hostname(), parsed.User.Username()
		hop.Port, _ = strconv.Atoi(parsed.Port())
	}
	return hop
}
