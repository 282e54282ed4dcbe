package host

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
)

// ElsewhereError says that the state directory belongs to another machine.
type ElsewhereError struct{ Path, Name string }

// Error says what to do about it.
func (e *ElsewhereError) Error() string {
	return fmt.Sprintf("the state directory %s is that of the machine %q: its record must not be worked on by two machines, "+
		"and trials that run there cannot be seen from here. Several machines need a shared record, in PostgreSQL "+
		"(docs/outgrow.md). If %q will never use it again, remove the file %s", e.Path, e.Name, e.Name, filepath.Join(e.Path, machineFile))
}

const machineFile = "machine"

// Settle binds the directory to this machine, or returns an ElsewhereError where
// it is bound to another one. Only a host that shares its Temporal with others
// needs it: there a copy of the directory would be worked on twice. A machine
// without an id, a container say, is bound to nothing.
func (d Dir) Settle() error { return d.settle("/etc/machine-id") }

func (d Dir) settle(idFile string) error {
	id, err := os.ReadFile(idFile)
	id = bytes.TrimSpace(id)
	// systemd says "uninitialized" before the first boot, in images.
	if err != nil || len(id) == 0 || string(id) == "uninitialized" {
		return nil
	}
	written, err := d.once(machineFile, func() string {
		name, _ := os.Hostname() // for people only
		return fmt.Sprintf("%s %s\n", id, name)
	})
	if err != nil {
		return err
	}
	bound, name, _ := bytes.Cut(bytes.TrimSpace(written), []byte(" "))
	if !bytes.Equal(bound, id) {
		return &ElsewhereError{Path: d.path, Name: string(name)}
	}
	return nil
}
